/* nRF51's, nRF52's and nRF53's watchdog (nRF52832 PS v1.4, WDT), which runs at 32,768 Hz. Once started it stays on. */
#include "internal/bare.h"
#include "internal/watchdog.h"

#if defined(SDK_RT_WATCHDOG_MS)
#define REG(offset) SDK_RT_REG(SDK_RT_WATCHDOG_BASE + (offset))
#define TASK_START REG(0x000u)
#define RELOAD_VALUE REG(0x504u)
#define RELOAD_BY REG(0x508u)
#define CONFIG REG(0x50Cu)
#define RELOAD0 REG(0x600u)
#define RELOAD_KEY 0x6E524635u
#define RUNS_ASLEEP 1u

void sdk_rt_watchdog_start(void)
{
    CONFIG = RUNS_ASLEEP;
    RELOAD_VALUE = (uint32_t)((uint64_t)(SDK_RT_WATCHDOG_HZ) * (SDK_RT_WATCHDOG_MS) / 1000u) - 1u;
    RELOAD_BY = 1u;
    TASK_START = 1u;
}

void sdk_rt_watchdog_feed(void)
{
    RELOAD0 = RELOAD_KEY;
}
#endif
