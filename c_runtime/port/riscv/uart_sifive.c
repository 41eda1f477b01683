/* The UART of SiFive's chips (FE310-G002 manual v1.5, 18). Pins are set by the board's file before this. */
#include "internal/bare.h"

#ifndef SDK_RT_UART_BASE
#error "define SDK_RT_UART_BASE"
#endif

#define REG(offset) SDK_RT_REG(SDK_RT_UART_BASE + (offset))
#define TX REG(0x00u)
#define RX REG(0x04u)
#define TX_CONTROL REG(0x08u)
#define RX_CONTROL REG(0x0Cu)
#define DIVISOR REG(0x18u)
#define BAUD 115200u
#define ON 1u
#define TX_FULL 0x80000000u
#define RX_EMPTY 0x80000000u

void sdk_rt_uart_init(void)
{
    DIVISOR = (SDK_RT_UART_HZ + BAUD / 2u) / BAUD - 1u;
    TX_CONTROL = ON;
    RX_CONTROL = ON;
}

int sdk_rt_uart_read(void)
{
    uint32_t came = RX;
    return (came & RX_EMPTY) == 0 ? (int)(came & 0xFFu) : -1;
}

void sdk_rt_uart_write(uint8_t byte)
{
    while ((TX & TX_FULL) != 0) {
    }
    TX = byte;
}

#if defined(SDK_RT_BAUDS)
uint32_t sdk_rt_uart_baud(uint32_t baud, bool set)
{
    uint32_t divisor = sdk_rt_divisor(SDK_RT_UART_HZ, baud, 16u, 0x10000u);
    if (set) {
        DIVISOR = divisor - 1u;
    }
    return SDK_RT_UART_HZ / divisor;
}
#endif
