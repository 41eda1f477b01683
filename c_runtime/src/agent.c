/* Sessions: greetings, requests that are executed once however often they are sent, errors, crash reports. */
#include <stddef.h>

#include "internal/agent_parts.h"
#include "sdk_rt.h"
#include "sdk_rt_mem.h"

/* Where in the send buffer a frame begins that is then encoded in place. */
#define TX_SLACK (SDK_RT_WIRE_ENCODED(SDK_RT_FRAME_MAX) - SDK_RT_FRAME_MAX)
#define VERSIONS (SDK_RT_WIRE_VERSION << 8 | SDK_RT_WIRE_VERSION) /* the least and the greatest spoken */
#define MIN_FRAME 256u
#define CRASH_BYTES 20u
#define LOST_IN_A_ROW 5u /* damaged pieces, after which the host is taken to talk at another rate */
#define HEARD_OUT_PER_SECOND 20u /* silence after which a host that spoke during a run has said it all */

static void put_header(uint8_t *f, uint8_t kind, uint16_t session, uint16_t id, uint16_t op)
{
    f[0] = kind;
    f[1] = 0;
    sdk_rt_put16(f + 2, session);
    sdk_rt_put16(f + 4, id);
    sdk_rt_put16(f + 6, op);
}

void sdk_rt_send_small(uint8_t kind, uint16_t session, uint16_t id, uint16_t op, const uint8_t *payload,
                       uint32_t n)
{
    uint8_t frame[SDK_RT_SMALL_MAX + SDK_RT_WIRE_OVERHEAD];
    uint8_t wire[SDK_RT_WIRE_ENCODED(SDK_RT_SMALL_MAX + SDK_RT_WIRE_OVERHEAD)];
    put_header(frame, kind, session, id, op);
    memcpy(frame + SDK_RT_WIRE_HEADER, payload, n);
    uint32_t len = sdk_rt_wire_seal(frame, SDK_RT_WIRE_HEADER + n);
    sdk_rt_port_write(wire, sdk_rt_wire_encode(wire, sizeof wire, frame, len));
}

/* Seal, encode, send and keep the frame whose payload of n bytes is in place in the send buffer. */
static void send_kept(sdk_rt_agent_t *a, uint8_t kind, uint16_t id, uint16_t op, uint32_t n)
{
    uint8_t *frame = a->tx_buf + TX_SLACK;
    put_header(frame, kind, a->session, id, op);
    uint32_t len = sdk_rt_wire_seal(frame, SDK_RT_WIRE_HEADER + n);
    a->tx_len = sdk_rt_wire_encode(a->tx_buf, sizeof a->tx_buf, frame, len);
    sdk_rt_port_write(a->tx_buf, a->tx_len);
}

static uint32_t put_error(uint8_t *p, uint16_t code, int32_t detail)
{
    sdk_rt_put16(p, 8);
    sdk_rt_put16(p + 2, code);
    sdk_rt_put32(p + 4, (uint32_t)detail);
    return 8;
}

static void put_crash(uint8_t *p, const sdk_rt_crash_t *crash)
{
    sdk_rt_put32(p, crash->cause);
    sdk_rt_put32(p + 4, crash->pc);
    sdk_rt_put32(p + 8, crash->lr);
    sdk_rt_put32(p + 12, crash->cfsr);
    sdk_rt_put32(p + 16, crash->addr);
}

uint32_t sdk_rt_put_text(uint8_t *p, const char *text)
{
    uint32_t n = 0;
    while (n < SDK_RT_MAX_TEXT && text[n] != '\0') {
        p[1 + n] = (uint8_t)text[n];
        ++n;
    }
    p[0] = (uint8_t)n;
    return 1 + n;
}

#if defined(SDK_RT_BAUDS)
#define OFFERS (SDK_RT_CAN_CANCEL | SDK_RT_CAN_REPORT_DAMAGE | SDK_RT_CAN_CHANGE_BAUD)

/* Go on at the rate that an answer has promised; a repeat of the answer promises it again. */
static void change_baud(sdk_rt_agent_t *a)
{
    if (a->baud != 0) {
        (void)sdk_rt_port_baud(a->baud, true);
        a->changed = true;
        a->lost = 0;
    }
}

/* Go back to the rate at which everybody begins. */
static void base_baud(sdk_rt_agent_t *a)
{
    if (a->changed) {
        (void)sdk_rt_port_baud(SDK_RT_BASE_BAUD, true);
        a->changed = false;
    }
}
#else
#define OFFERS (SDK_RT_CAN_CANCEL | SDK_RT_CAN_REPORT_DAMAGE)
#define change_baud(a) ((void)(a))
#define base_baud(a) ((void)(a))
#endif

static void request(sdk_rt_agent_t *a, const uint8_t *frame, uint32_t len)
{
    uint16_t session = sdk_rt_get16(frame + 2), id = sdk_rt_get16(frame + 4), op = sdk_rt_get16(frame + 6);
    if (!a->open || session != a->session) {
        uint8_t p[8];
        sdk_rt_send_small(SDK_RT_KIND_ERR, session, id, op, p, put_error(p, SDK_RT_ERR_SESSION, a->session));
        return;
    }
    if (a->answered && id == a->id) {
        sdk_rt_port_write(a->tx_buf, a->tx_len);
        change_baud(a);
        return;
    }
    a->crashed = false;
    a->answered = false;
    a->id = id;
    a->op = op;
    a->baud = 0;
    uint8_t *out = a->tx_buf + TX_SLACK + SDK_RT_WIRE_HEADER;
    int32_t n = sdk_rt_dispatch(a, op, frame + SDK_RT_WIRE_HEADER, len - SDK_RT_WIRE_HEADER, out);
    uint8_t kind = SDK_RT_KIND_RSP;
    if (n < 0) {
        kind = SDK_RT_KIND_ERR;
        n = (int32_t)put_error(out, (uint16_t)-n, a->detail);
    }
    send_kept(a, kind, id, op, (uint32_t)n);
    a->answered = true;
    change_baud(a);
    if (op == SDK_RT_OP_RESET) {
        sdk_rt_port_reset();
    }
}

static uint32_t put_hello_ack(const sdk_rt_agent_t *a, uint8_t *p)
{
    sdk_rt_put16(p, 32 + CRASH_BYTES);
    p[2] = SDK_RT_WIRE_VERSION;
    p[3] = 1; /* window: one request at a time */
    sdk_rt_put32(p + 4, a->nonce);
    sdk_rt_put16(p + 8, a->session);
    p[10] = sdk_rt_port_facts.counter;
    p[11] = a->crashed;
    sdk_rt_put32(p + 12, SDK_RT_FRAME_MAX);
    sdk_rt_put32(p + 16, SDK_RT_FRAME_MAX);
    sdk_rt_put32(p + 20, sdk_rt_port_facts.timer_hz);
    sdk_rt_put16(p + 24, sdk_rt_model_count);
    sdk_rt_put16(p + 26, OFFERS);
    sdk_rt_put32(p + 28, (uint32_t)a->last_error);
    put_crash(p + 32, &a->crash);
    return 32 + CRASH_BYTES + sdk_rt_put_text(p + 32 + CRASH_BYTES, sdk_rt_build_id);
}

/* Open a session. A repeated HELLO (same nonce) gets the same session; a new one ends the old session. */
static void hello(sdk_rt_agent_t *a, const uint8_t *p, uint32_t n)
{
    if (n < 16 || sdk_rt_get16(p) < 16 || sdk_rt_get16(p) > n || sdk_rt_get32(p + 4) != SDK_RT_WIRE_MAGIC) {
        ++a->damaged;
        return;
    }
    if (p[2] > SDK_RT_WIRE_VERSION || p[3] < SDK_RT_WIRE_VERSION || sdk_rt_get32(p + 12) < MIN_FRAME) {
        uint8_t e[8];
        bool small = sdk_rt_get32(p + 12) < MIN_FRAME;
        uint32_t n_error = put_error(e, small ? SDK_RT_ERR_RANGE : SDK_RT_ERR_VERSION,
                                     (int32_t)(small ? MIN_FRAME : VERSIONS));
        sdk_rt_send_small(SDK_RT_KIND_ERR, 0, 0, 0, e, n_error);
        return;
    }
    uint32_t nonce = sdk_rt_get32(p + 8);
    if (!a->open || nonce != a->nonce) {
        uint16_t session = (uint16_t)(nonce ^ nonce >> 16);
        a->session = session == a->session ? (uint16_t)(session + 1u) : session;
    }
    a->open = true;
    a->answered = false;
    a->nonce = nonce;
    a->peer_max = sdk_rt_get32(p + 12);
    uint32_t len = put_hello_ack(a, a->tx_buf + TX_SLACK + SDK_RT_WIRE_HEADER);
    send_kept(a, SDK_RT_KIND_HELLO_ACK, 0, 0, len);
}

/* Not inlined: within the loop of its caller, compilers compute everything ahead of it, and take a tenth more code. */
__attribute__((noinline)) static void frame_in(sdk_rt_agent_t *a, const uint8_t *frame, uint32_t len)
{
    switch (frame[0]) {
    case SDK_RT_KIND_HELLO:
        hello(a, frame + SDK_RT_WIRE_HEADER, len - SDK_RT_WIRE_HEADER);
        break;
    case SDK_RT_KIND_REQ:
        request(a, frame, len);
        break;
    case SDK_RT_KIND_BYE:
        if (a->open && sdk_rt_get16(frame + 2) == a->session) {
            a->open = false;
            sdk_rt_send_small(SDK_RT_KIND_BYE, a->session, sdk_rt_get16(frame + 4), 0, frame, 0);
            base_baud(a);
        }
        break;
    default: /* kinds that only a device sends, or a later version; CANCEL of what is done already */
        break;
    }
}

void sdk_rt_agent_init(sdk_rt_agent_t *a, const sdk_rt_crash_t *crash)
{
    memset(a, 0, sizeof *a);
    sdk_rt_decoder_init(&a->rx, a->rx_buf, sizeof a->rx_buf);
    if (crash != NULL) {
        a->crash = *crash;
        a->crashed = true;
    }
    for (uint16_t i = 0; i < sdk_rt_model_count; ++i) {
        int status = sdk_rt_models[i]->abi == SDK_RT_ABI ? sdk_rt_models[i]->init() : SDK_RT_E_STATE;
        if (status != SDK_RT_OK) {
            a->last_error = status;
        }
    }
}

/* Take a byte; return whether it completes a frame. Where it ends a damaged one, an open session is told at once. */
static bool take(sdk_rt_agent_t *a, uint8_t byte)
{
    sdk_rt_rx_t event = sdk_rt_decoder_feed(&a->rx, byte);
    if (event == SDK_RT_RX_FRAME) {
        ++a->frames;
        a->lost = 0;
        return true;
    }
    if (event != SDK_RT_RX_NONE) {
        ++*(event == SDK_RT_RX_LONG ? &a->overlong : &a->damaged);
        if (a->open) {
            sdk_rt_send_small(SDK_RT_KIND_EVT, a->session, a->id, SDK_RT_EVT_DAMAGED, a->rx_buf, 0);
        }
        if (++a->lost >= LOST_IN_A_ROW) {
            base_baud(a);
        }
    }
    return false;
}

/* Whether a frame that comes during a series of runs ends it: anything of the host's but the request once more. */
static bool takes_over(const sdk_rt_agent_t *a, const uint8_t *frame)
{
    bool ours = sdk_rt_get16(frame + 2) == a->session, same = sdk_rt_get16(frame + 4) == a->id;
    switch (frame[0]) {
    case SDK_RT_KIND_HELLO:
        return true;
    case SDK_RT_KIND_REQ:
        return ours && !same;
    case SDK_RT_KIND_CANCEL:
        return ours && same;
    default:
        return ours && frame[0] == SDK_RT_KIND_BYE;
    }
}

bool sdk_rt_called_off(sdk_rt_agent_t *a)
{
    int byte = sdk_rt_port_read();
    if (byte < 0) {
        return false;
    }
    /* A UART that nobody read during the run has lost all but the last bytes: hear the host out, it repeats itself. */
    uint32_t heard = (uint32_t)sdk_rt_port_ticks(), silence = sdk_rt_port_facts.timer_hz / HEARD_OUT_PER_SECOND;
    while (byte >= 0 || (uint32_t)sdk_rt_port_ticks() - heard < silence) {
        if (byte >= 0) {
            heard = (uint32_t)sdk_rt_port_ticks();
            if (take(a, (uint8_t)byte) && takes_over(a, a->rx_buf)) {
                a->taken_over = true;
                return true;
            }
        }
        byte = sdk_rt_port_read();
    }
    return false;
}

void sdk_rt_agent_feed(sdk_rt_agent_t *a, uint8_t byte)
{
    bool whole = take(a, byte);
    while (whole) {
        a->taken_over = false;
        frame_in(a, a->rx_buf, a->rx.len);
        whole = a->taken_over;
    }
}

void sdk_rt_agent_report_crash(const sdk_rt_agent_t *a, const sdk_rt_crash_t *crash)
{
    uint8_t p[8 + CRASH_BYTES];
    put_error(p, SDK_RT_ERR_FAULT, (int32_t)crash->cause);
    sdk_rt_put16(p, sizeof p);
    put_crash(p + 8, crash);
    sdk_rt_send_small(SDK_RT_KIND_ERR, a->session, a->id, a->op, p, sizeof p);
}
