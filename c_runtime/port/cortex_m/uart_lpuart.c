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

#if defined(SDK_RT_BAUDS)
uint32_t sdk_rt_uart_baud(uint32_t baud, bool set)
{
    uint32_t best = 0, rate = 0, off = UINT32_MAX;
    for (uint32_t samples = 8; samples <= 32u; ++samples) { /* fewer would need both edges of its clock */
        uint32_t divisor = sdk_rt_divisor(SDK_RT_UART_HZ / samples, baud, 1u, 0x1FFFu);
        uint32_t got = SDK_RT_UART_HZ / (samples * divisor), miss = got < baud ? baud - got : got - baud;
        if (miss < off) {
            best = (samples - 1u) << 24 | divisor;
            rate = got;
            off = miss;
        }
    }
    if (set) {
        CONTROL = 0;
        BAUD_RATE = best;
        CONTROL = RX_TX;
    }
    return rate;
}
#endif
