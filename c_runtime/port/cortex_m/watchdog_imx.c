/* NXP's WDOG (i.MX RT1060 RM, WDOG): half seconds, the next more. Once started it stays on. */
#include "internal/bare.h"
#include "internal/watchdog.h"

#if defined(SDK_RT_WATCHDOG_MS)
#define CONTROL SDK_RT_REG16(SDK_RT_WATCHDOG_BASE + 0x0u)
#define SERVICE SDK_RT_REG16(SDK_RT_WATCHDOG_BASE + 0x2u)
#define HALF_SECONDS ((SDK_RT_WATCHDOG_MS + 499u) / 500u)
#define NO_RESET_NOW 0x30u /* SRS, WDA */
#define ENABLE 0x4u
#define RESTS_IN_DEBUG 0x2u

void sdk_rt_watchdog_start(void)
{
    CONTROL = (uint16_t)((HALF_SECONDS - 1u) << 8 | NO_RESET_NOW | ENABLE | RESTS_IN_DEBUG);
    sdk_rt_watchdog_feed();
}

void sdk_rt_watchdog_feed(void)
{
    SERVICE = 0x5555u;
    SERVICE = 0xAAAAu;
}
#endif
