/* The bare-metal agent: polls the UART, keeps the record of a crash across a restart. */
#include "internal/bare.h"
#include "internal/external.h"
#include "internal/watchdog.h"
#include "sdk_rt.h"
#include "sdk_rt_agent.h"

#include <stddef.h>

#ifndef SDK_RT_DEVICE_NAME
#error "define SDK_RT_DEVICE_NAME: the board's name as a string"
#endif
#ifndef SDK_RT_TIMER_HZ
#error "define SDK_RT_TIMER_HZ: ticks per second of the board's timer"
#endif

#define CRASH_MAGIC 0x4352534Bu
#define ASKED_MAGIC 0x41534B44u

const sdk_rt_port_facts_t sdk_rt_port_facts = {
    SDK_RT_DEVICE_NAME, SDK_RT_TIMER_HZ, SDK_RT_COUNTER_TIME};

static sdk_rt_agent_t agent;

/* Survives a restart: start-up code leaves .noinit alone. */
__attribute__((section(".noinit"))) static struct {
    uint32_t magic;
    uint32_t asked; /* ASKED_MAGIC: the firmware itself restarted the board */
    sdk_rt_crash_t crash;
} last;

void sdk_rt_port_write(const uint8_t *bytes, uint32_t n)
{
    for (uint32_t i = 0; i < n; ++i) {
        sdk_rt_watchdog_feed();
        sdk_rt_uart_write(bytes[i]);
    }
}

/* The loop looks for a byte again and again, and so does the agent between the runs of a series. */
int sdk_rt_port_read(void)
{
    sdk_rt_watchdog_feed();
    return sdk_rt_uart_read();
}

#if defined(SDK_RT_BAUDS)
#define DRAINS_PER_SECOND 200u /* what a full FIFO of 32 bytes takes to leave at the slowest rate, and some */

uint32_t sdk_rt_port_baud(uint32_t baud, bool set)
{
    uint64_t begin = sdk_rt_port_ticks();
    while (set && sdk_rt_port_ticks() - begin < SDK_RT_TIMER_HZ / DRAINS_PER_SECOND) {
        (void)sdk_rt_port_read(); /* what comes meanwhile is of no rate that can be told */
    }
    return sdk_rt_uart_baud(baud, set);
}
#endif

void sdk_rt_crashed(const sdk_rt_crash_t *crash)
{
    last.crash = *crash;
    last.magic = CRASH_MAGIC;
    sdk_rt_agent_report_crash(&agent, &last.crash);
    sdk_rt_port_reset();
}

void sdk_rt_before_reset(void)
{
    last.asked = ASKED_MAGIC;
}

#if defined(SDK_RT_WATCHDOG_MS)
/* Makes a crash of a reset by the watchdog. Chips may tell of one until the power goes: a restart that the firmware
 * asked for came later. */
static void note_watchdog(void)
{
    if (sdk_rt_watchdog_was_it() && last.asked != ASKED_MAGIC) {
        last.crash = (sdk_rt_crash_t){.cause = SDK_RT_CAUSE_WATCHDOG};
        last.magic = CRASH_MAGIC;
    }
}
#endif

#if defined(SDK_RT_EXTERNAL)
void sdk_rt_wait_us(uint32_t us)
{
    uint64_t begin = sdk_rt_port_ticks(), ticks = (uint64_t)sdk_rt_port_facts.timer_hz * us / 1000000u;
    while (sdk_rt_port_ticks() - begin <= ticks) {
    }
}

/* Maps the flash chip with the weights. Where others are in it than those of this image, no run may read them. */
static void map_external(void)
{
    sdk_rt_external_setup();
    sdk_rt_external_map();
    for (uint32_t i = 0; sdk_rt_build_id[i] != 0; ++i) {
        const char *found = &sdk_rt_external_id[i];
        if (*found != sdk_rt_build_id[i]) {
            sdk_rt_crashed(&(sdk_rt_crash_t){.cause = SDK_RT_CAUSE_EXTERNAL, .addr = (uint32_t)(uintptr_t)found});
        }
    }
}
#endif

#ifdef SDK_RT_APP
void SDK_RT_APP(void); /* what the firmware does while no tool has a session open: a short step, again and again */
#endif

void sdk_rt_main(void)
{
    sdk_rt_board_setup();
    sdk_rt_uart_init();
    sdk_rt_timer_init();
#if defined(SDK_RT_WATCHDOG_MS)
    note_watchdog();
    sdk_rt_watchdog_setup();
    sdk_rt_watchdog_start();
#endif
    sdk_rt_agent_init(&agent, last.magic == CRASH_MAGIC ? &last.crash : NULL);
    last.magic = 0;
    last.asked = 0;
    sdk_rt_write_back();
#if defined(SDK_RT_EXTERNAL)
    map_external();
#endif
    for (;;) {
        int byte = sdk_rt_port_read();
        if (byte >= 0) {
            sdk_rt_agent_feed(&agent, (uint8_t)byte);
        }
#ifdef SDK_RT_APP
        else if (!agent.open) {
            SDK_RT_APP();
        }
#endif
    }
}
