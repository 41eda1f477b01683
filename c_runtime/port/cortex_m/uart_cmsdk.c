/* The UART of Arm's CMSDK, as in the MPS2 and MPS3 boards. */
#include "internal/cortex_m.h"

#ifndef SDK_RT_UART_BASE
#error "define SDK_RT_UART_BASE"
#endif

#define DATA SDK_RT_REG(SDK_RT_UART_BASE + 0x00u)
#define STATE SDK_RT_REG(SDK_RT_UART_BASE + 0x04u)
#define CTRL SDK_RT_REG(SDK_RT_UART_BASE + 0x08u)
#define BAUDDIV SDK_RT_REG(SDK_RT_UART_BASE + 0x10u)
#define STATE_TX_FULL 1u
#define STATE_RX_FULL 2u
#define CTRL_TX_RX 3u

#ifndef SDK_RT_UART_HZ
#error "define SDK_RT_UART_HZ: the UART's input clock"
#endif
#define BAUD 115200u

void sdk_rt_uart_init(void)
{
    BAUDDIV = SDK_RT_UART_HZ / BAUD;
    CTRL = CTRL_TX_RX;
    (void)DATA; /* drop what came before; QEMU also looks for input only after a read */
}

int sdk_rt_uart_read(void)
{
    return (STATE & STATE_RX_FULL) != 0 ? (int)(DATA & 0xFFu) : -1;
}

void sdk_rt_uart_write(uint8_t byte)
{
    while ((STATE & STATE_TX_FULL) != 0) {
    }
    DATA = byte;
}

#if defined(SDK_RT_BAUDS)
uint32_t sdk_rt_uart_baud(uint32_t baud, bool set)
{
    uint32_t divisor = sdk_rt_divisor(SDK_RT_UART_HZ, baud, 16u, 0xFFFFFu);
    if (set) {
        BAUDDIV = divisor;
    }
    return SDK_RT_UART_HZ / divisor;
}
#endif
