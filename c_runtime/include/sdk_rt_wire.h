/* Wire v1: COBS frames with CRC-32C over any byte pipe. docs/wire.md is the specification. */
#ifndef SDK_RT_WIRE_H
#define SDK_RT_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#define SDK_RT_WIRE_VERSION 1u
#define SDK_RT_WIRE_MAGIC 0x574B4453u /* "SDKW" */
#define SDK_RT_WIRE_HEADER 8u         /* kind, flags, session, id, op */
#define SDK_RT_WIRE_CRC 4u
#define SDK_RT_WIRE_OVERHEAD (SDK_RT_WIRE_HEADER + SDK_RT_WIRE_CRC)

/* Bytes on the wire for a frame of n bytes at most: a delimiter before, the codes, a delimiter after. */
#define SDK_RT_WIRE_ENCODED(n) ((n) + (n) / 254u + 3u)

enum { /* frame kinds */
    SDK_RT_KIND_HELLO = 1,
    SDK_RT_KIND_HELLO_ACK = 2,
    SDK_RT_KIND_REQ = 3,
    SDK_RT_KIND_RSP = 4,
    SDK_RT_KIND_EVT = 7,
    SDK_RT_KIND_ERR = 8,
    SDK_RT_KIND_BYE = 9,
    SDK_RT_KIND_CANCEL = 10
};

enum { /* ops of REQ, RSP and ERR frames */
    SDK_RT_OP_PING = 1,
    SDK_RT_OP_INFO = 2,
    SDK_RT_OP_MODEL_INFO = 3,
    SDK_RT_OP_TENSOR_INFO = 4,
    SDK_RT_OP_DIM_INFO = 5,
    SDK_RT_OP_TENSOR_WRITE = 6,
    SDK_RT_OP_TENSOR_READ = 7,
    SDK_RT_OP_RUN = 8,
    SDK_RT_OP_RESET_STATE = 9,
    SDK_RT_OP_SELFTEST = 10,
    SDK_RT_OP_RESET = 11,
    SDK_RT_OP_PROFILE = 12,
    SDK_RT_OP_BAUD = 13
};

enum { SDK_RT_EVT_PROGRESS = 1, SDK_RT_EVT_DAMAGED = 2 }; /* ops of EVT frames */

enum { /* codes of ERR frames */
    SDK_RT_ERR_VERSION = 1, /* no common version; detail = min << 8 | max */
    SDK_RT_ERR_SESSION = 2, /* the frame belongs to no open session */
    SDK_RT_ERR_OP = 3,
    SDK_RT_ERR_PAYLOAD = 4, /* too short, or its lengths do not agree */
    SDK_RT_ERR_RANGE = 5,   /* an index, offset or count outside its range; detail = the limit */
    SDK_RT_ERR_STATUS = 6,  /* the model returned detail */
    SDK_RT_ERR_NONE = 7,    /* the model does not offer this */
    SDK_RT_ERR_FAULT = 8,   /* the device crashed; a crash record follows */
    SDK_RT_ERR_CANCELLED = 9 /* the host called the runs off; detail = how many were done */
};

enum { /* bits of what an agent offers beyond the first */
    SDK_RT_CAN_CANCEL = 1,
    SDK_RT_CAN_REPORT_DAMAGE = 2,
    SDK_RT_CAN_CHANGE_BAUD = 4
};

#define SDK_RT_BASE_BAUD 115200u /* of a UART at start, and of every greeting of a new host */

enum { SDK_RT_COUNTER_TIME = 1, SDK_RT_COUNTER_CYCLES = 2 }; /* what the ticks of a device count */

uint32_t sdk_rt_crc32c(const uint8_t *data, uint32_t n);

/* What a byte fed to the decoder completed. */
typedef enum {
    SDK_RT_RX_NONE,    /* nothing yet */
    SDK_RT_RX_FRAME,   /* a frame with a valid CRC: buf[0..len), CRC taken off, valid until the next byte */
    SDK_RT_RX_DAMAGED, /* something that is no frame: console text, a lost or flipped byte */
    SDK_RT_RX_LONG     /* more bytes than the buffer holds; dropped */
} sdk_rt_rx_t;

/* Decoder state; the buffer belongs to the caller and bounds every write. */
typedef struct {
    uint8_t *buf;
    uint32_t cap, len;
    uint8_t code, left; /* current COBS block: its code (0 before the first), its bytes still to come */
    bool overflow, done;
} sdk_rt_decoder_t;

void sdk_rt_decoder_init(sdk_rt_decoder_t *d, uint8_t *buf, uint32_t cap);
sdk_rt_rx_t sdk_rt_decoder_feed(sdk_rt_decoder_t *d, uint8_t byte);

/* Append the CRC to frame[0..n), which has room for it; returns n + 4. */
uint32_t sdk_rt_wire_seal(uint8_t *frame, uint32_t n);

/*
 * Encode src[0..n) with its delimiters into dst; returns the bytes written, 0 if cap is too small.
 * src may lie in dst's buffer, SDK_RT_WIRE_ENCODED(n) - n bytes in or later: writing never overtakes reading.
 */
uint32_t sdk_rt_wire_encode(uint8_t *dst, uint32_t cap, const uint8_t *src, uint32_t n);

/* Little-endian fields at any alignment: an access of the core, or several on one that needs them aligned, where calls
 * are smaller. */
#if defined(__ARM_ARCH_6M__)
uint16_t sdk_rt_get16(const uint8_t *p);
uint32_t sdk_rt_get32(const uint8_t *p);
void sdk_rt_put16(uint8_t *p, uint32_t v);
void sdk_rt_put32(uint8_t *p, uint32_t v);
#else
#undef SDK_RT_FIELD
#define SDK_RT_FIELD static inline
#endif

#if defined(SDK_RT_FIELD)
SDK_RT_FIELD uint16_t sdk_rt_get16(const uint8_t *p)
{
    return (uint16_t)(p[0] | (uint32_t)p[1] << 8);
}

SDK_RT_FIELD uint32_t sdk_rt_get32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

SDK_RT_FIELD void sdk_rt_put16(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

SDK_RT_FIELD void sdk_rt_put32(uint8_t *p, uint32_t v)
{
    sdk_rt_put16(p, v);
    sdk_rt_put16(p + 2, v >> 16);
}
#endif

#endif /* SDK_RT_WIRE_H */
