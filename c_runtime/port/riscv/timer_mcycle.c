/* The 64-bit cycle counter of the privileged architecture. QEMU counts nanoseconds of guest time in it. */
#include "internal/bare.h"

void sdk_rt_timer_init(void)
{
}

uint64_t sdk_rt_port_ticks(void)
{
    uint32_t high, low, again;
    do {
        __asm__ volatile("csrr %0, mcycleh" : "=r"(high));
        __asm__ volatile("csrr %0, mcycle" : "=r"(low));
        __asm__ volatile("csrr %0, mcycleh" : "=r"(again));
    } while (high != again);
    return (uint64_t)high << 32 | low;
}
