/* The request dispatcher: every length and index from the wire is checked before it is used, ids answer once. */
#include "sdk_rt_agent.h"

#include <stddef.h>

#include "sdk_rt.h"
#include "sdk_rt_mem.h"

#define TX_SLACK (SDK_RT_WIRE_ENCODED(SDK_RT_FRAME_MAX) - SDK_RT_FRAME_MAX) /* where a frame to be encoded begins */
#define SMALL_MAX 40u  /* payload of frames built on the stack */
#define CRASH_BYTES 20u
#define PROGRESS_PER_SECOND 2u

/* A request whose fixed part is in[0..size) and whose trailing data is data[0..n); answers go to out[0..cap). */
typedef struct {
    const uint8_t *in, *data;
    uint32_t n;
    uint8_t *out;
    uint32_t cap;
} request_t;

typedef int32_t (*handler_t)(sdk_rt_agent_t *a, const request_t *r); /* bytes of the answer, or minus an error code */

static void put_header(uint8_t *f, uint8_t kind, uint16_t session, uint16_t id, uint16_t op)
{
    f[0] = kind;
    f[1] = 0;
    sdk_rt_put16(f + 2, session);
    sdk_rt_put16(f + 4, id);
    sdk_rt_put16(f + 6, op);
}

/* Send a frame that is never sent again; leaves the kept response alone. */
static void send_small(uint8_t kind, uint16_t session, uint16_t id, uint16_t op, const uint8_t *payload, uint32_t n)
{
    uint8_t frame[SMALL_MAX + SDK_RT_WIRE_OVERHEAD];
    uint8_t wire[SDK_RT_WIRE_ENCODED(SMALL_MAX + SDK_RT_WIRE_OVERHEAD)];
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

/* A text as its length and its bytes, cut to what SDK_RT_MAX_TEXT allows. */
static uint32_t put_text(uint8_t *p, const char *text)
{
    uint32_t n = 0;
    while (n < SDK_RT_MAX_TEXT && text[n] != '\0') {
        p[1 + n] = (uint8_t)text[n];
        ++n;
    }
    p[0] = (uint8_t)n;
    return 1 + n;
}

/* The model that the request names at offset 2; NULL when there is none. */
static const sdk_rt_model_t *model_of(sdk_rt_agent_t *a, const request_t *r)
{
    uint16_t index = sdk_rt_get16(r->in + 2);
    a->detail = (int32_t)sdk_rt_model_count;
    return index < sdk_rt_model_count ? sdk_rt_models[index] : NULL;
}

/* The tensor that the request names at offset 4, among the first `limit` of a model; NULL when there is none. */
static const sdk_rt_tensor_t *tensor_of(sdk_rt_agent_t *a, const request_t *r, const sdk_rt_model_t *m, uint32_t limit)
{
    uint16_t index = sdk_rt_get16(r->in + 4);
    a->detail = (int32_t)limit;
    return index < limit ? &m->tensors[index] : NULL;
}

static int32_t status_answer(sdk_rt_agent_t *a, int status)
{
    a->detail = status;
    if (status != SDK_RT_OK) {
        a->last_error = status;
        return -SDK_RT_ERR_STATUS;
    }
    return 0;
}

static int32_t op_ping(sdk_rt_agent_t *a, const request_t *r)
{
    a->detail = (int32_t)r->cap;
    if (r->n > r->cap) {
        return -SDK_RT_ERR_RANGE;
    }
    memcpy(r->out, r->data, r->n);
    return (int32_t)r->n;
}

static int32_t op_info(sdk_rt_agent_t *a, const request_t *r)
{
    sdk_rt_put16(r->out, 24);
    sdk_rt_put16(r->out + 2, 0);
    sdk_rt_put32(r->out + 4, sdk_rt_port_stack_bytes());
    sdk_rt_put32(r->out + 8, sdk_rt_port_stack_used());
    sdk_rt_put32(r->out + 12, a->frames);
    sdk_rt_put32(r->out + 16, a->damaged);
    sdk_rt_put32(r->out + 20, a->overlong);
    uint32_t n = 24;
    n += put_text(r->out + n, sdk_rt_port_facts.name);
    n += put_text(r->out + n, sdk_rt_build_id);
    return (int32_t)n;
}

static int32_t op_model_info(sdk_rt_agent_t *a, const request_t *r)
{
    const sdk_rt_model_t *m = model_of(a, r);
    if (m == NULL) {
        return -SDK_RT_ERR_RANGE;
    }
    sdk_rt_put16(r->out, 24);
    sdk_rt_put16(r->out + 2, m->input_count);
    sdk_rt_put16(r->out + 4, m->output_count);
    sdk_rt_put16(r->out + 6, m->dim_count);
    sdk_rt_put32(r->out + 8, m->arena_bytes);
    sdk_rt_put32(r->out + 12, m->state_bytes);
    sdk_rt_put32(r->out + 16, m->context_bytes);
    sdk_rt_put16(r->out + 20, m->selftest != NULL);
    sdk_rt_put16(r->out + 22, m->abi);
    uint32_t n = 24;
    n += put_text(r->out + n, m->name);
    n += put_text(r->out + n, m->hash);
    return (int32_t)n;
}

static int32_t op_tensor_info(sdk_rt_agent_t *a, const request_t *r)
{
    const sdk_rt_model_t *m = model_of(a, r);
    const sdk_rt_tensor_t *t = m == NULL ? NULL : tensor_of(a, r, m, (uint32_t)m->input_count + m->output_count);
    if (t == NULL) {
        return -SDK_RT_ERR_RANGE;
    }
    uint32_t scale;
    memcpy(&scale, &t->scale, sizeof scale);
    uint32_t ndim = t->ndim < SDK_RT_MAX_NDIM ? t->ndim : SDK_RT_MAX_NDIM;
    sdk_rt_put16(r->out, 16 + 4 * SDK_RT_MAX_NDIM);
    r->out[2] = t->dtype;
    r->out[3] = t->ndim;
    sdk_rt_put32(r->out + 4, t->bytes);
    sdk_rt_put32(r->out + 8, scale);
    sdk_rt_put32(r->out + 12, (uint32_t)t->zero_point);
    for (uint32_t i = 0; i < SDK_RT_MAX_NDIM; ++i) {
        sdk_rt_put32(r->out + 16 + 4 * i, i < ndim ? (uint32_t)t->shape[i] : 0);
    }
    uint32_t n = 16 + 4 * SDK_RT_MAX_NDIM;
    return (int32_t)(n + put_text(r->out + n, t->name));
}

static int32_t op_dim_info(sdk_rt_agent_t *a, const request_t *r)
{
    const sdk_rt_model_t *m = model_of(a, r);
    if (m == NULL) {
        return -SDK_RT_ERR_RANGE;
    }
    uint16_t index = sdk_rt_get16(r->in + 4);
    a->detail = m->dim_count;
    if (index >= m->dim_count) {
        return -SDK_RT_ERR_RANGE;
    }
    sdk_rt_put16(r->out, 12);
    sdk_rt_put16(r->out + 2, 0);
    sdk_rt_put32(r->out + 4, (uint32_t)m->dims[index].lo);
    sdk_rt_put32(r->out + 8, (uint32_t)m->dims[index].hi);
    return (int32_t)(12 + put_text(r->out + 12, m->dims[index].name));
}

/* Where a transfer of n bytes at the request's offset (at 8) lies in tensor t; NULL when it leaves the tensor. */
static uint8_t *span_of(sdk_rt_agent_t *a, const request_t *r, const sdk_rt_model_t *m, const sdk_rt_tensor_t *t,
                        uint32_t n)
{
    uint32_t offset = sdk_rt_get32(r->in + 8);
    a->detail = (int32_t)t->bytes;
    if (offset > t->bytes || n > t->bytes - offset) {
        return NULL;
    }
    uint8_t *base = m->data(sdk_rt_get16(r->in + 4));
    return base == NULL ? NULL : base + offset;
}

static int32_t op_tensor_write(sdk_rt_agent_t *a, const request_t *r)
{
    const sdk_rt_model_t *m = model_of(a, r);
    const sdk_rt_tensor_t *t = m == NULL ? NULL : tensor_of(a, r, m, m->input_count);
    uint8_t *to = t == NULL ? NULL : span_of(a, r, m, t, r->n);
    if (to == NULL) {
        return -SDK_RT_ERR_RANGE;
    }
    memcpy(to, r->data, r->n);
    sdk_rt_put16(r->out, 8);
    sdk_rt_put16(r->out + 2, 0);
    sdk_rt_put32(r->out + 4, sdk_rt_get32(r->in + 8) + r->n);
    return 8;
}

static int32_t op_tensor_read(sdk_rt_agent_t *a, const request_t *r)
{
    uint32_t n = sdk_rt_get32(r->in + 12);
    const sdk_rt_model_t *m = model_of(a, r);
    const sdk_rt_tensor_t *t = m == NULL ? NULL : tensor_of(a, r, m, (uint32_t)m->input_count + m->output_count);
    const uint8_t *from = t == NULL ? NULL : span_of(a, r, m, t, n);
    if (from == NULL) {
        return -SDK_RT_ERR_RANGE;
    }
    if (n > r->cap) {
        a->detail = (int32_t)r->cap;
        return -SDK_RT_ERR_RANGE;
    }
    memcpy(r->out, from, n);
    return (int32_t)n;
}

static void send_progress(const sdk_rt_agent_t *a, uint32_t done, uint32_t total)
{
    uint8_t p[12];
    sdk_rt_put16(p, sizeof p);
    sdk_rt_put16(p + 2, 0);
    sdk_rt_put32(p + 4, done);
    sdk_rt_put32(p + 8, total);
    send_small(SDK_RT_KIND_EVT, a->session, a->id, SDK_RT_EVT_PROGRESS, p, sizeof p);
}

static void put64(uint8_t *p, uint64_t v)
{
    sdk_rt_put32(p, (uint32_t)v);
    sdk_rt_put32(p + 4, (uint32_t)(v >> 32));
}

/* Run warmup + repeat times; out gets the ticks of each of the repeat runs from offset 16. */
static int run_timed(const sdk_rt_agent_t *a, const request_t *r, const sdk_rt_model_t *m, const int32_t *dims)
{
    uint32_t repeat = sdk_rt_get32(r->in + 4), warmup = sdk_rt_get32(r->in + 8);
    uint64_t spoke = sdk_rt_port_ticks();
    uint64_t total = (uint64_t)warmup + repeat;
    for (uint64_t i = 0; i < total; ++i) {
        uint64_t begin = sdk_rt_port_ticks();
        int status = m->run(dims);
        uint64_t end = sdk_rt_port_ticks();
        if (status != SDK_RT_OK) {
            return status;
        }
        if (i >= warmup) {
            put64(r->out + 16 + 8 * (uint32_t)(i - warmup), end - begin);
        }
        if (end - spoke > sdk_rt_port_facts.timer_hz / PROGRESS_PER_SECOND) {
            send_progress(a, (uint32_t)(i + 1), (uint32_t)total);
            spoke = end;
        }
    }
    return SDK_RT_OK;
}

static int32_t op_run(sdk_rt_agent_t *a, const request_t *r)
{
    const sdk_rt_model_t *m = model_of(a, r);
    if (m == NULL) {
        return -SDK_RT_ERR_RANGE;
    }
    uint32_t repeat = sdk_rt_get32(r->in + 4), dim_count = sdk_rt_get16(r->in + 12);
    if (dim_count > SDK_RT_MAX_DIMS || r->n != 4 * dim_count) {
        return -SDK_RT_ERR_PAYLOAD;
    }
    a->detail = m->dim_count;
    if (dim_count != m->dim_count) {
        return -SDK_RT_ERR_RANGE;
    }
    a->detail = (int32_t)((r->cap - 16) / 8);
    if (repeat > (r->cap - 16) / 8) {
        return -SDK_RT_ERR_RANGE;
    }
    int32_t dims[SDK_RT_MAX_DIMS];
    for (uint32_t i = 0; i < dim_count; ++i) {
        dims[i] = (int32_t)sdk_rt_get32(r->data + 4 * i);
    }
    send_progress(a, 0, repeat);
    uint64_t begin = sdk_rt_port_ticks();
    uint64_t overhead = sdk_rt_port_ticks() - begin;
    int status = run_timed(a, r, m, dim_count == 0 ? NULL : dims);
    if (status != SDK_RT_OK) {
        return status_answer(a, status);
    }
    sdk_rt_put16(r->out, 16);
    sdk_rt_put16(r->out + 2, 0);
    sdk_rt_put32(r->out + 4, repeat);
    put64(r->out + 8, overhead);
    return (int32_t)(16 + 8 * repeat);
}

static int32_t op_reset_state(sdk_rt_agent_t *a, const request_t *r)
{
    const sdk_rt_model_t *m = model_of(a, r);
    return m == NULL ? -SDK_RT_ERR_RANGE : status_answer(a, m->reset());
}

static int32_t op_selftest(sdk_rt_agent_t *a, const request_t *r)
{
    const sdk_rt_model_t *m = model_of(a, r);
    if (m == NULL) {
        return -SDK_RT_ERR_RANGE;
    }
    if (m->selftest == NULL) {
        return -SDK_RT_ERR_NONE;
    }
    send_progress(a, 0, 1);
    sdk_rt_put16(r->out, 8);
    sdk_rt_put16(r->out + 2, 0);
    sdk_rt_put32(r->out + 4, (uint32_t)m->selftest());
    return 8;
}

static int32_t op_reset(sdk_rt_agent_t *a, const request_t *r)
{
    (void)a;
    (void)r;
    return 0; /* request() restarts the device once the answer is on its way */
}

/* By op number: the handler and the least size of the fixed part; 0 for a payload without one. */
static const struct {
    handler_t handler;
    uint8_t size;
} ops[] = {
    [SDK_RT_OP_PING] = {op_ping, 0},
    [SDK_RT_OP_INFO] = {op_info, 0},
    [SDK_RT_OP_MODEL_INFO] = {op_model_info, 4},
    [SDK_RT_OP_TENSOR_INFO] = {op_tensor_info, 6},
    [SDK_RT_OP_DIM_INFO] = {op_dim_info, 6},
    [SDK_RT_OP_TENSOR_WRITE] = {op_tensor_write, 12},
    [SDK_RT_OP_TENSOR_READ] = {op_tensor_read, 16},
    [SDK_RT_OP_RUN] = {op_run, 16},
    [SDK_RT_OP_RESET_STATE] = {op_reset_state, 4},
    [SDK_RT_OP_SELFTEST] = {op_selftest, 4},
    [SDK_RT_OP_RESET] = {op_reset, 0},
};

/* Find the handler, split the payload into its fixed part and its data, and call. */
static int32_t dispatch(sdk_rt_agent_t *a, uint16_t op, const uint8_t *payload, uint32_t n)
{
    uint32_t limit = SDK_RT_FRAME_MAX < a->peer_max ? SDK_RT_FRAME_MAX : a->peer_max;
    request_t r = {payload, payload, n, a->tx_buf + TX_SLACK + SDK_RT_WIRE_HEADER, limit - SDK_RT_WIRE_OVERHEAD};
    a->detail = 0;
    if (op >= sizeof ops / sizeof ops[0] || ops[op].handler == NULL) {
        return -SDK_RT_ERR_OP;
    }
    if (ops[op].size != 0) {
        uint32_t size = n < 2 ? 0 : sdk_rt_get16(payload);
        if (size < ops[op].size || size > n) {
            a->detail = ops[op].size;
            return -SDK_RT_ERR_PAYLOAD;
        }
        r.data = payload + size;
        r.n = n - size;
    }
    return ops[op].handler(a, &r);
}

static void request(sdk_rt_agent_t *a, const uint8_t *frame, uint32_t len)
{
    uint16_t session = sdk_rt_get16(frame + 2), id = sdk_rt_get16(frame + 4), op = sdk_rt_get16(frame + 6);
    if (!a->open || session != a->session) {
        uint8_t p[8];
        send_small(SDK_RT_KIND_ERR, session, id, op, p, put_error(p, SDK_RT_ERR_SESSION, a->session));
        return;
    }
    if (a->answered && id == a->id) {
        sdk_rt_port_write(a->tx_buf, a->tx_len);
        return;
    }
    a->crashed = false;
    a->answered = false;
    a->id = id;
    a->op = op;
    int32_t n = dispatch(a, op, frame + SDK_RT_WIRE_HEADER, len - SDK_RT_WIRE_HEADER);
    uint8_t kind = SDK_RT_KIND_RSP;
    if (n < 0) {
        kind = SDK_RT_KIND_ERR;
        n = (int32_t)put_error(a->tx_buf + TX_SLACK + SDK_RT_WIRE_HEADER, (uint16_t)-n, a->detail);
    }
    send_kept(a, kind, id, op, (uint32_t)n);
    a->answered = true;
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
    sdk_rt_put16(p + 26, 0);
    sdk_rt_put32(p + 28, (uint32_t)a->last_error);
    put_crash(p + 32, &a->crash);
    return 32 + CRASH_BYTES + put_text(p + 32 + CRASH_BYTES, sdk_rt_build_id);
}

/* Open a session. A repeated HELLO (same nonce) gets the same session; a new one ends the old session. */
static void hello(sdk_rt_agent_t *a, const uint8_t *p, uint32_t n)
{
    if (n < 16 || sdk_rt_get16(p) < 16 || sdk_rt_get16(p) > n || sdk_rt_get32(p + 4) != SDK_RT_WIRE_MAGIC) {
        ++a->damaged;
        return;
    }
    if (p[2] > SDK_RT_WIRE_VERSION || p[3] < SDK_RT_WIRE_VERSION || sdk_rt_get32(p + 12) < 256) {
        uint8_t e[8];
        uint16_t code = sdk_rt_get32(p + 12) < 256 ? SDK_RT_ERR_RANGE : SDK_RT_ERR_VERSION;
        int32_t detail = code == SDK_RT_ERR_RANGE ? 256 : (int32_t)(SDK_RT_WIRE_VERSION << 8 | SDK_RT_WIRE_VERSION);
        send_small(SDK_RT_KIND_ERR, 0, 0, 0, e, put_error(e, code, detail));
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

static void frame_in(sdk_rt_agent_t *a, const uint8_t *frame, uint32_t len)
{
    ++a->frames;
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
            send_small(SDK_RT_KIND_BYE, a->session, sdk_rt_get16(frame + 4), 0, frame, 0);
        }
        break;
    default: /* kinds that only a device sends, or a later version */
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

void sdk_rt_agent_feed(sdk_rt_agent_t *a, uint8_t byte)
{
    switch (sdk_rt_decoder_feed(&a->rx, byte)) {
    case SDK_RT_RX_FRAME:
        frame_in(a, a->rx_buf, a->rx.len);
        break;
    case SDK_RT_RX_DAMAGED:
        ++a->damaged;
        break;
    case SDK_RT_RX_LONG:
        ++a->overlong;
        break;
    case SDK_RT_RX_NONE:
        break;
    }
}

void sdk_rt_agent_report_crash(const sdk_rt_agent_t *a, const sdk_rt_crash_t *crash)
{
    uint8_t p[8 + CRASH_BYTES];
    put_error(p, SDK_RT_ERR_FAULT, (int32_t)crash->cause);
    sdk_rt_put16(p, sizeof p);
    put_crash(p + 8, crash);
    send_small(SDK_RT_KIND_ERR, a->session, a->id, a->op, p, sizeof p);
}
