/* The UART of nRF51 and nRF52. Its pins are set by the board's file before this. */
#include "internal/cortex_m.h"

#ifndef SDK_RT_UART_BASE
#error "define SDK_RT_UART_BASE"
#endif

#define REG(offset) SDK_RT_REG(SDK_RT_UART_BASE + (offset))
#define START_RX REG(0x000u)
#define START_TX REG(0x008u)
#define RX_READY REG(0x108u)
#define TX_READY REG(0x11Cu)
#define ENABLE REG(0x500u)
#define RXD REG(0x518u)
#define TXD REG(0x51Cu)
#define BAUD REG(0x524u)
#define BAUD_115200 0x01D7E000u

void sdk_rt_uart_init(void)
{
    BAUD = BAUD_115200;
    ENABLE = 4;
    RX_READY = 0;
    START_RX = 1;
    START_TX = 1;
}

int sdk_rt_uart_read(void)
{
    if (RX_READY == 0) {
        return -1;
    }
    RX_READY = 0;
    return (int)(RXD & 0xFFu);
}

void sdk_rt_uart_write(uint8_t byte)
{
    TX_READY = 0;
    TXD = byte;
    while (TX_READY == 0) {
    }
}

#if defined(SDK_RT_BAUDS)
/* Rates, and what the manual has one write for them. */
static const uint32_t rates[][2] = {
    {115200u, BAUD_115200}, {230400u, 0x03AFB000u}, {250000u, 0x04000000u},
    {460800u, 0x075F7000u}, {921600u, 0x0EBED000u}, {1000000u, 0x10000000u},
};

uint32_t sdk_rt_uart_baud(uint32_t baud, bool set)
{
    const uint32_t *rate = sdk_rt_nearest_rate(rates, sizeof rates / sizeof rates[0], baud);
    if (set) {
        BAUD = rate[1];
    }
    return rate[0];
}
#endif
