/* Two hand-written models for the device tests: one scales and counts, one has a dim, faults and delays. */
#include <stddef.h>

#include "sdk_rt.h"

/* "scale": y = 2 x + calls since reset, on int8[64]; a golden case; overwrites its input as models may. */
static int8_t scale_x[64], scale_y[64];
static int32_t scale_calls;
static const int32_t scale_shape[2] = {4, 16};
static const sdk_rt_tensor_t scale_tensors[2] = {
    {"x", SDK_RT_I8, 2, scale_shape, 64, 0.5f, -3},
    {"y", SDK_RT_I8, 2, scale_shape, 64, 1.0f, 0},
};

static int scale_reset(void)
{
    scale_calls = 0;
    return SDK_RT_OK;
}

static int scale_run(const int32_t *dims)
{
    (void)dims;
    for (int i = 0; i < 64; ++i) {
        scale_y[i] = (int8_t)(uint8_t)((unsigned)scale_x[i] * 2u + (unsigned)scale_calls);
        scale_x[i] = 0;
    }
    ++scale_calls;
    return SDK_RT_OK;
}

static void *scale_data(uint16_t index)
{
    return index == 0 ? (void *)scale_x : (void *)scale_y;
}

static int scale_selftest(void)
{
    return SDK_RT_OK;
}

static const sdk_rt_model_t scale = {
    .abi = SDK_RT_ABI,
    .name = "scale",
    .hash = "00ff00ff",
    .input_count = 1,
    .output_count = 1,
    .tensors = scale_tensors,
    .arena_bytes = 128,
    .state_bytes = 4,
    .context_bytes = 8,
    .init = scale_reset,
    .reset = scale_reset,
    .run = scale_run,
    .data = scale_data,
    .selftest = scale_selftest,
};

/*
 * "big": copies int32[n] with n in 1..500. Unless built with FAKE_TAME, n = 13 executes an undefined
 * instruction, n = 14 overflows the stack, n = 15 loops 3 million times, n = 16 loops for ever.
 */
#ifndef BIG_N
#define BIG_N 500
#endif
static int32_t big_x[BIG_N], big_y[BIG_N];
static const int32_t big_shape[1] = {BIG_N};
static const sdk_rt_tensor_t big_tensors[2] = {
    {"in", SDK_RT_I32, 1, big_shape, 4 * BIG_N, 0.0f, 0},
    {"out", SDK_RT_I32, 1, big_shape, 4 * BIG_N, 0.0f, 0},
};
static const sdk_rt_dim_t big_dims[1] = {{"n", 1, BIG_N}};

static int big_nothing(void)
{
    return SDK_RT_OK;
}

#ifndef FAKE_TAME
static volatile uint32_t spin_sink;

static int dig(volatile int *above)
{
    volatile int here[64];
    here[0] = above[0] + 1;
    here[1] = 0;
    return here[0] < 0 ? 0 : dig(here) + above[1] + here[0];
}

static int misbehave(int32_t n)
{
    if (n == 13) {
        __builtin_trap();
    }
    if (n == 14) {
        volatile int seed[2] = {0, 0};
        return dig(seed);
    }
    for (uint32_t i = 0; n == 16 || (n == 15 && i < 3000000u); ++i) {
        spin_sink = i;
    }
    return SDK_RT_OK;
}
#endif

static int big_run(const int32_t *dims)
{
    int32_t n = dims[0];
    if (n < 1 || n > BIG_N) {
        return SDK_RT_E_DIM;
    }
#ifndef FAKE_TAME
    if (misbehave(n) != SDK_RT_OK) {
        return SDK_RT_E_STATE;
    }
#endif
    for (int32_t i = 0; i < n; ++i) {
        big_y[i] = big_x[i];
    }
    return SDK_RT_OK;
}

static void *big_data(uint16_t index)
{
    return index == 0 ? (void *)big_x : (void *)big_y;
}

static const sdk_rt_model_t big = {
    .abi = SDK_RT_ABI,
    .name = "big",
    .hash = "0badcafe",
    .input_count = 1,
    .output_count = 1,
    .dim_count = 1,
    .tensors = big_tensors,
    .dims = big_dims,
    .arena_bytes = 2 * 4 * BIG_N,
    .init = big_nothing,
    .reset = big_nothing,
    .run = big_run,
    .data = big_data,
};

const sdk_rt_model_t *const sdk_rt_models[] = {&scale, &big};
const uint16_t sdk_rt_model_count = 2;
const char sdk_rt_build_id[] = "c0ffee00c0ffee00c0ffee00c0ffee00";
