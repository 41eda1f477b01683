/* The watchdog restarts a board that hangs. Builds without SDK_RT_WATCHDOG_MS have none, and feed nothing. */
#ifndef SDK_RT_WATCHDOG_H
#define SDK_RT_WATCHDOG_H

#if defined(SDK_RT_WATCHDOG_MS)
#include <stdbool.h>
#include <stdint.h>

/* watchdog_<kind>.c: SDK_RT_WATCHDOG_MS after it was started, or fed last, the board restarts. */
void sdk_rt_watchdog_start(void);
void sdk_rt_watchdog_feed(void);
bool sdk_rt_watchdog_raised(uint32_t exception); /* whether it raised this one before it restarts the board */

/* From the board's file: what to set before it starts; whether it caused the last reset, which is then forgotten. */
void sdk_rt_watchdog_setup(void);
bool sdk_rt_watchdog_was_it(void);
#else
#define sdk_rt_watchdog_feed() ((void)0)
#endif

#endif /* SDK_RT_WATCHDOG_H */
