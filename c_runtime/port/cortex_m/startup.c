/* From reset to sdk_rt_main: vectors, FPU, stack guard, .data, .bss; and from any fault to sdk_rt_fault. */
#include "internal/cortex_m.h"
#include "sdk_rt_mem.h"

#define CPACR 0xE000ED88u
#define SHCSR 0xE000ED24u
#define SHCSR_FAULTS (7u << 16) /* memory, bus and usage faults */
#define MPU_TYPE 0xE000ED90u
#define MPU_CTRL 0xE000ED94u
#define MPU_RNR 0xE000ED98u
#define MPU_RBAR 0xE000ED9Cu
#define MPU_RASR 0xE000EDA0u
#define MPU_REGIONS(type) ((type) >> 8 & 0xFFu)
#define MPU_ON_WITH_DEFAULT_MAP 5u

/* Armv7-M has no stack limit register: an MPU, where there is one, bars the lowest bytes of the stack. */
#if defined(__ARM_ARCH_7M__) || defined(__ARM_ARCH_7EM__)
#define GUARD_BYTES 256u
#define GUARD_NO_ACCESS (7u << 1 | 1u) /* 2^(7+1) bytes, enabled, no permissions */
#else
#define GUARD_BYTES 0u
#endif

#define STACK_PAINT 0xC0DEFACEu
#define PAINT_MARGIN 16u /* words below the stack pointer that the painting loop itself may use */

/* Addresses that the linker script defines. */
extern uint32_t sdk_rt_stack_bottom[], sdk_rt_stack_top[];
extern uint32_t sdk_rt_data_begin[], sdk_rt_data_end[];
extern const uint32_t sdk_rt_data_load[];
extern uint32_t sdk_rt_bss_begin[], sdk_rt_bss_end[];

/* Gives the stack's section the type of writable memory, whichever linker lays it out. */
__attribute__((section(".stack"), used)) static uint32_t stack_floor[2];

void sdk_rt_fault_entry(void);

/* Take the fault on a fresh stack, the old one may be what broke. r0: the saved registers, r1: the cause. */
__attribute__((naked)) void sdk_rt_fault_entry(void)
{
    __asm__ volatile("mrs r0, msp\n\t"
                     "mrs r1, ipsr\n\t"
                     "ldr r2, 1f\n\t"
                     "mov sp, r2\n\t"
                     "ldr r2, 2f\n\t"
                     "bx r2\n\t"
                     ".balign 4\n"
                     "1: .word sdk_rt_stack_top\n"
                     "2: .word sdk_rt_fault\n");
}

__attribute__((weak)) void sdk_rt_systick_handler(void)
{
    sdk_rt_fault_entry();
}

typedef union {
    uint32_t *stack;
    void (*handler)(void);
} vector_t;

__attribute__((section(".vectors"), used)) static const vector_t vectors[16] = {
    {.stack = sdk_rt_stack_top},
    {.handler = sdk_rt_reset_handler},
    {.handler = sdk_rt_fault_entry}, /* NMI */
    {.handler = sdk_rt_fault_entry}, /* HardFault */
    {.handler = sdk_rt_fault_entry}, /* MemManage */
    {.handler = sdk_rt_fault_entry}, /* BusFault */
    {.handler = sdk_rt_fault_entry}, /* UsageFault */
    {.handler = sdk_rt_fault_entry}, /* SecureFault */
    {.handler = 0},
    {.handler = 0},
    {.handler = 0},
    {.handler = sdk_rt_fault_entry}, /* SVCall */
    {.handler = sdk_rt_fault_entry}, /* DebugMonitor */
    {.handler = 0},
    {.handler = sdk_rt_fault_entry}, /* PendSV */
    {.handler = sdk_rt_systick_handler},
};

static uint32_t *stack_pointer(void)
{
    uint32_t *sp;
    __asm__ volatile("mrs %0, msp" : "=r"(sp));
    return sp;
}

static void paint_stack(void)
{
    const uint32_t *end = stack_pointer() - PAINT_MARGIN;
    for (volatile uint32_t *p = sdk_rt_stack_bottom; p < end; ++p) {
        *p = STACK_PAINT;
    }
}

/* Make a stack that grows too deep fault at once, on cores that can. */
static void guard_stack(void)
{
#if defined(__ARM_ARCH_8M_MAIN__) || defined(__ARM_ARCH_8_1M_MAIN__)
    __asm__ volatile("msr msplim, %0" ::"r"(sdk_rt_stack_bottom));
#elif GUARD_BYTES != 0
    if (MPU_REGIONS(SDK_RT_REG(MPU_TYPE)) != 0) {
        SDK_RT_REG(MPU_RNR) = 0;
        SDK_RT_REG(MPU_RBAR) = (uint32_t)(uintptr_t)sdk_rt_stack_bottom;
        SDK_RT_REG(MPU_RASR) = GUARD_NO_ACCESS;
        SDK_RT_REG(MPU_CTRL) = MPU_ON_WITH_DEFAULT_MAP;
        __asm__ volatile("dsb\n\tisb" ::: "memory");
    }
#endif
}

static uint32_t bytes_between(const uint32_t *begin, const uint32_t *end)
{
    return (uint32_t)((uintptr_t)end - (uintptr_t)begin);
}

uint32_t sdk_rt_port_stack_bytes(void)
{
    return bytes_between(sdk_rt_stack_bottom, sdk_rt_stack_top) - GUARD_BYTES;
}

uint32_t sdk_rt_port_stack_used(void)
{
    const volatile uint32_t *p = sdk_rt_stack_bottom + GUARD_BYTES / 4u;
    while (p < sdk_rt_stack_top && *p == STACK_PAINT) {
        ++p;
    }
    return (uint32_t)((uintptr_t)sdk_rt_stack_top - (uintptr_t)p);
}

__attribute__((noinline)) static void start(void)
{
    paint_stack();
    guard_stack();
    memcpy(sdk_rt_data_begin, sdk_rt_data_load, bytes_between(sdk_rt_data_begin, sdk_rt_data_end));
    memset(sdk_rt_bss_begin, 0, bytes_between(sdk_rt_bss_begin, sdk_rt_bss_end));
    sdk_rt_main();
}

void sdk_rt_reset_handler(void)
{
#if defined(__ARM_FP)
    SDK_RT_REG(CPACR) |= 0xFu << 20; /* the FPU, and MVE where there is one */
    __asm__ volatile("dsb\n\tisb" ::: "memory");
#endif
#if !defined(__ARM_ARCH_6M__)
    /* On a full stack saving registers fails too: these faults can then escalate, HardFault would lock up. */
    SDK_RT_REG(SHCSR) |= SHCSR_FAULTS;
#endif
    start();
}
