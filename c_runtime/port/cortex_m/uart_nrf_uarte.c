/*
 * The UARTE of nRF52, nRF53 and nRF91 (nRF5340 PS v1.3, UARTE), which reads and writes RAM by itself: a byte at a time here.
 * Its pins are set by the board's file before this.
 */
#include "internal/cortex_m.h"

#ifndef SDK_RT_UART_BASE
#error "define SDK_RT_UART_BASE"
#endif

#define REG(offset) SDK_RT_REG(SDK_RT_UART_BASE + (offset))
#define START_RX REG(0x000u)
#define START_TX REG(0x008u)
#define END_RX REG(0x110u)
#define END_TX REG(0x120u)
#define ENABLE REG(0x500u)
#define ENABLE_UARTE 8u
#define BAUD REG(0x524u)
#define BAUD_115200 0x01D60000u
#define RX_AT REG(0x534u)
#define RX_BYTES REG(0x538u)
#define TX_AT REG(0x544u)
#define TX_BYTES REG(0x548u)

static volatile uint8_t received, sent;

static void receive(void)
{
    END_RX = 0;
    RX_AT = (uint32_t)(uintptr_t)&received;
    RX_BYTES = 1;
    START_RX = 1;
}

void sdk_rt_uart_init(void)
{
    BAUD = BAUD_115200;
    ENABLE = ENABLE_UARTE;
    receive();
}

int sdk_rt_uart_read(void)
{
    if (END_RX == 0) {
        return -1;
    }
    int byte = received;
    receive(); /* what came meanwhile waits in the receiver */
    return byte;
}

void sdk_rt_uart_write(uint8_t byte)
{
    sent = byte;
    END_TX = 0;
    TX_AT = (uint32_t)(uintptr_t)&sent;
    TX_BYTES = 1;
    START_TX = 1;
    while (END_TX == 0) {
    }
}

#if defined(SDK_RT_BAUDS)
/* Rates, and what the manual has one write for them. */
static const uint32_t rates[][2] = {
    {115200u, BAUD_115200}, {230400u, 0x03B00000u}, {250000u, 0x04000000u},
    {460800u, 0x07400000u}, {921600u, 0x0F000000u}, {1000000u, 0x10000000u},
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
