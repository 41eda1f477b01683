/* The watchdog of Espressif's timer group 0 (ESP32-C3 TRM 1.1, 12), on the crystal's clock in steps of milliseconds. */
#include "internal/bare.h"
#include "internal/watchdog.h"

#if defined(SDK_RT_WATCHDOG_MS)
#define REG(offset) SDK_RT_REG(SDK_RT_WATCHDOG_BASE + (offset))
#define CONFIG REG(0x48u)
#define PRESCALER REG(0x4Cu)
#define HOLD REG(0x50u)
#define FEED REG(0x60u)
#define PROTECT REG(0x64u)
#define PROTECT_KEY 0x50D83AA1u
#define ENABLE (1u << 31)
#define THEN_RESET (3u << 29)
#define TAKE_OVER (1u << 22)
#define OF_CRYSTAL (1u << 21)
#define RESET_LENGTHS (7u << 18 | 7u << 15)

void sdk_rt_watchdog_start(void)
{
    PROTECT = PROTECT_KEY;
    PRESCALER = (uint32_t)(SDK_RT_WATCHDOG_HZ) / 1000u << 16;
    HOLD = SDK_RT_WATCHDOG_MS;
    CONFIG = ENABLE | THEN_RESET | TAKE_OVER | OF_CRYSTAL | RESET_LENGTHS;
    FEED = 1u;
    PROTECT = 0;
}

void sdk_rt_watchdog_feed(void)
{
    PROTECT = PROTECT_KEY;
    FEED = 1u;
    PROTECT = 0;
}
#endif
