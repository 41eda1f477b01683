/* SHA-256 (FIPS 180-4), HMAC-SHA256 (RFC 2104) and CRC-32 (the one of zlib). */
#ifndef AG_SHA256_H
#define AG_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AG_SHA256_BYTES 32u
#define AG_SHA256_BLOCK 64u

typedef struct {
    uint32_t state[8];
    uint64_t bytes; /* taken so far */
    uint8_t block[AG_SHA256_BLOCK];
} ag_sha256_t;

/* A key, of which each message starts with a copy. */
typedef struct {
    ag_sha256_t inner, outer;
} ag_hmac_t;

void ag_sha256_init(ag_sha256_t *h);
void ag_sha256_update(ag_sha256_t *h, const void *data, size_t n);
void ag_sha256_final(ag_sha256_t *h, uint8_t out[AG_SHA256_BYTES]);

void ag_hmac_init(ag_hmac_t *h, const void *key, size_t n);
void ag_hmac_update(ag_hmac_t *h, const void *data, size_t n);
void ag_hmac_final(ag_hmac_t *h, uint8_t out[AG_SHA256_BYTES]);

/* Whether n bytes are the same, in a time that does not tell which of them are not. */
bool ag_same(const uint8_t *a, const uint8_t *b, size_t n);

/* The CRC-32 of what came before (0: nothing) and n bytes more. */
uint32_t ag_crc32(uint32_t crc, const void *data, size_t n);

#endif
