/*
 * The SERCOM of Microchip's SAM D5x/E5x as a USART (DS60001507, 34): sends on pad 0, receives on pad 1. Clocks and pins are set
 * by the board's file before this.
 */
#include "internal/cortex_m.h"

#ifndef SDK_RT_UART_BASE
#error "define SDK_RT_UART_BASE"
#endif

#define REG(offset) SDK_RT_REG(SDK_RT_UART_BASE + (offset))
#define CTRLA REG(0x00u)
#define CTRLB REG(0x04u)
#define BAUD_DIVISOR SDK_RT_REG16(SDK_RT_UART_BASE + 0x0Cu)
#define INTFLAG SDK_RT_REG8(SDK_RT_UART_BASE + 0x18u)
#define SYNCBUSY REG(0x1Cu)
#define DATA REG(0x28u)
#define BAUD 115200u
#define CTRLA_8N1_PADS (1u << 30 | 1u << 20 | 1u << 2) /* lowest bit first, RX on pad 1, TX on pad 0, own clock */
#define CTRLA_ENABLE 2u
#define CTRLB_RX_TX (3u << 16)
#define CAN_SEND 1u
#define RECEIVED 4u

void sdk_rt_uart_init(void)
{
    CTRLA = CTRLA_8N1_PADS;
    CTRLB = CTRLB_RX_TX;
    while (SYNCBUSY != 0) {
    }
    BAUD_DIVISOR = (uint16_t)(65536u - (uint32_t)((65536ull * 16u * BAUD + SDK_RT_UART_HZ / 2u) / SDK_RT_UART_HZ));
    CTRLA = CTRLA_8N1_PADS | CTRLA_ENABLE;
    while (SYNCBUSY != 0) {
    }
}

int sdk_rt_uart_read(void)
{
    return (INTFLAG & RECEIVED) != 0 ? (int)(DATA & 0xFFu) : -1;
}

void sdk_rt_uart_write(uint8_t byte)
{
    while ((INTFLAG & CAN_SEND) == 0) {
    }
    DATA = byte;
}

#if defined(SDK_RT_BAUDS)
#define HZ_2048TH (SDK_RT_UART_HZ >> 11)

uint32_t sdk_rt_uart_baud(uint32_t baud, bool set)
{
    uint32_t fastest = SDK_RT_UART_HZ / 16u;
    baud = baud < fastest ? baud : fastest;
    uint32_t share = ((baud << 9) + HZ_2048TH / 2u) / HZ_2048TH; /* of 65536, of the fastest */
    if (set) {
        CTRLA = CTRLA_8N1_PADS;
        while (SYNCBUSY != 0) {
        }
        BAUD_DIVISOR = (uint16_t)(65536u - share);
        CTRLA = CTRLA_8N1_PADS | CTRLA_ENABLE;
        while (SYNCBUSY != 0) {
        }
    }
    return HZ_2048TH * share >> 9;
}
#endif
