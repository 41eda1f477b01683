/*
 * The USART and LPUART of STM32 F0, F3, F7, G0, G4, H7, L0, L4, L5 and U5, without FIFO (RM0432, USART registers). Clock
 * and pins, which differ from chip to chip, are set by the board's file before this.
 */
#include "internal/cortex_m.h"

#ifndef SDK_RT_UART_BASE
#error "define SDK_RT_UART_BASE"
#endif

#define REG(offset) SDK_RT_REG(SDK_RT_UART_BASE + (offset))
#define CR1 REG(0x00u)
#define BRR REG(0x0Cu)
#define ISR REG(0x1Cu)
#define ICR REG(0x20u)
#define RDR REG(0x24u)
#define TDR REG(0x28u)
#define BAUD 115200u
#define DIVISOR ((uint32_t)(((uint64_t)SDK_RT_UART_HZ * SDK_RT_UART_SCALE + BAUD / 2u) / BAUD)) /* an LPUART's scale is 256 */
#define CR1_ENABLE 1u
#define CR1_RX_TX 0xCu
#define OVERRUN 0x08u /* in ISR and in ICR */
#define ISR_RECEIVED 0x20u
#define ISR_CAN_SEND 0x80u

void sdk_rt_uart_init(void)
{
    CR1 = CR1_RX_TX;
    BRR = DIVISOR;
    CR1 = CR1_RX_TX | CR1_ENABLE;
}

int sdk_rt_uart_read(void)
{
    uint32_t state = ISR;
    if ((state & OVERRUN) != 0) {
        ICR = OVERRUN;
    }
    return (state & ISR_RECEIVED) != 0 ? (int)(RDR & 0xFFu) : -1;
}

void sdk_rt_uart_write(uint8_t byte)
{
    while ((ISR & ISR_CAN_SEND) == 0) {
    }
    TDR = byte;
}

#if defined(SDK_RT_BAUDS)
/* An LPUART's rate is divided by its scale first: all stays within 32 bits, and misses by 0.2 % at most. */
#define DIVISOR_MIN (SDK_RT_UART_SCALE == 1u ? 16u : 0x300u)
#define DIVISOR_MAX (SDK_RT_UART_SCALE == 1u ? 0xFFFFu : 0xFFFFFu)

uint32_t sdk_rt_uart_baud(uint32_t baud, bool set)
{
    uint32_t divisor = sdk_rt_divisor(SDK_RT_UART_HZ, baud / SDK_RT_UART_SCALE, DIVISOR_MIN, DIVISOR_MAX);
    if (set) {
        CR1 = CR1_RX_TX;
        BRR = divisor;
        CR1 = CR1_RX_TX | CR1_ENABLE;
    }
    return SDK_RT_UART_HZ / divisor * SDK_RT_UART_SCALE;
}
#endif
