/* The UART of Espressif's ESP32-C3, C6 and H2 (ESP32-C3 TRM 1.1, 26). Clock and divisor are set by the board's file. */
#include "internal/bare.h"

#ifndef SDK_RT_UART_BASE
#error "define SDK_RT_UART_BASE"
#endif

#define REG(offset) SDK_RT_REG(SDK_RT_UART_BASE + (offset))
#define FIFO REG(0x00u)
#define STATUS REG(0x1Cu)
#define RECEIVED(status) ((status) & 0xFFu)
#define SENDING(status) ((status) >> 16 & 0xFFu)
#define FIFO_BYTES 128u

void sdk_rt_uart_init(void)
{
}

int sdk_rt_uart_read(void)
{
    return RECEIVED(STATUS) != 0 ? (int)(FIFO & 0xFFu) : -1;
}

void sdk_rt_uart_write(uint8_t byte)
{
    while (SENDING(STATUS) >= FIFO_BYTES) {
    }
    FIFO = byte;
}
