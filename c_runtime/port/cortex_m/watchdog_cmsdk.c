/* Arm's CMSDK watchdog (DDI 0479D, 4.5): it raises an NMI first, which tells where the core hangs, then resets. */
#include "internal/cortex_m.h"
#include "internal/watchdog.h"

#if defined(SDK_RT_WATCHDOG_MS)
#define REG(offset) SDK_RT_REG(SDK_RT_WATCHDOG_BASE + (offset))
#define LOAD REG(0x000u)
#define CONTROL REG(0x008u)
#define CLEAR REG(0x00Cu)
#define LOCK REG(0xC00u)
#define LOCK_KEY 0x1ACCE551u
#define RAISES_AND_RESETS 3u
#define NMI 2u

void sdk_rt_watchdog_start(void)
{
    LOCK = LOCK_KEY;
    LOAD = (uint32_t)((uint64_t)(SDK_RT_WATCHDOG_HZ) * (SDK_RT_WATCHDOG_MS) / 1000u);
    CONTROL = RAISES_AND_RESETS;
    LOCK = 0;
}

void sdk_rt_watchdog_feed(void)
{
    LOCK = LOCK_KEY;
    CLEAR = 1u;
    LOCK = 0;
}

bool sdk_rt_watchdog_raised(uint32_t exception)
{
    return exception == NMI;
}
#endif
