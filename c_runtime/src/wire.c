/* The codec of wire v1: COBS, CRC-32C, a decoder that is a pure function of its bytes, a bounded encoder. */
#define SDK_RT_FIELD /* here they are, where they are not inline */
#include "sdk_rt_wire.h"

/* CRC-32C (Castagnoli, reflected) of the sixteen nibbles. */
static const uint32_t crc_nibble[16] = {
    0x00000000u, 0x105EC76Fu, 0x20BD8EDEu, 0x30E349B1u, 0x417B1DBCu, 0x5125DAD3u, 0x61C69362u, 0x7198540Du,
    0x82F63B78u, 0x92A8FC17u, 0xA24BB5A6u, 0xB21572C9u, 0xC38D26C4u, 0xD3D3E1ABu, 0xE330A81Au, 0xF36E6F75u,
};

uint32_t sdk_rt_crc32c(const uint8_t *data, uint32_t n)
{
    uint32_t crc = 0xFFFFFFFFu;
    for (uint32_t i = 0; i < n; ++i) {
        crc ^= data[i];
        crc = (crc >> 4) ^ crc_nibble[crc & 15u];
        crc = (crc >> 4) ^ crc_nibble[crc & 15u];
    }
    return ~crc;
}

static void restart(sdk_rt_decoder_t *d)
{
    d->len = 0;
    d->code = 0;
    d->left = 0;
    d->overflow = false;
    d->done = false;
}

void sdk_rt_decoder_init(sdk_rt_decoder_t *d, uint8_t *buf, uint32_t cap)
{
    d->buf = buf;
    d->cap = cap;
    restart(d);
}

static void append(sdk_rt_decoder_t *d, uint8_t byte)
{
    if (d->len < d->cap) {
        d->buf[d->len++] = byte;
    } else {
        d->overflow = true;
    }
}

/* A delimiter came: say what lies before it. */
static sdk_rt_rx_t finish(sdk_rt_decoder_t *d)
{
    d->done = true;
    if (d->code == 0) {
        return SDK_RT_RX_NONE;
    }
    if (d->overflow) {
        return SDK_RT_RX_LONG;
    }
    if (d->left != 0 || d->len < SDK_RT_WIRE_OVERHEAD) {
        return SDK_RT_RX_DAMAGED;
    }
    uint32_t n = d->len - SDK_RT_WIRE_CRC;
    if (sdk_rt_crc32c(d->buf, n) != sdk_rt_get32(d->buf + n)) {
        return SDK_RT_RX_DAMAGED;
    }
    d->len = n;
    return SDK_RT_RX_FRAME;
}

sdk_rt_rx_t sdk_rt_decoder_feed(sdk_rt_decoder_t *d, uint8_t byte)
{
    if (d->done) {
        restart(d);
    }
    if (byte == 0) {
        return finish(d);
    }
    if (d->left != 0) {
        append(d, byte);
        --d->left;
        return SDK_RT_RX_NONE;
    }
    if (d->code != 0 && d->code != 0xFFu) {
        append(d, 0); /* the zero that the previous block stood for */
    }
    d->code = byte;
    d->left = (uint8_t)(byte - 1u);
    return SDK_RT_RX_NONE;
}

uint32_t sdk_rt_wire_seal(uint8_t *frame, uint32_t n)
{
    sdk_rt_put32(frame + n, sdk_rt_crc32c(frame, n));
    return n + SDK_RT_WIRE_CRC;
}

uint32_t sdk_rt_wire_encode(uint8_t *dst, uint32_t cap, const uint8_t *src, uint32_t n)
{
    if (cap < SDK_RT_WIRE_ENCODED(n)) {
        return 0;
    }
    uint32_t code_at = 1, w = 2;
    uint8_t code = 1;
    dst[0] = 0;
    for (uint32_t i = 0; i < n; ++i) {
        uint8_t byte = src[i];
        if (code == 0xFFu) { /* a full block stands for no zero; open the next one only when a byte follows */
            dst[code_at] = code;
            code_at = w++;
            code = 1;
        }
        if (byte == 0) {
            dst[code_at] = code;
            code_at = w++;
            code = 1;
        } else {
            dst[w++] = byte;
            ++code;
        }
    }
    dst[code_at] = code;
    dst[w++] = 0;
    return w;
}
