/* The USART of STM32 F1, F2, F4 and L1 (RM0008, 27.6). Clock and pins are set by the board's file before this. */
#include "internal/cortex_m.h"

#ifndef SDK_RT_UART_BASE
#error "define SDK_RT_UART_BASE"
#endif

#define REG(offset) SDK_RT_REG(SDK_RT_UART_BASE + (offset))
#define STATUS REG(0x00u)
#define DATA REG(0x04u)
#define BRR REG(0x08u)
#define CR1 REG(0x0Cu)
#define BAUD 115200u
#define CR1_ON_RX_TX 0x200Cu
#define RECEIVED 0x20u
#define OVERRUN 0x08u
#define CAN_SEND 0x80u

void sdk_rt_uart_init(void)
{
    BRR = (SDK_RT_UART_HZ + BAUD / 2u) / BAUD;
    CR1 = CR1_ON_RX_TX;
}

int sdk_rt_uart_read(void)
{
    return (STATUS & (RECEIVED | OVERRUN)) != 0 ? (int)(DATA & 0xFFu) : -1; /* reading both clears an overrun */
}

void sdk_rt_uart_write(uint8_t byte)
{
    while ((STATUS & CAN_SEND) == 0) {
    }
    DATA = byte;
}

#if defined(SDK_RT_BAUDS)
uint32_t sdk_rt_uart_baud(uint32_t baud, bool set)
{
    uint32_t divisor = sdk_rt_divisor(SDK_RT_UART_HZ, baud, 16u, 0xFFFFu);
    if (set) {
        CR1 = 0;
        BRR = divisor;
        CR1 = CR1_ON_RX_TX;
    }
    return SDK_RT_UART_HZ / divisor;
}
#endif
