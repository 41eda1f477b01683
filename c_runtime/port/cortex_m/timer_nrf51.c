/* A 32-bit nRF51 timer at 16 MHz, extended in software: read it at least once per 2^32 ticks. */
#include "internal/cortex_m.h"

#ifndef SDK_RT_TIMER_BASE
#error "define SDK_RT_TIMER_BASE"
#endif

#define REG(offset) SDK_RT_REG(SDK_RT_TIMER_BASE + (offset))
#define START REG(0x000u)
#define CAPTURE REG(0x040u)
#define BITMODE REG(0x508u)
#define PRESCALER REG(0x510u)
#define CC REG(0x540u)
#define BITMODE_32 3u

static uint32_t last, wraps;

void sdk_rt_timer_init(void)
{
    BITMODE = BITMODE_32;
    PRESCALER = 0;
    START = 1;
}

uint64_t sdk_rt_port_ticks(void)
{
    CAPTURE = 1;
    uint32_t now = CC;
    if (now < last) {
        ++wraps;
    }
    last = now;
    return (uint64_t)wraps << 32 | now;
}
