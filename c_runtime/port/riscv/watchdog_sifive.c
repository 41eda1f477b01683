/* The watchdog of SiFive's always-on domain (FE310-G002 manual v1.5, 14), on its slow clock. Each write needs the key. */
#include "internal/bare.h"
#include "internal/watchdog.h"

#if defined(SDK_RT_WATCHDOG_MS)
#define REG(offset) SDK_RT_REG(SDK_RT_WATCHDOG_BASE + (offset))
#define CONFIG REG(0x00u)
#define FEED REG(0x18u)
#define KEY REG(0x1Cu)
#define COMPARE REG(0x20u)
#define KEY_UNLOCK 0x51F15Eu
#define KEY_FEED 0xD09F00Du
#define RESETS (1u << 8)
#define ALWAYS (1u << 12)
#define COMPARE_MAX 0xFFFFu
#define TICKS ((uint32_t)((uint64_t)(SDK_RT_WATCHDOG_HZ) * (SDK_RT_WATCHDOG_MS) / 1000u))

void sdk_rt_watchdog_start(void)
{
    uint32_t scale = 0; /* it compares the count over 1 << scale */
    while (TICKS >> scale > COMPARE_MAX) {
        ++scale;
    }
    sdk_rt_watchdog_feed();
    KEY = KEY_UNLOCK;
    COMPARE = TICKS >> scale;
    KEY = KEY_UNLOCK;
    CONFIG = RESETS | ALWAYS | scale;
}

void sdk_rt_watchdog_feed(void)
{
    KEY = KEY_UNLOCK;
    FEED = KEY_FEED;
}
#endif
