/* Microchip's watchdog of SAM D5x and E5x (DS60001507, 20): 8 << n cycles of 1,024 Hz, the next longer that there is. */
#include "internal/bare.h"
#include "internal/watchdog.h"

#if defined(SDK_RT_WATCHDOG_MS)
#define CONTROL SDK_RT_REG8(SDK_RT_WATCHDOG_BASE + 0x00u)
#define CONFIG SDK_RT_REG8(SDK_RT_WATCHDOG_BASE + 0x01u)
#define BUSY SDK_RT_REG(SDK_RT_WATCHDOG_BASE + 0x08u)
#define CLEAR SDK_RT_REG8(SDK_RT_WATCHDOG_BASE + 0x0Cu)
#define ENABLE 2u
#define PERIOD_MAX 11u
#define CLEAR_KEY 0xA5u
#define BUSY_CLEAR (1u << 4)
#define CYCLES ((uint32_t)((uint64_t)(SDK_RT_WATCHDOG_HZ) * (SDK_RT_WATCHDOG_MS) / 1000u))

void sdk_rt_watchdog_start(void)
{
    uint8_t period = 0;
    uint32_t looks;
    while (period < PERIOD_MAX && 8u << period < CYCLES) {
        ++period;
    }
    CONFIG = period;
    CONTROL = ENABLE;
    for (looks = 0; BUSY != 0 && looks < SDK_RT_PATIENCE; ++looks) {
    }
}

/* Not before the last time has reached it, some milliseconds later: until then a write would wait on the bus. */
void sdk_rt_watchdog_feed(void)
{
    if ((BUSY & BUSY_CLEAR) == 0) {
        CLEAR = CLEAR_KEY;
    }
}
#endif
