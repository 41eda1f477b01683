/* Reads runs from a file and does them; around each operation only the bytes of its buffers may be touched. */
#include <sanitizer/asan_interface.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int32_t *words;      /* of the run: for each slot a count and so many (region, from, to) */
static size_t arena_bytes;  /* that the plan says the run needs */
static unsigned char *memory[2];
static size_t room[2];
static uint32_t seed = 1;

static int64_t *fill(size_t count, int64_t most)
{
    int64_t *out = malloc(count * sizeof *out);
    for (size_t k = 0; k < count; ++k) {
        seed = seed * 1664525u + 1013904223u;
        out[k] = (int64_t)(seed >> 8) % most;
    }
    return out;
}

void zone(int slot);

static void open_all(void)
{
    for (int r = 0; r < 2; ++r) {
        ASAN_UNPOISON_MEMORY_REGION(memory[r], room[r]);
    }
}

/* One after the other, the last first, so that a worker's scratch is not the only one in use. */
static void parallel(void *user, int32_t count, void (*task)(void *arg, int32_t index, int32_t worker), void *arg)
{
    (void)user;
    for (int32_t k = count; k-- > 0;) {
        task(arg, k, k % 2);
    }
}

#include "entries.h"

static int first_slot;

void zone(int slot)
{
    int32_t *at = words;
    for (int k = first_slot; k < slot; ++k) {
        at += 1 + 3 * at[0];
    }
    for (int r = 0; r < 2; ++r) {
        ASAN_POISON_MEMORY_REGION(memory[r], room[r]);
    }
    for (int32_t k = 0; k < at[0]; ++k) {
        const int32_t *span = at + 1 + 3 * k;
        ASAN_UNPOISON_MEMORY_REGION(memory[span[0]] + span[1], (size_t)(span[2] - span[1]));
    }
}

static int32_t next(FILE *file)
{
    int32_t word = -1;
    return fread(&word, sizeof word, 1, file) == 1 ? word : -1;
}

int main(int argc, char **argv)
{
    FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;
    model_t model;
    int runs = 0;
    void *given[2] = {NULL, NULL};
    if (file == NULL) {
        return 2;
    }
    for (int32_t entry = next(file); entry >= 0; entry = next(file)) {
        int32_t fresh = next(file), count = next(file), dims[8];
        for (int32_t k = 0; k < count; ++k) {
            dims[k] = next(file);
        }
        first_slot = next(file);
        int32_t size = next(file);
        arena_bytes = (size_t)next(file);
        words = malloc((size_t)size * sizeof *words);
        if (fread(words, sizeof *words, (size_t)size, file) != (size_t)size) {
            return 3;
        }
        if (fresh) {
            open_all();
            free(given[0]);
            free(given[1]);
            room[0] = ARENA;
            room[1] = state_bytes(dims);
            for (int r = 0; r < 2; ++r) {
                if (posix_memalign(&given[r], 64, room[r] + (room[r] == 0)) != 0) {
                    return 4;
                }
                memory[r] = given[r];
                memset(memory[r], 0xA5, room[r]);
            }
            if (bind(&model, memory[0], memory[1], room[1], dims) != 0) {
                return 5;
            }
        }
        if (share(&model, THREADS) != 0) {
            return 7;
        }
        int status = run(&model, entry, dims);
        open_all();
        free(words);
        if (status != 0) {
            printf("run %d of entry %d: status %d\n", runs, (int)entry, status);
            return 6;
        }
        runs += 1;
    }
    printf("%d runs\n", runs);
    fclose(file);
    return 0;
}
