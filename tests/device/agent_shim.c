/* The agent inside the test's own process: bytes in, bytes out, a clock that the test turns. For ctypes. */
#include <stddef.h>
#include <string.h>

#include "sdk_rt.h"
#include "sdk_rt_agent.h"

#define OUT_BYTES (1u << 20)

void shim_start(void);
uint32_t shim_exchange(const uint8_t *in, uint32_t n);
const uint8_t *shim_sent(void);

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
    return *input++; /* during a series of runs too */
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
    sdk_rt_agent_init(&agent, NULL);
}

/* Feed n bytes; return how many the agent sent in answer. */
uint32_t shim_exchange(const uint8_t *in, uint32_t n)
{
    sent_bytes = 0;
    input = in;
    input_bytes = n;
    for (int byte = sdk_rt_port_read(); byte >= 0; byte = sdk_rt_port_read()) {
        sdk_rt_agent_feed(&agent, (uint8_t)byte);
    }
    input = NULL;
    return sent_bytes;
}

const uint8_t *shim_sent(void)
{
    return sent;
}
