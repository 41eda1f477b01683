/* The agent inside the test's own process: bytes in, bytes out, a clock that the test turns. For ctypes. */
#include <stddef.h>
#include <string.h>

#include "sdk_rt.h"
#include "sdk_rt_agent.h"

#define OUT_BYTES (1u << 22)

void shim_start(void);
void shim_tick(uint64_t ns);
uint32_t shim_exchange(const uint8_t *in, uint32_t n, uint8_t *out, uint32_t cap);

const sdk_rt_port_facts_t sdk_rt_port_facts = {"shim", 1000000000u, SDK_RT_COUNTER_TIME};

static sdk_rt_agent_t agent;
static uint64_t now;
static uint8_t sent[OUT_BYTES];
static uint32_t sent_bytes;
static const uint8_t *input;
static uint32_t input_bytes;

void sdk_rt_port_write(const uint8_t *bytes, uint32_t n)
{
    if (n > OUT_BYTES - sent_bytes) {
        n = OUT_BYTES - sent_bytes;
    }
    memcpy(sent + sent_bytes, bytes, n);
    sent_bytes += n;
}

int sdk_rt_port_read(void)
{
    if (input_bytes == 0) {
        return -1;
    }
    --input_bytes;
    return *input++;
}

uint64_t sdk_rt_port_ticks(void)
{
    return now += 1000;
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

void shim_start(void)
{
    sent_bytes = 0;
    sdk_rt_agent_init(&agent, NULL);
}

void shim_tick(uint64_t ns)
{
    now += ns;
}

/* Feed n bytes; return what the agent sent, at most cap bytes, in out. */
uint32_t shim_exchange(const uint8_t *in, uint32_t n, uint8_t *out, uint32_t cap)
{
    input = in;
    input_bytes = n;
    for (int byte = sdk_rt_port_read(); byte >= 0; byte = sdk_rt_port_read()) {
        sdk_rt_agent_feed(&agent, (uint8_t)byte);
    }
    uint32_t got = sent_bytes < cap ? sent_bytes : cap;
    memcpy(out, sent, got);
    sent_bytes = 0;
    return got;
}
