/* From reset to sdk_rt_start: vectors, FPU, faults, the stack's guard; and from any fault to sdk_rt_fault. */
#include "internal/cortex_m.h"

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

#define GUARD_NO_ACCESS (7u << 1 | 1u) /* an MPU region of 2^(7+1) bytes, enabled, no permissions */

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

uint32_t *sdk_rt_stack_pointer(void)
{
    uint32_t *sp;
    __asm__ volatile("mrs %0, msp" : "=r"(sp));
    return sp;
}

void sdk_rt_guard_stack(void)
{
#if defined(__ARM_ARCH_8M_MAIN__) || defined(__ARM_ARCH_8_1M_MAIN__)
    __asm__ volatile("msr msplim, %0" ::"r"(sdk_rt_stack_bottom));
#elif SDK_RT_GUARD_BYTES != 0
    if (MPU_REGIONS(SDK_RT_REG(MPU_TYPE)) != 0) {
        SDK_RT_REG(MPU_RNR) = 0;
        SDK_RT_REG(MPU_RBAR) = (uint32_t)(uintptr_t)sdk_rt_stack_bottom;
        SDK_RT_REG(MPU_RASR) = GUARD_NO_ACCESS;
        SDK_RT_REG(MPU_CTRL) = MPU_ON_WITH_DEFAULT_MAP;
        __asm__ volatile("dsb\n\tisb" ::: "memory");
    }
#endif
}

#if defined(SDK_RT_CACHES)
#define CCR 0xE000ED14u
#define CCR_DATA (1u << 16)
#define CCR_CODE (1u << 17)
#define CCSIDR 0xE000ED80u
#define CSSELR 0xE000ED84u
#define ICIALLU 0xE000EF50u
#define DCISW 0xE000EF60u
#define DCCSW 0xE000EF6Cu

/* Does to each line of the data cache, by set and way, what writing to a register does (DDI 0403E, B2.2.7). */
static void for_each_line(uint32_t maintenance)
{
    SDK_RT_REG(CSSELR) = 0;
    __asm__ volatile("dsb" ::: "memory");
    uint32_t size = SDK_RT_REG(CCSIDR), ways = size >> 3 & 0x3FFu;
    for (uint32_t set = 0; set <= (size >> 13 & 0x7FFFu); ++set) {
        for (uint32_t way = 0; way <= ways; ++way) {
            SDK_RT_REG(maintenance) = set << ((size & 7u) + 4u) | (ways == 0 ? 0 : way << __builtin_clz(ways));
        }
    }
    __asm__ volatile("dsb\n\tisb" ::: "memory");
}

static void enable_caches(void)
{
    SDK_RT_REG(ICIALLU) = 0;
    for_each_line(DCISW);
    SDK_RT_REG(CCR) |= CCR_CODE | CCR_DATA;
    __asm__ volatile("dsb\n\tisb" ::: "memory");
}

void sdk_rt_write_back(void)
{
    for_each_line(DCCSW);
}
#else
void sdk_rt_write_back(void)
{
}
#endif

void sdk_rt_reset_handler(void)
{
#if defined(SDK_RT_CACHES)
    enable_caches();
#endif
#if defined(__ARM_FP)
    SDK_RT_REG(CPACR) |= 0xFu << 20; /* the FPU, and MVE where there is one */
    __asm__ volatile("dsb\n\tisb" ::: "memory");
#endif
#if !defined(__ARM_ARCH_6M__)
    /* On a full stack saving registers fails too: these faults can then escalate, HardFault would lock up. */
    SDK_RT_REG(SHCSR) |= SHCSR_FAULTS;
#endif
    sdk_rt_start();
}
