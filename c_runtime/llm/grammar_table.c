/* The tables of grammars and vocabularies: what is read is checked once, so that nothing is later. */
#include "grammar_parts.h"

#define GRAMMAR_HEAD 9u
#define WORDS_HEAD 8u

/* Takes n words of a table; NULL where it is shorter. */
static const uint32_t *words_of(const uint32_t **at, size_t *left, uint64_t n)
{
    const uint32_t *found = *at;
    if (n > *left) {
        return NULL;
    }
    *at += n;
    *left -= (size_t)n;
    return found;
}

static const uint8_t *bytes_of(const uint32_t **at, size_t *left, uint64_t n)
{
    return (const uint8_t *)(const void *)words_of(at, left, (n + 3u) / 4u);
}

static bool is_table(const void *table, size_t n, uint32_t magic, uint32_t head)
{
    const uint32_t *word = table;
    return table != NULL && ((uintptr_t)table & 3u) == 0 && n / 4u >= head && word[0] == magic &&
           word[1] == GRAMMAR_VERSION && word[2] == n;
}

sdk_grammar_status_t sdk_words_load(sdk_words_t *words, const void *table, size_t n)
{
    if (!is_table(table, n, WORDS_MAGIC, WORDS_HEAD)) {
        return SDK_GRAMMAR_TABLE;
    }
    const uint32_t *at = table;
    size_t left = n / 4u;
    const uint32_t *head = words_of(&at, &left, WORDS_HEAD);
    words->count = head[3];
    words->vocabulary = head[4];
    words->strip = head[5];
    words->mark = head[6];
    words->ids = words_of(&at, &left, words->count);
    words->at = words_of(&at, &left, (uint64_t)words->count + 1u);
    words->shared = (const uint16_t *)(const void *)words_of(&at, &left, ((uint64_t)words->count + 1u) / 2u);
    words->suffixes = bytes_of(&at, &left, head[7]);
    if (words->ids == NULL || words->at == NULL || words->shared == NULL || words->suffixes == NULL ||
        words->at[0] != 0 || words->at[words->count] != head[7] || words->strip > WORDS_STRIP_ALL) {
        return SDK_GRAMMAR_TABLE;
    }
    uint32_t before = 0;
    for (uint32_t i = 0; i < words->count; ++i) {
        uint32_t own = words->at[i + 1u] - words->at[i];
        if (words->at[i] > words->at[i + 1u] || own >= SDK_GRAMMAR_DEPTH || words->shared[i] > before ||
            words->shared[i] + own >= SDK_GRAMMAR_DEPTH || words->ids[i] >= words->vocabulary) {
            return SDK_GRAMMAR_TABLE;
        }
        before = words->shared[i] + own;
    }
    return SDK_GRAMMAR_OK;
}

/* n + 1 places rise from 0 to the end. */
static bool rises(const uint32_t *at, uint32_t n, uint32_t end)
{
    if (at[0] != 0 || at[n] != end) {
        return false;
    }
    for (uint32_t i = 0; i < n; ++i) {
        if (at[i] > at[i + 1u]) {
            return false;
        }
    }
    return true;
}

static bool is_right(const sdk_grammar_t *g, uint32_t moves, uint32_t calls)
{
    if (!rises(g->moves_at, g->states, moves) || !rises(g->calls_at, g->states, calls) || g->root >= g->rules ||
        g->classes > 255u) {
        return false;
    }
    for (uint32_t i = 0; i < 256u; ++i) {
        if (g->class_of[i] > g->classes) {
            return false;
        }
    }
    for (uint32_t i = 0; i < moves; ++i) {
        if (g->moves[i] >> 8 >= g->states) {
            return false;
        }
    }
    for (uint32_t i = 0; i < calls; ++i) {
        if (g->calls[2u * i] >= g->rules || (g->calls[2u * i + 1u] >= g->states && g->calls[2u * i + 1u] != GRAMMAR_NONE)) {
            return false;
        }
    }
    for (uint32_t rule = 0; rule < g->rules; ++rule) { /* what a rule begins with comes after it */
        uint32_t start = g->starts[rule];
        for (uint32_t k = start < g->states ? g->calls_at[start] : 0; start < g->states && k < g->calls_at[start + 1u]; ++k) {
            if (g->calls[2u * k] <= rule) {
                return false;
            }
        }
        if (start >= g->states) {
            return false;
        }
    }
    return true;
}

sdk_grammar_status_t sdk_grammar_load(sdk_grammar_t *grammar, const void *table, size_t n)
{
    if (!is_table(table, n, GRAMMAR_MAGIC, GRAMMAR_HEAD)) {
        return SDK_GRAMMAR_TABLE;
    }
    const uint32_t *at = table;
    size_t left = n / 4u;
    const uint32_t *head = words_of(&at, &left, GRAMMAR_HEAD);
    sdk_grammar_t *g = grammar;
    g->rules = head[3];
    g->states = head[4];
    g->classes = head[7];
    g->root = head[8];
    const uint32_t *mark = words_of(&at, &left, 1u);
    g->class_of = bytes_of(&at, &left, 256u);
    g->starts = words_of(&at, &left, g->rules);
    g->moves_at = words_of(&at, &left, (uint64_t)g->states + 1u);
    g->calls_at = words_of(&at, &left, (uint64_t)g->states + 1u);
    g->moves = words_of(&at, &left, head[5]);
    g->calls = words_of(&at, &left, (uint64_t)head[6] * 2u);
    g->final = bytes_of(&at, &left, g->states);
    if (mark == NULL || g->class_of == NULL || g->starts == NULL || g->moves_at == NULL || g->calls_at == NULL ||
        g->moves == NULL || g->calls == NULL || g->final == NULL || !is_right(g, head[5], head[6])) {
        return SDK_GRAMMAR_TABLE;
    }
    g->mark = *mark;
    return SDK_GRAMMAR_OK;
}
