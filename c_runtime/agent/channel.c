#include "channel.h"

#include <stdlib.h>
#include <string.h>

#define ROOM_UNPROVEN 1024u
#define ROOM (256u << 10)

uint64_t ag_get(const uint8_t *p, unsigned n)
{
    uint64_t value = 0;
    while (n-- != 0) {
        value = value << 8 | p[n];
    }
    return value;
}

void ag_put(uint8_t *p, uint64_t value, unsigned n)
{
    for (unsigned i = 0; i < n; ++i) {
        p[i] = (uint8_t)(value >> 8u * i);
    }
}

bool ag_bytes_reserve(ag_bytes_t *b, size_t n)
{
    if (b->cap - b->end >= n) {
        return true;
    }
    if (b->at != 0) {
        memmove(b->bytes, b->bytes + b->at, b->end - b->at);
        b->end -= b->at;
        b->at = 0;
    }
    if (b->cap - b->end < n) {
        uint8_t *more = realloc(b->bytes, b->end + n);
        if (more == NULL) {
            return false;
        }
        b->bytes = more;
        b->cap = b->end + n;
    }
    return true;
}

void ag_bytes_taken(ag_bytes_t *b, size_t n)
{
    b->at += n;
    if (b->at == b->end) {
        b->at = b->end = 0;
    }
}

void ag_channel_init(ag_channel_t *c)
{
    memset(c, 0, sizeof *c);
    c->max_body = AG_MAX_BODY_UNPROVEN;
}

void ag_channel_free(ag_channel_t *c)
{
    free(c->in.bytes);
    free(c->out.bytes);
    memset(c, 0, sizeof *c); /* keys too */
}

void ag_channel_switch(ag_channel_t *c, const uint8_t *send_key, const uint8_t *receive_key)
{
    ag_hmac_init(&c->send_key, send_key, AG_SHA256_BYTES);
    ag_hmac_init(&c->receive_key, receive_key, AG_SHA256_BYTES);
    c->keyed = true;
}

uint8_t *ag_channel_room(ag_channel_t *c, size_t *room)
{
    size_t want = c->max_body > AG_MAX_BODY_UNPROVEN ? ROOM : ROOM_UNPROVEN, held = c->in.end - c->in.at;
    if (held >= AG_HEADER) {
        uint32_t size = (uint32_t)ag_get(c->in.bytes + c->in.at, 4);
        size_t whole = AG_HEADER + (size < c->max_body ? size : c->max_body) + AG_TAG;
        want = whole > held && whole - held > want ? whole - held : want;
    }
    *room = 0;
    if (c->in.cap - c->in.end < (want > ROOM ? want : want / 4u) && !ag_bytes_reserve(&c->in, want)) {
        return NULL; /* what is there is moved only once little is left */
    }
    *room = c->in.cap - c->in.end;
    return c->in.bytes + c->in.end;
}

/* The tag of a record; its bytes. */
static uint32_t tag_of(const ag_channel_t *c, const ag_hmac_t *key, uint64_t counter, const uint8_t *head,
                       const uint8_t *body, uint32_t size, uint8_t tag[AG_SHA256_BYTES])
{
    uint8_t number[8];
    ag_put(number, counter, 8);
    if (!c->keyed) {
        ag_put(tag, ag_crc32(ag_crc32(ag_crc32(0, number, 8), head, AG_HEADER), body, size), AG_CRC);
        return AG_CRC;
    }
    ag_hmac_t mac = *key;
    ag_hmac_update(&mac, number, 8);
    ag_hmac_update(&mac, head, AG_HEADER);
    ag_hmac_update(&mac, body, size);
    ag_hmac_final(&mac, tag);
    return AG_TAG;
}

ag_next_t ag_channel_next(ag_channel_t *c, ag_record_t *record)
{
    size_t held = c->in.end - c->in.at;
    if (held < AG_HEADER) {
        return AG_NONE;
    }
    const uint8_t *head = c->in.bytes + c->in.at;
    uint32_t size = (uint32_t)ag_get(head, 4), tag_bytes = c->keyed ? AG_TAG : AG_CRC;
    if (size > c->max_body) {
        return AG_BROKEN;
    }
    if (held < AG_HEADER + (size_t)size + tag_bytes) {
        return AG_NONE;
    }
    uint8_t tag[AG_SHA256_BYTES];
    (void)tag_of(c, &c->receive_key, c->received, head, head + AG_HEADER, size, tag);
    if (!ag_same(tag, head + AG_HEADER + size, tag_bytes)) {
        return AG_BROKEN;
    }
    ++c->received;
    record->kind = head[4];
    record->body = head + AG_HEADER;
    record->size = size;
    ag_bytes_taken(&c->in, AG_HEADER + (size_t)size + tag_bytes);
    return AG_RECORD;
}

uint8_t *ag_channel_begin(ag_channel_t *c, uint32_t size)
{
    if (!ag_bytes_reserve(&c->out, AG_HEADER + (size_t)size + AG_TAG)) {
        return NULL;
    }
    return c->out.bytes + c->out.end + AG_HEADER;
}

void ag_channel_end(ag_channel_t *c, uint8_t kind, uint32_t size)
{
    uint8_t *head = c->out.bytes + c->out.end, tag[AG_SHA256_BYTES];
    memset(head, 0, AG_HEADER);
    ag_put(head, size, 4);
    head[4] = kind;
    uint32_t tag_bytes = tag_of(c, &c->send_key, c->sent++, head, head + AG_HEADER, size, tag);
    memcpy(head + AG_HEADER + size, tag, tag_bytes);
    c->out.end += AG_HEADER + (size_t)size + tag_bytes;
}

bool ag_channel_send(ag_channel_t *c, uint8_t kind, const void *body, uint32_t size)
{
    uint8_t *place = ag_channel_begin(c, size);
    if (place == NULL) {
        return false;
    }
    if (size != 0) {
        memcpy(place, body, size);
    }
    ag_channel_end(c, kind, size);
    return true;
}
