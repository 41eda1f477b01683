/* Arm's PL011 (DDI 0183G, 3.3). Clock and pins are set by the board's file before this. */
#include "internal/cortex_m.h"

#ifndef SDK_RT_UART_BASE
#error "define SDK_RT_UART_BASE"
#endif

#define REG(offset) SDK_RT_REG(SDK_RT_UART_BASE + (offset))
#define DATA REG(0x00u)
#define FLAGS REG(0x18u)
#define DIVISOR_WHOLE REG(0x24u)
#define DIVISOR_64THS REG(0x28u)
#define LINE REG(0x2Cu)
#define CONTROL REG(0x30u)
#define BAUD 115200u
#define DIVISOR ((4u * (SDK_RT_UART_HZ) + BAUD / 2u) / BAUD) /* 64 * hz / (16 * baud) */
#define LINE_8N1_FIFO 0x70u
#define ON_TX_RX 0x301u
#define RX_EMPTY 0x10u
#define TX_FULL 0x20u

void sdk_rt_uart_init(void)
{
    DIVISOR_WHOLE = DIVISOR >> 6;
    DIVISOR_64THS = DIVISOR & 63u;
    LINE = LINE_8N1_FIFO; /* takes over the divisor */
    CONTROL = ON_TX_RX;
}

int sdk_rt_uart_read(void)
{
    return (FLAGS & RX_EMPTY) == 0 ? (int)(DATA & 0xFFu) : -1;
}

void sdk_rt_uart_write(uint8_t byte)
{
    while ((FLAGS & TX_FULL) != 0) {
    }
    DATA = byte;
}

#if defined(SDK_RT_BAUDS)
uint32_t sdk_rt_uart_baud(uint32_t baud, bool set)
{
    uint32_t divisor = sdk_rt_divisor(4u * (SDK_RT_UART_HZ), baud, 64u, 0xFFFFu << 6);
    if (set) {
        CONTROL = 0;
        DIVISOR_WHOLE = divisor >> 6;
        DIVISOR_64THS = divisor & 63u;
        LINE = LINE_8N1_FIFO;
        CONTROL = ON_TX_RX;
    }
    return 4u * (SDK_RT_UART_HZ) / divisor;
}
#endif
