/*
 * Counts of the blocks of code that a machine executes, by phase: how often each ran, and how often each of the first two
 * blocks that ever ran next did. Enough to count instructions exactly and to estimate cycles from their kinds and from
 * which branches were taken, which the host does, with the image at hand. Phase 0 is not written.
 */
#ifndef SDK_PLUGIN_BLOCKS_H
#define SDK_PLUGIN_BLOCKS_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define SLOTS 4096u
#define NEXT 2u /* blocks behind a block that are told apart */
#define COUNTS (1u + NEXT)

/* A block: its code, the blocks that ran next, and by phase how often it ran and each of those did. */
typedef struct block {
    uint64_t start;
    size_t insns;
    struct block *chain;
    const struct block *next[NEXT];
    uint64_t counts[];
} block_t;

static block_t *blocks[SLOTS];
static uint64_t phases;
static uint64_t phase, last_phase;
static block_t *last;

/* The block of so many instructions at an address; NULL where there is no memory for a new one. */
static block_t *block_of(uint64_t start, size_t insns)
{
    block_t **slot = &blocks[(start >> 1) % SLOTS];
    for (block_t *b = *slot; b != NULL; b = b->chain) {
        if (b->start == start && b->insns == insns) {
            return b;
        }
    }
    block_t *b = calloc(1, sizeof *b + COUNTS * phases * sizeof b->counts[0]);
    if (b == NULL) {
        return NULL;
    }
    b->start = start;
    b->insns = insns;
    b->chain = *slot;
    *slot = b;
    return b;
}

static void count_block(block_t *b)
{
    if (last != NULL) {
        for (unsigned i = 0; i < NEXT; ++i) {
            if (last->next[i] == NULL) {
                last->next[i] = b;
            }
            if (last->next[i] == b) {
                ++last->counts[COUNTS * last_phase + 1 + i];
                break;
            }
        }
    }
    ++b->counts[COUNTS * phase];
    last = b;
    last_phase = phase;
}

/* A line for each block and phase: phase, address, instructions, times run, then address and times of what ran next. */
static void write_blocks(const char *path)
{
    FILE *out = fopen(path, "w");
    if (out == NULL) {
        return;
    }
    for (unsigned i = 0; i < SLOTS; ++i) {
        for (const block_t *b = blocks[i]; b != NULL; b = b->chain) {
            for (uint64_t p = 1; p < phases; ++p) {
                const uint64_t *counts = &b->counts[COUNTS * p];
                if (counts[0] == 0) {
                    continue;
                }
                fprintf(out, "%" PRIu64 " %" PRIu64 " %zu %" PRIu64, p, b->start, b->insns, counts[0]);
                for (unsigned k = 0; k < NEXT && b->next[k] != NULL; ++k) {
                    fprintf(out, " %" PRIu64 " %" PRIu64, b->next[k]->start, counts[1 + k]);
                }
                fputc('\n', out);
            }
        }
    }
    fputs("end\n", out);
    fclose(out);
}

#endif /* SDK_PLUGIN_BLOCKS_H */
