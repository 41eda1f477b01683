/* The cycle counter of Armv7-M and Armv8-M (DDI 0403E, C1.8), extended in software: read it once per 2^32 cycles. */
#include "internal/cortex_m.h"

#define DEMCR SDK_RT_REG(0xE000EDFCu)
#define DEMCR_TRACE (1u << 24)
#define CTRL SDK_RT_REG(0xE0001000u)
#define CTRL_COUNT 1u
#define COUNT SDK_RT_REG(0xE0001004u)
#define LOCK SDK_RT_REG(0xE0001FB0u)
#define LOCK_KEY 0xC5ACCE55u /* Cortex-M7 takes no writes before it */

static uint32_t last, wraps;

void sdk_rt_timer_init(void)
{
    DEMCR |= DEMCR_TRACE;
    LOCK = LOCK_KEY;
    COUNT = 0;
    CTRL |= CTRL_COUNT;
}

uint64_t sdk_rt_port_ticks(void)
{
    uint32_t now = COUNT;
    if (now < last) {
        ++wraps;
    }
    last = now;
    return (uint64_t)wraps << 32 | now;
}
