/* The image on QEMU: runs every request that the host put into memory and writes the results into a file of the host. */
#include "sdk_rt_mem.h"

#include <stdint.h>

extern char image_bss_begin[], image_bss_end[], image_stack_top[], image_requests[], image_results[];

int32_t drive(const int32_t *words, const uint8_t *in, uint8_t *out);
void image_start(void);
void image_fault(void);

enum { SYS_OPEN = 1, SYS_WRITE = 5, SYS_EXIT = 0x18, OPEN_WB = 5, ENDED = 0x20026, FAULTED = 0x20023 };

static int32_t host(int32_t operation, const void *argument)
{
    register int32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static void leave(uint32_t reason)
{
    for (;;) {
        host(SYS_EXIT, (const void *)reason);
    }
}

void image_fault(void)
{
    leave(FAULTED);
}

typedef union {
    char *stack;
    void (*handler)(void);
} vector_t;

__attribute__((section(".vectors"), used)) static const vector_t vectors[16] = {
    {.stack = image_stack_top},  {.handler = image_start},    {.handler = image_fault}, {.handler = image_fault},
    {.handler = image_fault},    {.handler = image_fault},    {.handler = image_fault}, {.handler = image_fault},
    {.handler = 0},              {.handler = 0},              {.handler = 0},           {.handler = image_fault},
    {.handler = image_fault},    {.handler = 0},              {.handler = image_fault}, {.handler = image_fault},
};

void image_start(void)
{
    *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20; /* FPU and MVE */
    __asm__ volatile("dsb\n\tisb" ::: "memory");
    memset(image_bss_begin, 0xA5, (size_t)(image_bss_end - image_bss_begin)); /* nothing may rely on zeros */
    const int32_t file[3] = {(int32_t)(intptr_t) "results.bin", OPEN_WB, 11};
    const int32_t handle = host(SYS_OPEN, file);
    const int32_t *at = (const int32_t *)(const void *)image_requests;
    for (int32_t left = *at++; left > 0; --left) {
        const int32_t words = at[0], given = at[1], wanted = at[2];
        const uint8_t *const in = (const uint8_t *)(at + 3) + words;
        uint8_t *const out = (uint8_t *)image_results;
        *(int32_t *)(void *)out = drive(at + 3, in, out + 4);
        const int32_t block[3] = {handle, (int32_t)(intptr_t)out, wanted + 4};
        host(SYS_WRITE, block);
        at = (const int32_t *)(const void *)(in + given);
    }
    leave(ENDED);
}
