/*
 * What one core of this machine does at most: multiply-adds of floats in registers, and bytes read from memory.
 * Vectors are as wide as SDK_PEAK_LANES; compiled for this very machine.
 */
#include <stddef.h>
#include <stdint.h>

#ifndef SDK_PEAK_LANES
#error "define SDK_PEAK_LANES: floats in the widest vector"
#endif

typedef float floats_t __attribute__((vector_size(4 * SDK_PEAK_LANES)));
typedef uint64_t words_t __attribute__((vector_size(4 * SDK_PEAK_LANES)));

#define CHAINS 10 /* products under way at once: two units of four or five cycles */

/* Do `steps` multiply-adds of vectors in each of CHAINS chains; returns how many products that is. */
uint64_t sdk_peak_products(uint64_t steps, float *out);

uint64_t sdk_peak_products(uint64_t steps, float *out)
{
    floats_t sums[CHAINS];
    floats_t factor, term;
    for (int lane = 0; lane < SDK_PEAK_LANES; ++lane) {
        factor[lane] = out[0];
        term[lane] = out[1];
    }
#pragma GCC unroll 10
    for (int chain = 0; chain < CHAINS; ++chain) {
        sums[chain] = term;
    }
    for (uint64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 10
        for (int chain = 0; chain < CHAINS; ++chain) {
            sums[chain] = sums[chain] * factor + term;
        }
    }
    floats_t sum = sums[0];
    for (int chain = 1; chain < CHAINS; ++chain) {
        sum += sums[chain];
    }
    *out = sum[0];
    return steps * CHAINS * SDK_PEAK_LANES;
}

/* Read `count` vectors from memory; returns the sum of their words, so that none can be left out. */
uint64_t sdk_peak_read(const void *from, size_t count);

uint64_t sdk_peak_read(const void *from, size_t count)
{
    const words_t *words = from;
    words_t sums[4] = {{0}, {0}, {0}, {0}};
    for (size_t i = 0; i + 4 <= count; i += 4) {
        for (int k = 0; k < 4; ++k) {
            sums[k] += words[i + (size_t)k];
        }
    }
    words_t sum = sums[0] + sums[1] + sums[2] + sums[3];
    uint64_t out = 0;
    for (size_t lane = 0; lane < sizeof sum / sizeof out; ++lane) {
        out += sum[lane];
    }
    return out;
}
