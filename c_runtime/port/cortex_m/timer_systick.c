/* SysTick, which every Cortex-M has: 24 bits, extended by an interrupt of a few instructions. */
#include "internal/cortex_m.h"

#define CTRL SDK_RT_REG(0xE000E010u)
#define RELOAD SDK_RT_REG(0xE000E014u)
#define VALUE SDK_RT_REG(0xE000E018u)
#define TOP 0xFFFFFFu
#define CTRL_CORE_CLOCK_IRQ_ON 7u

static volatile uint32_t wraps;

void sdk_rt_systick_handler(void)
{
    ++wraps;
}

void sdk_rt_timer_init(void)
{
    RELOAD = TOP;
    VALUE = 0;
    CTRL = CTRL_CORE_CLOCK_IRQ_ON;
}

uint64_t sdk_rt_port_ticks(void)
{
    uint32_t before, now;
    do {
        before = wraps;
        now = TOP - VALUE;
    } while (before != wraps);
    return (uint64_t)before << 24 | now;
}
