/* NXP's LPUART (i.MX RT1060 RM, LPUART). Clock and pins are set by the board's file before this. */
#include "internal/cortex_m.h"

#ifndef SDK_RT_UART_BASE
#error "define SDK_RT_UART_BASE"
#endif

#define REG(offset) SDK_RT_REG(SDK_RT_UART_BASE + (offset))
#define BAUD_RATE REG(0x10u)
#define STATUS REG(0x14u)
#define CONTROL REG(0x18u)
#define DATA REG(0x1Cu)
#define BAUD 115200u
#define OVERSAMPLING 16u
#define RATE ((OVERSAMPLING - 1u) << 24 | (SDK_RT_UART_HZ + OVERSAMPLING * BAUD / 2u) / (OVERSAMPLING * BAUD))
#define RX_TX (3u << 18)
#define CAN_SEND (1u << 23)
#define RECEIVED (1u << 21)
#define OVERRUN (1u << 19) /* cleared by writing it */

void sdk_rt_uart_init(void)
{
    CONTROL = 0;
    BAUD_RATE = RATE;
    CONTROL = RX_TX;
}

int sdk_rt_uart_read(void)
{
    uint32_t state = STATUS;
    if ((state & OVERRUN) != 0) {
        STATUS = OVERRUN;
    }
    return (state & RECEIVED) != 0 ? (int)(DATA & 0xFFu) : -1;
}

void sdk_rt_uart_write(uint8_t byte)
{
    while ((STATUS & CAN_SEND) == 0) {
    }
    DATA = byte;
}
