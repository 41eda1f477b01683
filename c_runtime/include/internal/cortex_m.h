/* What the files of the Cortex-M port share. A board chooses one uart_<kind>.c and one timer_<kind>.c. */
#ifndef SDK_RT_CORTEX_M_PORT_H
#define SDK_RT_CORTEX_M_PORT_H

#include <stdint.h>

#include "sdk_rt_port.h"

#define SDK_RT_REG(address) (*(volatile uint32_t *)(uintptr_t)(address))

void sdk_rt_uart_init(void);
int sdk_rt_uart_read(void); /* a byte, or -1 when none has come */
void sdk_rt_uart_write(uint8_t byte);

void sdk_rt_timer_init(void);

/* startup.c: from reset to main, and from a fault to the report. */
void sdk_rt_reset_handler(void);
void sdk_rt_systick_handler(void);

/* main.c */
void sdk_rt_main(void);
void sdk_rt_fault(const uint32_t *frame, uint32_t cause);

#endif /* SDK_RT_CORTEX_M_PORT_H */
