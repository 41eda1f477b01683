/* SHA-256 by a processor's own instructions, where it has them (Intel SHA extensions, Armv8 Cryptographic Extension). */
#ifndef AG_SHA256_FAST_H
#define AG_SHA256_FAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern const uint32_t ag_sha256_k[64];

/* Take blocks of 64 bytes into the state; false, and nothing done, where the processor has no such instructions. */
bool ag_sha256_fast(uint32_t state[8], const uint8_t *data, size_t blocks);

#endif
