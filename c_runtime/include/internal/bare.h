/* What the bare-metal ports share. A board chooses a port, one uart_<kind>.c and one timer_<kind>.c of it. */
#ifndef SDK_RT_BARE_H
#define SDK_RT_BARE_H

#include <stdbool.h>
#include <stdint.h>

#include "sdk_rt_port.h"

#define SDK_RT_REG(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define SDK_RT_REG16(address) (*(volatile uint16_t *)(uintptr_t)(address))
#define SDK_RT_REG8(address) (*(volatile uint8_t *)(uintptr_t)(address))

/* The lowest bytes of the stack, which an MPU or PMP bars where the core has no stack limit register. */
#if defined(__ARM_ARCH_7M__) || defined(__ARM_ARCH_7EM__) || defined(__riscv)
#define SDK_RT_GUARD_BYTES 256u
#else
#define SDK_RT_GUARD_BYTES 0u
#endif

/* Addresses that the linker script defines. */
extern uint32_t sdk_rt_stack_bottom[], sdk_rt_stack_top[];
extern uint32_t sdk_rt_data_begin[], sdk_rt_data_end[];
extern const uint32_t sdk_rt_data_load[];
extern uint32_t sdk_rt_bss_begin[], sdk_rt_bss_end[];

/* Clocks, pins and whatever else the board's file sets before the drivers. */
void sdk_rt_board_setup(void);
#define SDK_RT_PATIENCE 100000u /* looks at a register for bits that do not come */

/* uart_<kind>.c */
void sdk_rt_uart_init(void);
int sdk_rt_uart_read(void); /* a byte, or -1 when none has come */
void sdk_rt_uart_write(uint8_t byte);

#if defined(SDK_RT_BAUDS)
/* Of those drivers that can change their rate: the rate nearest to baud; with `set`, they have it from now on. */
uint32_t sdk_rt_uart_baud(uint32_t baud, bool set);

/* The divisor of a clock that comes nearest to a rate, between the least and the greatest that a register takes. */
static inline uint32_t sdk_rt_divisor(uint32_t hz, uint32_t baud, uint32_t min, uint32_t max)
{
    uint32_t divisor = (hz + baud / 2u) / baud;
    return divisor < min ? min : divisor > max ? max : divisor;
}

/* Of rates in rising order, each with what a register takes for it, the one that comes nearest. */
static inline const uint32_t *sdk_rt_nearest_rate(const uint32_t (*rates)[2], uint32_t count, uint32_t baud)
{
    uint32_t i = 0;
    while (i + 1u < count && baud > rates[i][0] + (rates[i + 1u][0] - rates[i][0]) / 2u) {
        ++i;
    }
    return rates[i];
}
#endif

/* timer_<kind>.c */
void sdk_rt_timer_init(void);

/* startup.c of each port: from reset to sdk_rt_start, and from any fault to sdk_rt_crashed. */
void sdk_rt_reset_handler(void);
void sdk_rt_write_back(void); /* what a data cache holds, to memory: a reset loses it */
uint32_t *sdk_rt_stack_pointer(void);
void sdk_rt_guard_stack(void); /* make a stack that grows too deep fault at once, on cores that can */

/* memory.c */
void sdk_rt_start(void);

/* main.c */
void sdk_rt_main(void);
void sdk_rt_crashed(const sdk_rt_crash_t *crash); /* report, remember, restart */
void sdk_rt_before_reset(void); /* each port's sdk_rt_port_reset calls it first */

#endif /* SDK_RT_BARE_H */
