/* What the hooks of a model and the agent tell of a run: which operation is at work, and how long each took. */
#ifndef SDK_RT_PROFILE_H
#define SDK_RT_PROFILE_H

#include <stdint.h>

/* Operations of a profiled model: hooks have the numbers 0 to SDK_RT_PROFILE_OPS - 1. */
#ifndef SDK_RT_PROFILE_OPS
#define SDK_RT_PROFILE_OPS 0u
#endif

#define SDK_RT_PHASE_NONE 0u /* nothing that counts */
#define SDK_RT_PHASE_RUN 1u  /* a run, outside of its operations */
#define SDK_RT_PHASE_OP 2u   /* the first operation; the others follow */

/* A byte for each phase. Storing to one starts its phase: an emulator sees that, and needs no more. */
extern volatile uint8_t sdk_rt_marks[SDK_RT_PHASE_OP + SDK_RT_PROFILE_OPS];

/* What one operation took in the last run, over all its calls. */
typedef struct {
    uint64_t ticks;
    uint32_t calls;
} sdk_rt_op_profile_t;

extern sdk_rt_op_profile_t sdk_rt_op_profiles[SDK_RT_PROFILE_OPS + 1u]; /* the last is never used */

/* Run a model once; *ticks gets what it took. */
int sdk_rt_timed_run(int (*run)(const int32_t *dims), const int32_t *dims, uint64_t *ticks);

/* What sdk_rt_timed_run counts around nothing. */
uint64_t sdk_rt_timing_cost(void);

/* The hooks around an operation. */
void sdk_rt_op_begin(uint32_t index);
void sdk_rt_op_end(uint32_t index);

/* An operation whose ticks were counted elsewhere; none: it was not run there. */
void sdk_rt_op_took(uint32_t index, uint64_t ticks);

#endif /* SDK_RT_PROFILE_H */
