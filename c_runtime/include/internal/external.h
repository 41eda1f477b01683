/* A flash chip beside the microcontroller, which holds the weights. Builds without SDK_RT_EXTERNAL leave it alone. */
#ifndef SDK_RT_EXTERNAL_H
#define SDK_RT_EXTERNAL_H

#if defined(SDK_RT_EXTERNAL)
#include <stdint.h>

/* A command without an address. */
typedef struct {
    uint16_t instruction;
    uint8_t lines, bytes;
    uint8_t both_edges; /* of the clock: 1 where it is sent so */
} sdk_rt_flash_command_t;

/* The chip, as the board's file has it. */
typedef struct {
    uint16_t divider;     /* of the peripheral's clock */
    uint8_t size_log2;    /* of the chip's bytes */
    uint8_t rest_cycles;  /* between two commands */
    uint8_t status, busy; /* the instruction that reads its status, the bits that are set while it is at work */
    uint8_t read, instruction_lines, address_lines, data_lines, address_bytes, dummy_cycles;
    uint8_t resets;
    uint32_t recovers_us; /* after a reset */
    sdk_rt_flash_command_t reset[8]; /* after these it listens to one line */
} sdk_rt_flash_t;

extern const sdk_rt_flash_t sdk_rt_flash;

void sdk_rt_external_setup(void); /* from the board's file: pins and clocks */
void sdk_rt_external_map(void);   /* external_<kind>.c: resets the chip, then it is memory */
void sdk_rt_wait_us(uint32_t us); /* main.c, on the timer */

/* What was written to the chip with the weights: the image's hash, as long as that in the image itself. */
extern const char sdk_rt_external_id[];
#endif

#endif /* SDK_RT_EXTERNAL_H */
