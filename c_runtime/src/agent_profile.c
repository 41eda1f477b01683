/* The clock around runs and operations, and the marks that tell an emulator which of them is at work. */
#include "internal/profile.h"
#include "internal/watchdog.h"

#include "sdk_rt_mem.h"
#include "sdk_rt_port.h"

volatile uint8_t sdk_rt_marks[SDK_RT_PHASE_OP + SDK_RT_PROFILE_OPS];
sdk_rt_op_profile_t sdk_rt_op_profiles[SDK_RT_PROFILE_OPS + 1u];

int sdk_rt_timed_run(int (*run)(const int32_t *dims), const int32_t *dims, uint64_t *ticks)
{
    memset(sdk_rt_op_profiles, 0, sizeof sdk_rt_op_profiles);
    uint64_t begin = sdk_rt_port_ticks();
    sdk_rt_marks[SDK_RT_PHASE_RUN] = 1;
    int status = run(dims);
    sdk_rt_marks[SDK_RT_PHASE_NONE] = 1;
    *ticks = sdk_rt_port_ticks() - begin;
    return status;
}

uint64_t sdk_rt_timing_cost(void)
{
    uint64_t begin = sdk_rt_port_ticks();
    sdk_rt_marks[SDK_RT_PHASE_NONE] = 1;
    sdk_rt_marks[SDK_RT_PHASE_NONE] = 1;
    return sdk_rt_port_ticks() - begin;
}

#if SDK_RT_PROFILE_OPS > 0
static uint64_t began; /* calls of operations do not nest, so one is enough */

void sdk_rt_op_begin(uint32_t index)
{
    sdk_rt_watchdog_feed();
    if (index < SDK_RT_PROFILE_OPS) {
        began = sdk_rt_port_ticks();
        sdk_rt_marks[SDK_RT_PHASE_OP + index] = 1;
    }
}

void sdk_rt_op_end(uint32_t index)
{
    if (index < SDK_RT_PROFILE_OPS) {
        sdk_rt_marks[SDK_RT_PHASE_RUN] = 1;
        sdk_rt_op_profiles[index].ticks += sdk_rt_port_ticks() - began;
        ++sdk_rt_op_profiles[index].calls;
    }
}

void sdk_rt_op_took(uint32_t index, uint64_t ticks)
{
    if (index < SDK_RT_PROFILE_OPS && ticks > 0u) {
        sdk_rt_op_profiles[index].ticks += ticks;
        ++sdk_rt_op_profiles[index].calls;
    }
}
#endif
