/* Runs a fuzz target on seeded random bytes: `random COUNT SEED`. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t state;

static uint32_t random32(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

/* Half of them are zero now and then, so that lengths in them are short. */
int main(int argc, char **argv)
{
    static uint8_t input[2000];
    if (argc != 3) {
        fprintf(stderr, "usage: %s COUNT SEED\n", argv[0]);
        return 2;
    }
    state = (uint64_t)strtoull(argv[2], NULL, 10) * 2654435761u + 1u;
    for (long left = strtol(argv[1], NULL, 10); left > 0; --left) {
        uint32_t n = random32() % sizeof input, mask = random32() % 4u;
        for (uint32_t i = 0; i < n; ++i) {
            input[i] = (uint8_t)(mask != 0 && random32() % (mask + 1u) != 0 ? random32() % 3u : random32());
        }
        (void)LLVMFuzzerTestOneInput(input, n);
    }
    return 0;
}
