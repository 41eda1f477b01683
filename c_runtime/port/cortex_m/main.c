/* The bare-metal agent: polls the UART, keeps the record of a crash across a restart. */
#include "internal/cortex_m.h"
#include "sdk_rt_agent.h"

#include <stddef.h>

#ifndef SDK_RT_DEVICE_NAME
#error "define SDK_RT_DEVICE_NAME: the board's name as a string"
#endif
#ifndef SDK_RT_TIMER_HZ
#error "define SDK_RT_TIMER_HZ: ticks per second of the board's timer"
#endif

#define AIRCR 0xE000ED0Cu
#define AIRCR_RESET 0x05FA0004u
#define CFSR 0xE000ED28u
#define MMFAR 0xE000ED34u
#define BFAR 0xE000ED38u
#define MMFAR_VALID 0x80u
#define BFAR_VALID 0x8000u
#define CRASH_MAGIC 0x4352534Bu
#define FRAME_WORDS 8u /* r0-r3, r12, lr, pc, xpsr */

extern uint32_t sdk_rt_stack_bottom[], sdk_rt_stack_top[];

const sdk_rt_port_facts_t sdk_rt_port_facts = {
    SDK_RT_DEVICE_NAME, SDK_RT_TIMER_HZ, SDK_RT_COUNTER_TIME};

static sdk_rt_agent_t agent;

/* Survives a restart: start-up code leaves .noinit alone. */
__attribute__((section(".noinit"))) static struct {
    uint32_t magic;
    sdk_rt_crash_t crash;
} last;

void sdk_rt_port_write(const uint8_t *bytes, uint32_t n)
{
    for (uint32_t i = 0; i < n; ++i) {
        sdk_rt_uart_write(bytes[i]);
    }
}

void sdk_rt_port_reset(void)
{
    __asm__ volatile("dsb" ::: "memory");
    SDK_RT_REG(AIRCR) = AIRCR_RESET;
    for (;;) {
    }
}

void sdk_rt_fault(const uint32_t *frame, uint32_t cause)
{
    last.crash.cause = cause;
    last.crash.pc = last.crash.lr = last.crash.cfsr = last.crash.addr = 0;
    if (frame >= sdk_rt_stack_bottom && frame + FRAME_WORDS <= sdk_rt_stack_top) {
        last.crash.lr = frame[5];
        last.crash.pc = frame[6];
    } else {
        last.crash.addr = (uint32_t)(uintptr_t)frame; /* the stack overflowed: the registers are lost */
    }
#if !defined(__ARM_ARCH_6M__)
    last.crash.cfsr = SDK_RT_REG(CFSR);
    if ((last.crash.cfsr & MMFAR_VALID) != 0) {
        last.crash.addr = SDK_RT_REG(MMFAR);
    } else if ((last.crash.cfsr & BFAR_VALID) != 0) {
        last.crash.addr = SDK_RT_REG(BFAR);
    }
#endif
    last.magic = CRASH_MAGIC;
    sdk_rt_agent_report_crash(&agent, &last.crash);
    sdk_rt_port_reset();
}

void sdk_rt_main(void)
{
    sdk_rt_uart_init();
    sdk_rt_timer_init();
    sdk_rt_agent_init(&agent, last.magic == CRASH_MAGIC ? &last.crash : NULL);
    last.magic = 0;
    for (;;) {
        int byte = sdk_rt_uart_read();
        if (byte >= 0) {
            sdk_rt_agent_feed(&agent, (uint8_t)byte);
        }
    }
}
