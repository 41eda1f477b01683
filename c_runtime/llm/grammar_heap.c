/* The memory of a grammar's run: sets that are equal are one record, and what is no longer needed is dropped. */
#include "grammar_parts.h"

static uint32_t size_of(const sdk_grammar_run_t *run, const uint32_t *rec)
{
    return REC_PAIRS + 2u * rec_count(rec) + ((rec[REC_KIND] & KIND_STATE) ? run->grammar->classes : 0u);
}

static uint32_t hash_of(uint32_t kind, const uint32_t *pairs, uint32_t n)
{
    uint32_t hash = 2166136261u ^ kind;
    for (uint32_t i = 0; i < 2u * n; ++i) {
        hash = (hash ^ pairs[i]) * 16777619u;
        hash ^= hash >> 15;
    }
    return hash;
}

static void chain(sdk_grammar_run_t *run, uint32_t at)
{
    uint32_t *rec = run->heap + at;
    uint32_t *bucket = &run->buckets[rec[REC_HASH] & (run->bucket_count - 1u)];
    rec[REC_NEXT] = *bucket;
    *bucket = at;
}

uint32_t grammar_record(sdk_grammar_run_t *run, uint32_t kind, const uint32_t *pairs, uint32_t n)
{
    uint32_t hash = hash_of(kind, pairs, n);
    kind |= n << KIND_COUNT_SHIFT;
    for (uint32_t at = run->buckets[hash & (run->bucket_count - 1u)]; at != 0; at = run->heap[at + REC_NEXT]) {
        const uint32_t *rec = run->heap + at;
        if (rec[REC_HASH] == hash && rec[REC_KIND] == kind &&
            memcmp(rec + REC_PAIRS, pairs, 2u * n * sizeof *pairs) == 0) {
            return at;
        }
    }
    uint32_t at = run->used;
    uint32_t *rec = run->heap + at;
    uint32_t extra = (kind & KIND_STATE) ? run->grammar->classes : 0u;
    if (REC_PAIRS + 2u * n + extra > run->heap_words - at) {
        return FULL;
    }
    rec[REC_BEFORE] = run->last;
    rec[REC_HASH] = hash;
    rec[REC_KIND] = kind;
    memcpy(rec + REC_PAIRS, pairs, 2u * n * sizeof *pairs);
    memset(rec + REC_PAIRS + 2u * n, 0, extra * sizeof *rec); /* TO_UNKNOWN */
    run->last = at;
    run->used = at + REC_PAIRS + 2u * n + extra;
    chain(run, at);
    return at;
}

/* Marks what the marked records refer to, from the youngest to the oldest. */
static void mark(sdk_grammar_run_t *run)
{
    for (uint32_t at = run->last; at != 0; at = run->heap[at + REC_BEFORE]) {
        const uint32_t *rec = run->heap + at;
        for (uint32_t i = 0; (rec[REC_KIND] & KIND_MARKED) && i < rec_count(rec); ++i) {
            uint32_t node = rec[REC_PAIRS + 2u * i + 1u];
            if (node != 0) {
                run->heap[node + REC_KIND] |= KIND_MARKED;
            }
        }
    }
}

/* Writes into REC_NEXT of each marked record where it will stand. */
static void place(sdk_grammar_run_t *run, uint32_t first)
{
    uint32_t to = first;
    for (uint32_t at = first; at < run->used; at += size_of(run, run->heap + at)) {
        if (run->heap[at + REC_KIND] & KIND_MARKED) {
            run->heap[at + REC_NEXT] = to;
            to += size_of(run, run->heap + at);
        }
    }
}

static void turn(sdk_grammar_run_t *run, uint32_t first, uint32_t depth)
{
    for (uint32_t at = first; at < run->used; at += size_of(run, run->heap + at)) {
        uint32_t *rec = run->heap + at;
        for (uint32_t i = 0; (rec[REC_KIND] & KIND_MARKED) && i < rec_count(rec); ++i) {
            uint32_t *node = &rec[REC_PAIRS + 2u * i + 1u];
            *node = *node == 0 ? 0 : run->heap[*node + REC_NEXT];
        }
    }
    for (uint32_t i = 0; i <= depth; ++i) {
        run->path[i].state = run->heap[run->path[i].state + REC_NEXT];
    }
}

void grammar_collect(sdk_grammar_run_t *run, uint32_t depth)
{
    run->steps += run->used / 16u;
    const uint32_t first = REC_PAIRS; /* so that no record stands at a number with a meaning */
    for (uint32_t i = 0; i <= depth; ++i) {
        run->heap[run->path[i].state + REC_KIND] |= KIND_MARKED;
    }
    mark(run);
    place(run, first);
    turn(run, first, depth);
    memset(run->buckets, 0, run->bucket_count * sizeof *run->buckets);
    uint32_t end = run->used;
    uint32_t to = first;
    run->last = 0;
    for (uint32_t at = first, size; at < end; at += size) {
        uint32_t *rec = run->heap + at;
        size = size_of(run, rec);
        if (!(rec[REC_KIND] & KIND_MARKED)) {
            continue;
        }
        uint32_t *moved = memmove(run->heap + to, rec, size * sizeof *rec);
        uint32_t n = rec_count(moved);
        moved[REC_KIND] &= ~KIND_MARKED;
        moved[REC_BEFORE] = run->last;
        moved[REC_HASH] = hash_of(moved[REC_KIND] & (KIND_STATE | KIND_WHOLE), moved + REC_PAIRS, n);
        memset(moved + REC_PAIRS + 2u * n, 0, (size - REC_PAIRS - 2u * n) * sizeof *moved);
        run->last = to;
        chain(run, to);
        to += size;
    }
    run->used = to;
}
