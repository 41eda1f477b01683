/* Records of the channel: counted, tagged, in buffers; no input or output here. */
#ifndef AG_CHANNEL_H
#define AG_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sha256.h"

#define AG_MAX_BODY (1u << 20)
#define AG_MAX_BODY_UNPROVEN 256u
#define AG_HEADER 8u
#define AG_CRC 4u
#define AG_TAG 16u

enum {
    AG_K_HELLO = 1, AG_K_CHALLENGE, AG_K_PROOF, AG_K_WELCOME,
    AG_K_FACTS = 8, AG_K_PUT, AG_K_HAVE, AG_K_CHUNK, AG_K_STORED, AG_K_START, AG_K_STARTED, AG_K_ATTACH, AG_K_DATA,
    AG_K_STOP, AG_K_ENDED, AG_K_REFUSED
};

typedef struct {
    uint8_t kind;
    const uint8_t *body; /* in the channel's buffer, until the next call */
    uint32_t size;
} ag_record_t;

/* Bytes in a row: [at, end) are there. */
typedef struct {
    uint8_t *bytes;
    size_t at, end, cap;
} ag_bytes_t;

typedef struct {
    ag_bytes_t in, out;
    uint64_t sent, received; /* records */
    bool keyed;
    ag_hmac_t send_key, receive_key;
    uint32_t max_body;
} ag_channel_t;

typedef enum { AG_NONE, AG_RECORD, AG_BROKEN } ag_next_t;

void ag_channel_init(ag_channel_t *channel);
void ag_channel_free(ag_channel_t *channel);
/* Tag what follows with keys of 32 bytes. */
void ag_channel_switch(ag_channel_t *channel, const uint8_t *send_key, const uint8_t *receive_key);
/* Where what comes next is to be put; how much of it there is room for, 0 where there is no memory. */
uint8_t *ag_channel_room(ag_channel_t *channel, size_t *room);
/* The next record of what has come. What is too long, damaged, repeated or made by others is BROKEN. */
ag_next_t ag_channel_next(ag_channel_t *channel, ag_record_t *record);
/* Append a record to what is to be sent; false where there is no memory. */
bool ag_channel_send(ag_channel_t *channel, uint8_t kind, const void *body, uint32_t size);
/* The same for a body that is made in its place: room for size bytes, then how many they became. */
uint8_t *ag_channel_begin(ag_channel_t *channel, uint32_t size);
void ag_channel_end(ag_channel_t *channel, uint8_t kind, uint32_t size);

/* Room for n bytes at the end; false where there is no memory. */
bool ag_bytes_reserve(ag_bytes_t *bytes, size_t n);
void ag_bytes_taken(ag_bytes_t *bytes, size_t n);

uint64_t ag_get(const uint8_t *p, unsigned n); /* little-endian */
void ag_put(uint8_t *p, uint64_t value, unsigned n);

#endif
