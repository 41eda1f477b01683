/* What a fault leaves behind on a Cortex-M, as a crash record; and the restart. */
#include "internal/cortex_m.h"
#include "internal/watchdog.h"

#define AIRCR 0xE000ED0Cu
#define AIRCR_RESET 0x05FA0004u
#define CFSR 0xE000ED28u
#define MMFAR 0xE000ED34u
#define BFAR 0xE000ED38u
#define MMFAR_VALID 0x80u
#define BFAR_VALID 0x8000u
#define FRAME_WORDS 8u /* r0-r3, r12, lr, pc, xpsr */

void sdk_rt_port_reset(void)
{
    sdk_rt_before_reset();
    sdk_rt_write_back(); /* the record of a crash */
    __asm__ volatile("dsb" ::: "memory");
    SDK_RT_REG(AIRCR) = AIRCR_RESET;
    for (;;) {
    }
}

#if defined(SDK_RT_WATCHDOG_MS)
__attribute__((weak)) bool sdk_rt_watchdog_raised(uint32_t exception)
{
    (void)exception;
    return false;
}
#endif

void sdk_rt_fault(const uint32_t *frame, uint32_t cause)
{
    sdk_rt_crash_t crash = {.cause = cause};
#if defined(SDK_RT_WATCHDOG_MS)
    if (sdk_rt_watchdog_raised(cause)) {
        crash.cause = SDK_RT_CAUSE_WATCHDOG;
    }
#endif
    if (frame >= sdk_rt_stack_bottom && frame + FRAME_WORDS <= sdk_rt_stack_top) {
        crash.lr = frame[5];
        crash.pc = frame[6];
    } else {
        crash.addr = (uint32_t)(uintptr_t)frame; /* the stack overflowed: the registers are lost */
    }
#if !defined(__ARM_ARCH_6M__)
    crash.cfsr = SDK_RT_REG(CFSR);
    if ((crash.cfsr & MMFAR_VALID) != 0) {
        crash.addr = SDK_RT_REG(MMFAR);
    } else if ((crash.cfsr & BFAR_VALID) != 0) {
        crash.addr = SDK_RT_REG(BFAR);
    }
#endif
    sdk_rt_crashed(&crash);
}
