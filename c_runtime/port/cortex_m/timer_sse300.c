/* The 64-bit system counter of Arm's SSE-300, through its control frame at SDK_RT_TIMER_BASE. */
#include "internal/cortex_m.h"

#ifndef SDK_RT_TIMER_BASE
#error "define SDK_RT_TIMER_BASE"
#endif

#define CTRL SDK_RT_REG(SDK_RT_TIMER_BASE + 0x0u)
#define LOW SDK_RT_REG(SDK_RT_TIMER_BASE + 0x8u)
#define HIGH SDK_RT_REG(SDK_RT_TIMER_BASE + 0xCu)

void sdk_rt_timer_init(void)
{
    CTRL = 1;
}

uint64_t sdk_rt_port_ticks(void)
{
    uint32_t high, low;
    do {
        high = HIGH;
        low = LOW;
    } while (high != HIGH);
    return (uint64_t)high << 32 | low;
}
