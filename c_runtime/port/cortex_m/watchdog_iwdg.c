/* STM32's independent watchdog (RM0008, 19), on the chip's slow oscillator. */
#include "internal/bare.h"
#include "internal/watchdog.h"

#if defined(SDK_RT_WATCHDOG_MS)
#define REG(offset) SDK_RT_REG(SDK_RT_WATCHDOG_BASE + (offset))
#define KEY REG(0x00u)
#define PRESCALER REG(0x04u)
#define RELOAD REG(0x08u)
#define STATUS REG(0x0Cu)
#define KEY_START 0xCCCCu
#define KEY_UNLOCK 0x5555u
#define KEY_FEED 0xAAAAu
#define UPDATING 3u
#define RELOAD_MAX 0xFFFu
#define TICKS ((uint32_t)((uint64_t)(SDK_RT_WATCHDOG_HZ) * (SDK_RT_WATCHDOG_MS) / 1000u / 4u))

void sdk_rt_watchdog_start(void)
{
    uint32_t divider = 0, looks; /* by 4 << divider */
    while (TICKS >> divider > RELOAD_MAX) {
        ++divider;
    }
    KEY = KEY_START;
    KEY = KEY_UNLOCK;
    PRESCALER = divider;
    RELOAD = TICKS >> divider;
    for (looks = 0; (STATUS & UPDATING) != 0 && looks < SDK_RT_PATIENCE; ++looks) {
    }
    KEY = KEY_FEED;
}

void sdk_rt_watchdog_feed(void)
{
    KEY = KEY_FEED;
}
#endif
