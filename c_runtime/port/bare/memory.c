/* Start-up that is the same on every core: the painted and guarded stack, .data, .bss; how deep the stack went. */
#include "internal/bare.h"
#include "sdk_rt_mem.h"

#define STACK_PAINT 0xC0DEFACEu
#define PAINT_MARGIN 16u /* words below the stack pointer that the painting loop itself may use */

/* Gives the stack's section the type of writable memory, whichever linker lays it out. */
__attribute__((section(".stack"), used)) static uint32_t stack_floor[2];

static uint32_t *unguarded_bottom(void)
{
    return sdk_rt_stack_bottom + SDK_RT_GUARD_BYTES / 4u;
}

static void paint_stack(void)
{
    const uint32_t *end = sdk_rt_stack_pointer() - PAINT_MARGIN;
    for (volatile uint32_t *p = unguarded_bottom(); p < end; ++p) {
        *p = STACK_PAINT;
    }
}

static uint32_t bytes_between(const uint32_t *begin, const uint32_t *end)
{
    return (uint32_t)((uintptr_t)end - (uintptr_t)begin);
}

uint32_t sdk_rt_port_stack_bytes(void)
{
    return bytes_between(unguarded_bottom(), sdk_rt_stack_top);
}

uint32_t sdk_rt_port_stack_used(void)
{
    const volatile uint32_t *p = unguarded_bottom();
    while (p < sdk_rt_stack_top && *p == STACK_PAINT) {
        ++p;
    }
    return (uint32_t)((uintptr_t)sdk_rt_stack_top - (uintptr_t)p);
}

void sdk_rt_start(void)
{
    paint_stack();
    sdk_rt_guard_stack();
    memcpy(sdk_rt_data_begin, sdk_rt_data_load, bytes_between(sdk_rt_data_begin, sdk_rt_data_end));
    memset(sdk_rt_bss_begin, 0, bytes_between(sdk_rt_bss_begin, sdk_rt_bss_end));
    sdk_rt_main();
}
