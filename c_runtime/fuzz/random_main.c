/* Runs the fuzz target on seeded random inputs that often look like requests: `random COUNT SEED`. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "sdk_rt_wire.h"

#define FRAMES 16u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t state;

static uint32_t random32(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

/* Small numbers mostly: indices, counts and offsets near their limits. */
static uint32_t small(void)
{
    static const uint32_t limits[] = {0, 1, 2, 63, 64, 65, 500, 501, 1999, 2000, 2001, 0x7FFFFFFFu, ~0u};
    uint32_t r = random32();
    return (r & 7u) == 0 ? random32() : limits[(r >> 3) % (sizeof limits / sizeof limits[0])];
}

/* A request with plausible fields and a random tail; returns its length. */
static uint32_t make_frame(uint8_t *f)
{
    static const uint8_t sizes[] = {0, 0, 0, 4, 6, 6, 12, 16, 16, 4, 4, 0, 6, 8};
    uint32_t op = random32() % 14u;
    uint32_t n = SDK_RT_WIRE_HEADER + 16u + ((random32() & 3u) == 0 ? random32() % 1000u : random32() % 20u);
    for (uint32_t i = 0; i < n; ++i) {
        f[i] = (uint8_t)random32();
    }
    f[0] = (uint8_t)((random32() & 15u) == 0 ? random32() % 14u : SDK_RT_KIND_REQ);
    sdk_rt_put16(f + 4, random32() % 50u);
    sdk_rt_put16(f + 6, op);
    sdk_rt_put16(f + 8, (random32() & 7u) == 0 ? small() : sizes[op]);
    sdk_rt_put16(f + 10, random32() % 3u);
    if (op == SDK_RT_OP_RUN) {
        sdk_rt_put32(f + 12, small() % 200u);
        sdk_rt_put16(f + 20, random32() % 3u);
        n = (random32() & 1u) == 0 ? SDK_RT_WIRE_HEADER + 16u : SDK_RT_WIRE_HEADER + 20u;
        sdk_rt_put32(f + 24, small());
    } else {
        sdk_rt_put16(f + 12, op == SDK_RT_OP_PROFILE ? small() : random32() % 3u);
        sdk_rt_put32(f + 16, small());
        sdk_rt_put32(f + 20, small());
    }
    if (op == SDK_RT_OP_BAUD) {
        sdk_rt_put32(f + 12, (random32() & 3u) == 0 ? small() : SDK_RT_BASE_BAUD << random32() % 6u);
    }
    return n;
}

int main(int argc, char **argv)
{
    static uint8_t input[1u + FRAMES * 2048u];
    if (argc != 3) {
        fprintf(stderr, "usage: %s FRAMES SEED\n", argv[0]);
        return 2;
    }
    long frames = strtol(argv[1], NULL, 10);
    state = (uint64_t)strtoull(argv[2], NULL, 10) * 2654435761u + 1u;
    for (long done = 0; done < frames; done += FRAMES) {
        size_t n = 1;
        input[0] = (uint8_t)((random32() & 7u) != 0 ? 1u | (random32() & 2u) : 0u);
        for (uint32_t i = 0; i < FRAMES; ++i) {
            uint32_t len = make_frame(input + n + 2);
            sdk_rt_put16(input + n, len);
            n += 2 + len;
        }
        LLVMFuzzerTestOneInput(input, n);
    }
    return 0;
}
