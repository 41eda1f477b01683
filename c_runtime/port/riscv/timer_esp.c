/* The cycle counter of Espressif's RV32 cores (ESP32-C3 TRM 1.1, 1.4), extended in software: read it once per 2^32. */
#include "internal/bare.h"

#define EVENT_CYCLES 1u
#define ON 1u

static uint32_t last, wraps;

void sdk_rt_timer_init(void)
{
    __asm__ volatile("csrw 0x7E0, %0\n\t" /* mpcer */
                     "csrw 0x7E2, zero\n\t" /* mpccr */
                     "csrw 0x7E1, %1" /* mpcmr */
                     ::"r"(EVENT_CYCLES), "r"(ON));
}

uint64_t sdk_rt_port_ticks(void)
{
    uint32_t now;
    __asm__ volatile("csrr %0, 0x7E2" : "=r"(now));
    if (now < last) {
        ++wraps;
    }
    last = now;
    return (uint64_t)wraps << 32 | now;
}
