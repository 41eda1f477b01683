/* From bytes to tokens: the words of a vocabulary in their order are a tree, of which the parts that cannot follow are
 * passed over. */
#include "grammar_parts.h"

#define MAX_STEPS ((uint64_t)1 << 25) /* of one call */
#define MIN_HEAP 256u

size_t sdk_grammar_work(const sdk_grammar_t *grammar)
{
    return ((size_t)96 << 10) + (size_t)grammar->rules * 4u + (size_t)grammar->classes * 1024u;
}

static uint32_t *part(uint32_t **free, uint32_t words)
{
    uint32_t *found = *free;
    *free += words;
    return found;
}

sdk_grammar_status_t sdk_grammar_begin(sdk_grammar_run_t *run, const sdk_grammar_t *grammar, const sdk_words_t *words,
                                       void *work, size_t work_bytes)
{
    uint32_t all = work_bytes / 4u > (uint32_t)1 << 28 ? (uint32_t)1 << 28 : (uint32_t)(work_bytes / 4u);
    uint32_t cap = 32u;
    if (grammar->mark != words->mark) {
        return SDK_GRAMMAR_TABLE;
    }
    while (cap < 1u << 14 && cap * 128u < all) {
        cap *= 2u;
    }
    memset(run, 0, sizeof *run);
    run->grammar = grammar;
    run->words = words;
    run->item_cap = cap;
    run->slot_count = 2u * cap;
    run->pending_cap = 2u * cap;
    run->bucket_count = 2u * cap;
    uint32_t fixed = 3u * cap + 3u * run->pending_cap + 2u * run->pending_cap + run->slot_count + run->bucket_count;
    if (work == NULL || ((uintptr_t)work & 3u) != 0 || all < MIN_HEAP || grammar->rules > all - MIN_HEAP ||
        fixed > all - MIN_HEAP - grammar->rules) {
        return SDK_GRAMMAR_MEMORY;
    }
    uint32_t *free = work;
    memset(work, 0, (fixed + (size_t)grammar->rules) * 4u);
    run->items = part(&free, 3u * cap);
    run->pending = part(&free, 3u * run->pending_cap);
    run->pairs = part(&free, 2u * run->pending_cap); /* room for all items too */
    run->slots = part(&free, run->slot_count);
    run->buckets = part(&free, run->bucket_count);
    run->heads = part(&free, grammar->rules);
    run->heap = free;
    run->heap_words = all - fixed - grammar->rules;
    run->used = REC_PAIRS;
    run->path[0].state = grammar_first(run);
    run->path[0].left = words->strip;
    return run->path[0].state == FULL ? SDK_GRAMMAR_MEMORY : SDK_GRAMMAR_OK;
}

/* Goes from path[depth] by a byte; run->found tells whether it may come. */
static sdk_grammar_status_t advance(sdk_grammar_run_t *run, uint32_t depth, uint8_t byte)
{
    uint32_t left = run->path[depth].left;
    uint32_t class = run->grammar->class_of[byte];
    run->found = 1;
    if (left != 0 && byte == ' ') { /* decoding takes it away */
        run->path[depth + 1u].state = run->path[depth].state;
        run->path[depth + 1u].left = left == WORDS_STRIP_ALL ? left : left - 1u;
        return SDK_GRAMMAR_OK;
    }
    uint32_t to = TO_NOTHING;
    if (class != 0) {
        for (int tries = 0;; ++tries) {
            uint32_t *rec = run->heap + run->path[depth].state;
            uint32_t *known = rec + REC_PAIRS + 2u * rec_count(rec) + (class - 1u);
            to = *known;
            if (to == TO_UNKNOWN) {
                to = grammar_step(run, run->path[depth].state, class);
                *known = to == FULL ? TO_UNKNOWN : to;
            }
            if (to != FULL) {
                break;
            }
            if (tries != 0) {
                return SDK_GRAMMAR_MEMORY;
            }
            grammar_collect(run, depth);
        }
    }
    if (run->steps > MAX_STEPS) {
        return SDK_GRAMMAR_STEPS;
    }
    run->found = to != TO_NOTHING;
    run->path[depth + 1u].state = to;
    run->path[depth + 1u].left = left == WORDS_STRIP_ALL ? left : 0u;
    return SDK_GRAMMAR_OK;
}

sdk_grammar_status_t sdk_grammar_allowed(sdk_grammar_run_t *run, uint32_t *allowed, uint32_t vocabulary)
{
    const sdk_words_t *words = run->words;
    uint32_t alive = 0; /* bytes of the last word that can follow */
    memset(allowed, 0, ((size_t)vocabulary + 31u) / 32u * sizeof *allowed);
    run->steps = 0;
    for (uint32_t i = 0; i < words->count; ++i) {
        if (words->shared[i] > alive) {
            continue;
        }
        uint32_t at = words->at[i];
        uint32_t end = words->at[i + 1u];
        for (alive = words->shared[i]; at < end; ++at, ++alive) {
            sdk_grammar_status_t status = advance(run, alive, words->suffixes[at]);
            if (status != SDK_GRAMMAR_OK) {
                return status;
            }
            if (!run->found) {
                break;
            }
        }
        if (at == end && words->ids[i] < vocabulary) {
            allowed[words->ids[i] >> 5] |= (uint32_t)1 << (words->ids[i] & 31u);
        }
    }
    return SDK_GRAMMAR_OK;
}

/* The text of a word; its length. */
static uint32_t spell(const sdk_words_t *words, uint32_t i, uint8_t *out)
{
    uint32_t n = words->shared[i] + (words->at[i + 1u] - words->at[i]);
    for (uint32_t need = n;; --i) {
        if (words->shared[i] < need) {
            memcpy(out + words->shared[i], words->suffixes + words->at[i], need - words->shared[i]);
            need = words->shared[i];
        }
        if (need == 0) {
            return n;
        }
    }
}

sdk_grammar_status_t sdk_grammar_take(sdk_grammar_run_t *run, uint32_t id)
{
    uint8_t text[SDK_GRAMMAR_DEPTH];
    uint32_t i = 0;
    while (i < run->words->count && run->words->ids[i] != id) {
        ++i;
    }
    if (i == run->words->count) {
        return SDK_GRAMMAR_TOKEN;
    }
    uint32_t n = spell(run->words, i, text);
    run->steps = 0;
    for (uint32_t depth = 0; depth < n; ++depth) {
        sdk_grammar_status_t status = advance(run, depth, text[depth]);
        if (status != SDK_GRAMMAR_OK || !run->found) {
            return status == SDK_GRAMMAR_OK ? SDK_GRAMMAR_TOKEN : status;
        }
    }
    run->path[0] = run->path[n];
    run->path[0].left = run->path[0].left == WORDS_STRIP_ALL ? 0u : run->path[0].left;
    return SDK_GRAMMAR_OK;
}

bool sdk_grammar_can_end(const sdk_grammar_run_t *run)
{
    return (run->heap[run->path[0].state + REC_KIND] & KIND_WHOLE) != 0;
}

bool sdk_grammar_is_done(const sdk_grammar_run_t *run)
{
    return sdk_grammar_can_end(run) && rec_count(run->heap + run->path[0].state) == 0;
}
