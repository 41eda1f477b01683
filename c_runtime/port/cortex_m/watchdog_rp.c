/* RP2040's and RP2350's watchdog (RP2040 Datasheet, 4.7), a counter down of 24 bits. Its clock and what it resets are
 * set by the board's file; an RP2040 counts two for each tick (erratum E1), which is in the clock's Hz. */
#include "internal/bare.h"
#include "internal/watchdog.h"

#if defined(SDK_RT_WATCHDOG_MS)
#define REG(offset) SDK_RT_REG(SDK_RT_WATCHDOG_BASE + (offset))
#define CONTROL REG(0x00u)
#define LOAD REG(0x04u)
#define ENABLE (1u << 30)
#define TICKS ((uint32_t)((uint64_t)(SDK_RT_WATCHDOG_HZ) * (SDK_RT_WATCHDOG_MS) / 1000u))

void sdk_rt_watchdog_start(void)
{
    CONTROL &= ~ENABLE;
    LOAD = TICKS;
    CONTROL |= ENABLE;
}

void sdk_rt_watchdog_feed(void)
{
    LOAD = TICKS;
}
#endif
