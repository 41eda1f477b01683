/* The C codec as one call each, for ctypes: decode a stream into a list of events, encode one frame. */
#include <string.h>

#include "sdk_rt_wire.h"

/* Each event but NONE as its kind (u8), frames with length (u32) and bytes; returns the bytes written. */
uint32_t shim_decode(const uint8_t *in, uint32_t n, uint8_t *buf, uint32_t cap, uint8_t *out);
uint32_t shim_encode(const uint8_t *frame, uint32_t n, uint8_t *buf, uint32_t cap);

uint32_t shim_decode(const uint8_t *in, uint32_t n, uint8_t *buf, uint32_t cap, uint8_t *out)
{
    sdk_rt_decoder_t d;
    uint32_t w = 0;
    sdk_rt_decoder_init(&d, buf, cap);
    for (uint32_t i = 0; i < n; ++i) {
        sdk_rt_rx_t event = sdk_rt_decoder_feed(&d, in[i]);
        if (event == SDK_RT_RX_NONE) {
            continue;
        }
        out[w++] = (uint8_t)event;
        if (event == SDK_RT_RX_FRAME) {
            sdk_rt_put32(out + w, d.len);
            memcpy(out + w + 4, d.buf, d.len);
            w += 4 + d.len;
        }
    }
    return w;
}

/* Seal and encode in place, as the agent does: the frame is moved to the end of buf first. */
uint32_t shim_encode(const uint8_t *frame, uint32_t n, uint8_t *buf, uint32_t cap)
{
    uint32_t room = SDK_RT_WIRE_ENCODED(n + SDK_RT_WIRE_CRC);
    if (cap < room) {
        return 0;
    }
    uint8_t *at = buf + room - n - SDK_RT_WIRE_CRC;
    memcpy(at, frame, n);
    return sdk_rt_wire_encode(buf, cap, at, sdk_rt_wire_seal(at, n));
}
