/* The 32-bit down counter of Arm's CMSDK, extended in software: read it at least once per 2^32 ticks. */
#include "internal/cortex_m.h"

#ifndef SDK_RT_TIMER_BASE
#error "define SDK_RT_TIMER_BASE"
#endif

#define CTRL SDK_RT_REG(SDK_RT_TIMER_BASE + 0x0u)
#define VALUE SDK_RT_REG(SDK_RT_TIMER_BASE + 0x4u)
#define RELOAD SDK_RT_REG(SDK_RT_TIMER_BASE + 0x8u)

static uint32_t last, wraps;

void sdk_rt_timer_init(void)
{
    RELOAD = 0xFFFFFFFFu;
    VALUE = 0xFFFFFFFFu;
    CTRL = 1;
}

uint64_t sdk_rt_port_ticks(void)
{
    uint32_t now = ~VALUE;
    if (now < last) {
        ++wraps;
    }
    last = now;
    return (uint64_t)wraps << 32 | now;
}
