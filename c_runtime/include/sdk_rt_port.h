/* What a port gives the agent: a byte pipe, a counter, facts about the machine. Linked, not registered. */
#ifndef SDK_RT_PORT_H
#define SDK_RT_PORT_H

#include <stdbool.h>
#include <stdint.h>

#define SDK_RT_CAUSE_WATCHDOG 0x10000u /* instead of an exception: the watchdog was not fed in time */
#define SDK_RT_CAUSE_EXTERNAL 0x10001u /* the external flash does not hold the weights of the image */

/* Why and where the device crashed. Registers a core does not have are 0. */
typedef struct {
    uint32_t cause; /* the number of the exception */
    uint32_t pc, lr;
    uint32_t cfsr;  /* Cortex-M configurable fault status */
    uint32_t addr;  /* the address that faulted, 0 when unknown */
} sdk_rt_crash_t;

/* Constant facts. */
typedef struct {
    const char *name;  /* of the device or board */
    uint32_t timer_hz; /* ticks per second of sdk_rt_port_ticks */
    uint8_t counter;   /* SDK_RT_COUNTER_TIME or SDK_RT_COUNTER_CYCLES */
} sdk_rt_port_facts_t;

extern const sdk_rt_port_facts_t sdk_rt_port_facts;

/* Write all n bytes; may wait for the link, never for an answer. */
void sdk_rt_port_write(const uint8_t *bytes, uint32_t n);

/* The next byte that has come, -1 when none has; never waits. The agent looks between the runs of a series. */
int sdk_rt_port_read(void);

/* The rate nearest to baud that the link can have, for ports built with SDK_RT_BAUDS. With `set` it has it from now on,
 * once all that was written has left. */
uint32_t sdk_rt_port_baud(uint32_t baud, bool set);

/* A counter that never goes backwards. Two calls at most 2^32 ticks apart differ by the time between them. */
uint64_t sdk_rt_port_ticks(void);

/* Bytes reserved for the stack, 0 where the system manages it. */
uint32_t sdk_rt_port_stack_bytes(void);

/* Deepest use of the stack since boot in bytes, 0 when not measured. */
uint32_t sdk_rt_port_stack_used(void);

/* Restart the device. Returns only where that is impossible. */
void sdk_rt_port_reset(void);

#endif /* SDK_RT_PORT_H */
