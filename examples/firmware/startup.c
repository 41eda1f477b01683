/* The least that a Cortex-M needs before main: vectors, the FPU, .data and .bss. A vendor's start-up file does the same. */
#include <stdint.h>

#define CPACR (*(volatile uint32_t *)0xE000ED88u)

extern uint32_t stack_top[], data_begin[], data_end[], bss_begin[], bss_end[];
extern const uint32_t data_load[];

int main(void);
void reset_handler(void);

static void fault(void)
{
    for (;;) {
    }
}

void reset_handler(void)
{
    CPACR |= 0xFu << 20; /* CP10 and CP11: the FPU */
    __asm__ volatile("dsb\n\tisb" ::: "memory");
    const uint32_t *from = data_load;
    for (uint32_t *to = data_begin; to < data_end; ++to) {
        *to = *from++;
    }
    for (uint32_t *to = bss_begin; to < bss_end; ++to) {
        *to = 0;
    }
    (void)main();
    fault();
}

typedef union {
    uint32_t *stack;
    void (*handler)(void);
} vector_t;

__attribute__((section(".vectors"), used)) static const vector_t vectors[16] = {
    {.stack = stack_top},
    {.handler = reset_handler},
    {.handler = fault}, /* NMI */
    {.handler = fault}, /* HardFault */
    {.handler = fault}, /* MemManage */
    {.handler = fault}, /* BusFault */
    {.handler = fault}, /* UsageFault */
};
