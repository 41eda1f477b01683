/* The 16550 UART, its registers one byte apart. */
#include "internal/bare.h"

#ifndef SDK_RT_UART_BASE
#error "define SDK_RT_UART_BASE"
#endif
#ifndef SDK_RT_UART_HZ
#error "define SDK_RT_UART_HZ: the UART's input clock"
#endif

#define REG(offset) SDK_RT_REG8(SDK_RT_UART_BASE + (offset))
#define DATA REG(0u)
#define DIVISOR_LOW REG(0u)
#define INTERRUPTS REG(1u)
#define DIVISOR_HIGH REG(1u)
#define FIFO REG(2u)
#define LINE REG(3u)
#define STATUS REG(5u)
#define LINE_8N1 3u
#define LINE_DIVISOR 0x80u
#define FIFO_ON_EMPTIED 7u
#define STATUS_RECEIVED 1u
#define STATUS_CAN_SEND 0x20u
#define DIVISOR ((SDK_RT_UART_HZ + 8u * 115200u) / (16u * 115200u))

void sdk_rt_uart_init(void)
{
    INTERRUPTS = 0;
    LINE = LINE_DIVISOR | LINE_8N1;
    DIVISOR_LOW = (uint8_t)(DIVISOR & 0xFFu);
    DIVISOR_HIGH = (uint8_t)(DIVISOR >> 8);
    LINE = LINE_8N1;
    FIFO = FIFO_ON_EMPTIED;
    (void)DATA; /* QEMU looks for input only after a read */
}

int sdk_rt_uart_read(void)
{
    return (STATUS & STATUS_RECEIVED) != 0 ? (int)DATA : -1;
}

void sdk_rt_uart_write(uint8_t byte)
{
    while ((STATUS & STATUS_CAN_SEND) == 0) {
    }
    DATA = byte;
}

#if defined(SDK_RT_BAUDS)
uint32_t sdk_rt_uart_baud(uint32_t baud, bool set)
{
    uint32_t divisor = sdk_rt_divisor(SDK_RT_UART_HZ / 16u, baud, 1u, 0xFFFFu);
    if (set) {
        LINE = LINE_DIVISOR | LINE_8N1;
        DIVISOR_LOW = (uint8_t)(divisor & 0xFFu);
        DIVISOR_HIGH = (uint8_t)(divisor >> 8);
        LINE = LINE_8N1;
    }
    return SDK_RT_UART_HZ / 16u / divisor;
}
#endif
