/*
 * Fuzz target: the decoder and the dispatcher, with the port replaced by checks of what the agent sends.
 * The first byte of an input chooses: raw bytes for the decoder, or frames (u16 length, bytes), made valid.
 */
#include <stdlib.h>
#include <string.h>

#include "sdk_rt_agent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FRAME_BYTES 2048u /* a power of 2 */
#define OP_AT 6u
#define SESSION_AT 2u
#define WARMUP_AT (SDK_RT_WIRE_HEADER + 8u)

const sdk_rt_port_facts_t sdk_rt_port_facts = {"fuzz", 1000u, SDK_RT_COUNTER_TIME};

static sdk_rt_agent_t agent;
static uint64_t clock_ticks;
static const uint8_t *rest;
static uint32_t rest_bytes;

/* Everything the agent sends must be whole, valid frames. */
void sdk_rt_port_write(const uint8_t *bytes, uint32_t n)
{
    static uint8_t buf[SDK_RT_FRAME_MAX];
    sdk_rt_decoder_t d;
    uint32_t frames = 0;
    sdk_rt_decoder_init(&d, buf, sizeof buf);
    for (uint32_t i = 0; i < n; ++i) {
        sdk_rt_rx_t event = sdk_rt_decoder_feed(&d, bytes[i]);
        if (event == SDK_RT_RX_DAMAGED || event == SDK_RT_RX_LONG) {
            abort();
        }
        frames += event == SDK_RT_RX_FRAME;
    }
    if (frames != 1) {
        abort();
    }
}

/* What comes during a series of runs: bytes of the input, from time to time. */
int sdk_rt_port_read(void)
{
    return rest_bytes != 0 && clock_ticks / 100u % 3u == 0 ? (--rest_bytes, *rest++) : -1;
}

/* A rate is set only where an answer has promised it, or the first one again. */
uint32_t sdk_rt_port_baud(uint32_t baud, bool set)
{
    static uint32_t could;
    if (baud < SDK_RT_BASE_BAUD || (set && baud != could && baud != SDK_RT_BASE_BAUD)) {
        abort();
    }
    if (!set) {
        could = baud;
    }
    return baud < 1000000u ? baud : 1000000u;
}

uint64_t sdk_rt_port_ticks(void)
{
    return clock_ticks += 100;
}

uint32_t sdk_rt_port_stack_bytes(void)
{
    return 0;
}

uint32_t sdk_rt_port_stack_used(void)
{
    return 0;
}

void sdk_rt_port_reset(void)
{
    sdk_rt_agent_init(&agent, NULL);
}

/* Feed bytes; series of runs may take some of them in between. */
static void feed(const uint8_t *bytes, uint32_t n)
{
    rest = bytes;
    rest_bytes = n;
    while (rest_bytes != 0) {
        --rest_bytes;
        sdk_rt_agent_feed(&agent, *rest++);
    }
    rest = NULL;
}

/* Give a frame a valid CRC, often the open session, and a bearable number of warm-up runs; returns its bytes in wire. */
static uint32_t make_frame(const uint8_t *bytes, uint32_t n, uint8_t *wire)
{
    uint8_t frame[FRAME_BYTES];
    if (n < SDK_RT_WIRE_HEADER || n + SDK_RT_WIRE_CRC > sizeof frame) {
        return 0;
    }
    memcpy(frame, bytes, n);
    if ((frame[1] & 3u) != 0) {
        sdk_rt_put16(frame + SESSION_AT, agent.session);
    }
    if (sdk_rt_get16(frame + OP_AT) == SDK_RT_OP_RUN && n >= WARMUP_AT + 4u) {
        sdk_rt_put32(frame + WARMUP_AT, frame[WARMUP_AT]);
    }
    return sdk_rt_wire_encode(wire, SDK_RT_WIRE_ENCODED(FRAME_BYTES), frame, sdk_rt_wire_seal(frame, n));
}

static void open_session(void)
{
    uint8_t frame[24] = {SDK_RT_KIND_HELLO}, wire[SDK_RT_WIRE_ENCODED(FRAME_BYTES)];
    sdk_rt_put16(frame + 8, 16);
    frame[10] = frame[11] = SDK_RT_WIRE_VERSION;
    sdk_rt_put32(frame + 12, SDK_RT_WIRE_MAGIC);
    sdk_rt_put32(frame + 16, 0x12345678u);
    sdk_rt_put32(frame + 20, 65536u);
    feed(wire, make_frame(frame, sizeof frame, wire));
    if (!agent.open) {
        abort();
    }
}

/* Frames one after the other; or, as a host that does not wait for answers sends them, all at once. */
static void feed_frames(const uint8_t *data, size_t size, bool at_once)
{
    static uint8_t wire[2u * 65536u + SDK_RT_WIRE_ENCODED(FRAME_BYTES)];
    uint32_t len = 0;
    for (size_t at = 0; at + 2 <= size;) {
        size_t n = sdk_rt_get16(data + at) & (FRAME_BYTES - 1u);
        at += 2;
        n = n < size - at ? n : size - at;
        len += make_frame(data + at, (uint32_t)n, wire + len);
        at += n;
        if (!at_once || len > 2u * 65536u) {
            feed(wire, len);
            len = 0;
        }
    }
    feed(wire, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 65536) {
        return 0;
    }
    sdk_rt_agent_init(&agent, NULL);
    if ((data[0] & 1u) == 0) {
        feed(data + 1, (uint32_t)size - 1);
    } else {
        open_session();
        feed_frames(data + 1, size - 1, (data[0] & 2u) != 0);
    }
    feed((const uint8_t *)"\0\0", 2); /* whatever came before, a valid HELLO is answered */
    agent.open = false;
    open_session();
    return 0;
}
