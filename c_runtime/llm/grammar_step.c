/* A byte more: what may come next is a set of (state, node), where the node says what its rule returns to. All ways to
 * read the text are followed at once; those that meet share a node, so that their number does not multiply. */
#include "grammar_parts.h"

/* A state of a rule and a node, once. */
static bool add(sdk_grammar_run_t *run, uint32_t state, uint32_t node)
{
    uint32_t slot = ((state * 0x9E3779B1u) ^ (node * 0x85EBCA6Bu)) >> 7 & (run->slot_count - 1u);
    for (; run->slots[slot] != 0; slot = (slot + 1u) & (run->slot_count - 1u)) {
        const uint32_t *item = run->items + 3u * (run->slots[slot] - 1u);
        if (item[0] == state && item[1] == node) {
            return true;
        }
    }
    if (run->item_count == run->item_cap) {
        return false;
    }
    uint32_t *item = run->items + 3u * run->item_count++;
    item[0] = state;
    item[1] = node;
    item[2] = slot;
    run->slots[slot] = run->item_count;
    return true;
}

static bool pend(sdk_grammar_run_t *run, uint32_t rule, uint32_t state, uint32_t node)
{
    if (run->pending_count == run->pending_cap) {
        return false;
    }
    uint32_t *call = run->pending + 3u * run->pending_count++;
    call[0] = run->heads[rule];
    call[1] = state;
    call[2] = node;
    run->heads[rule] = run->pending_count;
    return true;
}

/* The calls of a state. Where nothing follows one in its rule, the rule that is called returns to where this one does. */
static bool call_all(sdk_grammar_run_t *run, uint32_t state, uint32_t node)
{
    const sdk_grammar_t *g = run->grammar;
    for (uint32_t k = g->calls_at[state]; k < g->calls_at[state + 1u]; ++k) {
        uint32_t rule = g->calls[2u * k];
        uint32_t back = g->calls[2u * k + 1u];
        const uint32_t *rec = run->heap + node;
        bool fits = back == GRAMMAR_NONE || pend(run, rule, back, node);
        for (uint32_t i = 0; back == GRAMMAR_NONE && fits && i < rec_count(rec); ++i) {
            fits = pend(run, rule, rec[REC_PAIRS + 2u * i], rec[REC_PAIRS + 2u * i + 1u]);
            ++run->steps;
        }
        if (!fits) {
            return false;
        }
    }
    return true;
}

static bool less(const uint32_t *a, const uint32_t *b)
{
    return a[0] < b[0] || (a[0] == b[0] && a[1] < b[1]);
}

/* Puts pairs in rising order, each once; how many are left. */
static uint32_t order(uint32_t *pairs, uint32_t n)
{
    for (uint32_t gap = n / 2u; gap != 0; gap = gap == 2u ? 1u : gap * 5u / 11u) {
        for (uint32_t i = gap; i < n; ++i) {
            uint32_t moved[2] = {pairs[2u * i], pairs[2u * i + 1u]};
            uint32_t k = i;
            for (; k >= gap && less(moved, pairs + 2u * (k - gap)); k -= gap) {
                memcpy(pairs + 2u * k, pairs + 2u * (k - gap), sizeof moved);
            }
            memcpy(pairs + 2u * k, moved, sizeof moved);
        }
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; ++i) {
        if (kept == 0 || less(pairs + 2u * (kept - 1u), pairs + 2u * i)) {
            memmove(pairs + 2u * kept++, pairs + 2u * i, 2u * sizeof *pairs);
        }
    }
    return kept;
}

/* Begins the rules that were called: a rule begins others of higher numbers only, so that all calls of one are known. */
static bool begin_rules(sdk_grammar_run_t *run)
{
    const sdk_grammar_t *g = run->grammar;
    for (uint32_t rule = 0; rule < g->rules; ++rule) {
        uint32_t n = 0;
        for (uint32_t at = run->heads[rule]; at != 0; at = run->pending[3u * (at - 1u)]) {
            memcpy(run->pairs + 2u * n++, run->pending + 3u * (at - 1u) + 1u, 2u * sizeof *run->pairs);
        }
        if (n == 0) {
            continue;
        }
        run->heads[rule] = 0;
        run->steps += n;
        uint32_t node = grammar_record(run, 0, run->pairs, order(run->pairs, n));
        if (node == FULL || !add(run, g->starts[rule], node) || !call_all(run, g->starts[rule], node)) {
            return false;
        }
    }
    return true;
}

static void clear(sdk_grammar_run_t *run)
{
    for (uint32_t i = 0; i < run->item_count; ++i) {
        run->slots[run->items[3u * i + 2u]] = 0;
    }
    if (run->pending_count != 0) {
        memset(run->heads, 0, run->grammar->rules * sizeof *run->heads);
    }
    run->item_count = run->pending_count = 0;
}

/* The record of what was found: of states that take a byte. */
static uint32_t record(sdk_grammar_run_t *run, bool whole)
{
    const sdk_grammar_t *g = run->grammar;
    uint32_t n = 0;
    for (uint32_t i = 0; i < run->item_count; ++i) {
        const uint32_t *item = run->items + 3u * i;
        if (g->moves_at[item[0]] != g->moves_at[item[0] + 1u]) {
            memcpy(run->pairs + 2u * n++, item, 2u * sizeof *run->pairs);
        }
    }
    run->steps += run->item_count;
    if (n == 0 && !whole) {
        return TO_NOTHING;
    }
    return grammar_record(run, KIND_STATE | (whole ? KIND_WHOLE : 0u), run->pairs, order(run->pairs, n));
}

/* Returns from the rules that are at their end, then begins those that are called. */
static uint32_t finish(sdk_grammar_run_t *run, bool whole)
{
    const sdk_grammar_t *g = run->grammar;
    bool fits = true;
    for (uint32_t i = 0; fits && i < run->item_count; ++i) {
        const uint32_t *item = run->items + 3u * i;
        const uint32_t *rec = run->heap + item[1];
        for (uint32_t k = 0; fits && g->final[item[0]] && k < rec_count(rec); ++k) {
            uint32_t back = rec[REC_PAIRS + 2u * k];
            whole = whole || back == GRAMMAR_NONE;
            fits = back == GRAMMAR_NONE || add(run, back, rec[REC_PAIRS + 2u * k + 1u]);
            ++run->steps;
        }
    }
    for (uint32_t i = 0, n = run->item_count; fits && i < n; ++i) {
        fits = call_all(run, run->items[3u * i], run->items[3u * i + 1u]);
    }
    uint32_t found = fits && begin_rules(run) ? record(run, whole) : FULL;
    clear(run);
    return found;
}

uint32_t grammar_step(sdk_grammar_run_t *run, uint32_t state, uint32_t class)
{
    const sdk_grammar_t *g = run->grammar;
    const uint32_t *rec = run->heap + state;
    bool fits = true;
    for (uint32_t i = 0; i < rec_count(rec); ++i) {
        uint32_t at = rec[REC_PAIRS + 2u * i];
        for (uint32_t k = g->moves_at[at]; k < g->moves_at[at + 1u]; ++k) {
            if ((g->moves[k] & 255u) == class) {
                fits = fits && add(run, g->moves[k] >> 8, rec[REC_PAIRS + 2u * i + 1u]);
            }
        }
        run->steps += g->moves_at[at + 1u] - g->moves_at[at];
    }
    if (!fits) {
        clear(run);
        return FULL;
    }
    return finish(run, false);
}

uint32_t grammar_first(sdk_grammar_run_t *run)
{
    uint32_t whole = run->grammar->final[run->grammar->starts[run->grammar->root]];
    return pend(run, run->grammar->root, GRAMMAR_NONE, 0) ? finish(run, whole != 0) : FULL;
}
