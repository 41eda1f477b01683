/* The operations: every length and index from the wire is checked before it is used. */
#include <stddef.h>

#include "internal/agent_parts.h"
#include "internal/profile.h"
#include "sdk_rt.h"
#include "sdk_rt_mem.h"

#define PROGRESS_PER_SECOND 2u
#define BAUD_OFF 64u /* the part of a rate by which a UART may miss it: the host's clock, and sampling, need the rest */

/* A request: its fixed part from in, its trailing data data[0..n), the model that it is about; the answer goes to
 * out[0..cap). */
typedef struct {
    const uint8_t *in, *data;
    const sdk_rt_model_t *model;
    uint32_t n;
    uint8_t *out;
    uint32_t cap;
} request_t;

/* Returns the bytes of the answer, or minus an error code. */
typedef int32_t (*handler_t)(sdk_rt_agent_t *a, const request_t *r);

static uint32_t all_tensors(const sdk_rt_model_t *m)
{
    return (uint32_t)m->input_count + m->output_count;
}

/* The tensor that the request names at offset 4, among its model's first `limit`; NULL if there is none. */
static const sdk_rt_tensor_t *tensor_of(sdk_rt_agent_t *a, const request_t *r, uint32_t limit)
{
    uint16_t index = sdk_rt_get16(r->in + 4);
    a->detail = (int32_t)limit;
    return index < limit ? &r->model->tensors[index] : NULL;
}

/* Begin an answer, or an event, with a fixed part of n bytes whose first field is no other than 0. */
static int32_t begin(uint8_t *out, uint32_t n)
{
    sdk_rt_put32(out, n);
    return (int32_t)n;
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
    (void)begin(r->out, 24);
    sdk_rt_put32(r->out + 4, sdk_rt_port_stack_bytes());
    sdk_rt_put32(r->out + 8, sdk_rt_port_stack_used());
    sdk_rt_put32(r->out + 12, a->frames);
    sdk_rt_put32(r->out + 16, a->damaged);
    sdk_rt_put32(r->out + 20, a->overlong);
    uint32_t n = 24;
    n += sdk_rt_put_text(r->out + n, sdk_rt_port_facts.name);
    n += sdk_rt_put_text(r->out + n, sdk_rt_build_id);
    return (int32_t)n;
}

static int32_t op_model_info(sdk_rt_agent_t *a, const request_t *r)
{
    const sdk_rt_model_t *m = r->model;
    (void)a;
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
    n += sdk_rt_put_text(r->out + n, m->name);
    n += sdk_rt_put_text(r->out + n, m->hash);
    return (int32_t)n;
}

static int32_t op_tensor_info(sdk_rt_agent_t *a, const request_t *r)
{
    const sdk_rt_tensor_t *t = tensor_of(a, r, all_tensors(r->model));
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
    return (int32_t)(n + sdk_rt_put_text(r->out + n, t->name));
}

static int32_t op_dim_info(sdk_rt_agent_t *a, const request_t *r)
{
    const sdk_rt_model_t *m = r->model;
    uint16_t index = sdk_rt_get16(r->in + 4);
    a->detail = m->dim_count;
    if (index >= m->dim_count) {
        return -SDK_RT_ERR_RANGE;
    }
    int32_t n = begin(r->out, 12);
    sdk_rt_put32(r->out + 4, (uint32_t)m->dims[index].lo);
    sdk_rt_put32(r->out + 8, (uint32_t)m->dims[index].hi);
    return (int32_t)((uint32_t)n + sdk_rt_put_text(r->out + 12, m->dims[index].name));
}

/* Where a transfer of n bytes at the request's offset (at 8) lies in tensor t; NULL when it leaves it. */
static uint8_t *span_of(sdk_rt_agent_t *a, const request_t *r, const sdk_rt_tensor_t *t, uint32_t n)
{
    uint32_t offset = sdk_rt_get32(r->in + 8);
    a->detail = (int32_t)t->bytes;
    if (offset > t->bytes || n > t->bytes - offset) {
        return NULL;
    }
    uint8_t *base = r->model->data(sdk_rt_get16(r->in + 4));
    return base == NULL ? NULL : base + offset;
}

static int32_t op_tensor_write(sdk_rt_agent_t *a, const request_t *r)
{
    const sdk_rt_tensor_t *t = tensor_of(a, r, r->model->input_count);
    uint8_t *to = t == NULL ? NULL : span_of(a, r, t, r->n);
    if (to == NULL) {
        return -SDK_RT_ERR_RANGE;
    }
    memcpy(to, r->data, r->n);
    sdk_rt_put32(r->out + 4, sdk_rt_get32(r->in + 8) + r->n);
    return begin(r->out, 8);
}

static int32_t op_tensor_read(sdk_rt_agent_t *a, const request_t *r)
{
    uint32_t n = sdk_rt_get32(r->in + 12);
    const sdk_rt_tensor_t *t = tensor_of(a, r, all_tensors(r->model));
    const uint8_t *from = t == NULL ? NULL : span_of(a, r, t, n);
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
    (void)begin(p, sizeof p);
    sdk_rt_put32(p + 4, done);
    sdk_rt_put32(p + 8, total);
    sdk_rt_send_small(SDK_RT_KIND_EVT, a->session, a->id, SDK_RT_EVT_PROGRESS, p, sizeof p);
}

static void put64(uint8_t *p, uint64_t v)
{
    sdk_rt_put32(p, (uint32_t)v);
    sdk_rt_put32(p + 4, (uint32_t)(v >> 32));
}

/* Run warmup + repeat times; out gets the ticks of each of the repeat runs from offset 16. Returns minus an error code. */
static int32_t run_timed(sdk_rt_agent_t *a, const request_t *r, const int32_t *dims)
{
    uint32_t repeat = sdk_rt_get32(r->in + 4), warmup = sdk_rt_get32(r->in + 8);
    uint64_t spoke = sdk_rt_port_ticks();
    uint64_t total = (uint64_t)warmup + repeat;
    for (uint64_t i = 0; i < total; ++i) {
        uint64_t ticks;
        int status = sdk_rt_timed_run(r->model->run, dims, &ticks);
        if (status != SDK_RT_OK) {
            return status_answer(a, status);
        }
        if (i >= warmup) {
            put64(r->out + 16 + 8 * (uint32_t)(i - warmup), ticks);
        }
        uint64_t now = sdk_rt_port_ticks();
        if (now - spoke > sdk_rt_port_facts.timer_hz / PROGRESS_PER_SECOND) {
            send_progress(a, (uint32_t)(i + 1), (uint32_t)total);
            spoke = now;
        }
        if (i + 1 < total && sdk_rt_called_off(a)) { /* from here on the request itself is gone */
            a->detail = (int32_t)(i < INT32_MAX ? i + 1 : INT32_MAX);
            return -SDK_RT_ERR_CANCELLED;
        }
    }
    return 0;
}

static int32_t op_run(sdk_rt_agent_t *a, const request_t *r)
{
    const sdk_rt_model_t *m = r->model;
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
    uint64_t overhead = sdk_rt_timing_cost();
    int32_t error = run_timed(a, r, dim_count == 0 ? NULL : dims);
    if (error != 0) {
        return error;
    }
    (void)begin(r->out, 16);
    sdk_rt_put32(r->out + 4, repeat);
    put64(r->out + 8, overhead);
    return (int32_t)(16 + 8 * repeat);
}

static int32_t op_profile(sdk_rt_agent_t *a, const request_t *r)
{
    uint32_t first = sdk_rt_get16(r->in + 2);
    a->detail = (int32_t)SDK_RT_PROFILE_OPS;
    if (first >= SDK_RT_PROFILE_OPS + 1u) {
        return -SDK_RT_ERR_RANGE;
    }
    sdk_rt_put16(r->out, 4);
    sdk_rt_put16(r->out + 2, (uint16_t)SDK_RT_PROFILE_OPS);
    uint32_t n = 4;
#if SDK_RT_PROFILE_OPS > 0
    /* a second field says how many are wanted at most; hosts of before do not send it */
    uint32_t max = sdk_rt_get16(r->in) < 6 ? UINT16_MAX : sdk_rt_get16(r->in + 4);
    for (uint32_t i = first; i < SDK_RT_PROFILE_OPS && i - first < max && r->cap - n >= 12u; ++i, n += 12) {
        put64(r->out + n, sdk_rt_op_profiles[i].ticks);
        sdk_rt_put32(r->out + n + 8, sdk_rt_op_profiles[i].calls);
    }
#endif
    return (int32_t)n;
}

static int32_t op_reset_state(sdk_rt_agent_t *a, const request_t *r)
{
    return status_answer(a, r->model->reset());
}

static int32_t op_selftest(sdk_rt_agent_t *a, const request_t *r)
{
    if (r->model->selftest == NULL) {
        return -SDK_RT_ERR_NONE;
    }
    send_progress(a, 0, 1);
    sdk_rt_put32(r->out + 4, (uint32_t)r->model->selftest());
    return begin(r->out, 8);
}

static int32_t op_reset(sdk_rt_agent_t *a, const request_t *r)
{
    (void)a;
    (void)r;
    return 0; /* request() restarts the device once the answer is on its way */
}

#if defined(SDK_RT_BAUDS)
/* request() changes the rate once the answer is on its way. */
static int32_t op_baud(sdk_rt_agent_t *a, const request_t *r)
{
    uint32_t wanted = sdk_rt_get32(r->in + 4);
    uint32_t got = wanted < SDK_RT_BASE_BAUD ? SDK_RT_BASE_BAUD : sdk_rt_port_baud(wanted, false);
    uint32_t off = got < wanted ? wanted - got : got - wanted;
    a->baud = off > wanted / BAUD_OFF ? 0 : wanted;
    a->detail = (int32_t)got;
    if (a->baud == 0) {
        return -SDK_RT_ERR_RANGE;
    }
    sdk_rt_put32(r->out + 4, got);
    return begin(r->out, 8);
}
#endif

/* By op number: the handler, the least size of the fixed part (0 for a payload without one), and whether that names a
 * model at offset 2. */
static const struct {
    handler_t handler;
    uint8_t size;
    bool of_model;
} ops[] = {
    [SDK_RT_OP_PING] = {op_ping, 0, false},
    [SDK_RT_OP_INFO] = {op_info, 0, false},
    [SDK_RT_OP_MODEL_INFO] = {op_model_info, 4, true},
    [SDK_RT_OP_TENSOR_INFO] = {op_tensor_info, 6, true},
    [SDK_RT_OP_DIM_INFO] = {op_dim_info, 6, true},
    [SDK_RT_OP_TENSOR_WRITE] = {op_tensor_write, 12, true},
    [SDK_RT_OP_TENSOR_READ] = {op_tensor_read, 16, true},
    [SDK_RT_OP_RUN] = {op_run, 16, true},
    [SDK_RT_OP_RESET_STATE] = {op_reset_state, 4, true},
    [SDK_RT_OP_SELFTEST] = {op_selftest, 4, true},
    [SDK_RT_OP_RESET] = {op_reset, 0, false},
    [SDK_RT_OP_PROFILE] = {op_profile, 4, false},
#if defined(SDK_RT_BAUDS)
    [SDK_RT_OP_BAUD] = {op_baud, 8, false},
#endif
};

int32_t sdk_rt_dispatch(sdk_rt_agent_t *a, uint16_t op, const uint8_t *payload, uint32_t n, uint8_t *out)
{
    uint32_t limit = SDK_RT_FRAME_MAX < a->peer_max ? SDK_RT_FRAME_MAX : a->peer_max;
    request_t r = {payload, payload, NULL, n, out, limit - SDK_RT_WIRE_OVERHEAD};
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
    if (ops[op].of_model) {
        uint16_t index = sdk_rt_get16(payload + 2);
        if (index >= sdk_rt_model_count) {
            a->detail = (int32_t)sdk_rt_model_count;
            return -SDK_RT_ERR_RANGE;
        }
        r.model = sdk_rt_models[index];
    }
    return ops[op].handler(a, &r);
}
