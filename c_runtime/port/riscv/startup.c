/* From reset to sdk_rt_start on one RISC-V hart in machine mode; from any trap to the report; the restart. */
#include "internal/bare.h"

#define PMP_NAPOT_LOCKED 0x98u /* a power of two of bytes, barred from machine mode too until a reset */

void sdk_rt_trap_entry(void);
void sdk_rt_trap(uint32_t cause, uint32_t pc, uint32_t lr, uint32_t addr);

/* The linker script puts .vectors where the core starts. */
__attribute__((naked, section(".vectors"))) void sdk_rt_reset_handler(void)
{
    __asm__ volatile("csrci mstatus, 8\n\t" /* a restart comes here too: no interrupts */
                     "la t0, sdk_rt_trap_entry\n\t"
                     "csrw mtvec, t0\n\t"
                     "la sp, sdk_rt_stack_top\n\t"
                     "tail sdk_rt_start");
}

/* Take the trap on a fresh stack, the old one may be what broke. */
__attribute__((naked, aligned(64))) void sdk_rt_trap_entry(void)
{
    __asm__ volatile("csrr a0, mcause\n\t"
                     "csrr a1, mepc\n\t"
                     "mv a2, ra\n\t"
                     "csrr a3, mtval\n\t"
                     "la sp, sdk_rt_stack_top\n\t"
                     "tail sdk_rt_trap");
}

void sdk_rt_trap(uint32_t cause, uint32_t pc, uint32_t lr, uint32_t addr)
{
    sdk_rt_crash_t crash = {.cause = cause, .pc = pc, .lr = lr, .addr = addr};
    sdk_rt_crashed(&crash);
}

/* There is no reset that every RISC-V core has: start-up runs again, and initialises all it uses. */
void sdk_rt_port_reset(void)
{
    sdk_rt_before_reset();
    sdk_rt_reset_handler();
}

void sdk_rt_write_back(void)
{
}

uint32_t *sdk_rt_stack_pointer(void)
{
    uint32_t *sp;
    __asm__ volatile("mv %0, sp" : "=r"(sp));
    return sp;
}

/* On a core without PMP its registers trap: then the trap's vector is the next statement. */
void sdk_rt_guard_stack(void)
{
    uintptr_t region = ((uintptr_t)sdk_rt_stack_bottom | (SDK_RT_GUARD_BYTES / 2u - 1u)) >> 2;
    uintptr_t vector;
    __asm__ volatile("la %0, 1f\n\t"
                     "csrrw %0, mtvec, %0\n\t"
                     "csrw pmpaddr0, %1\n\t"
                     "csrw pmpcfg0, %2\n\t"
                     ".balign 4\n"
                     "1: csrw mtvec, %0"
                     : "=&r"(vector)
                     : "r"(region), "r"(PMP_NAPOT_LOCKED)
                     : "memory");
}
