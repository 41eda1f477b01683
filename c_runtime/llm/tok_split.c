/* Pieces of a text by patterns: programs without a way back, run with places to come back to. */
#include "tok_parts.h"

#define STEPS_PER_BYTE 1024u

typedef struct {
    const uint8_t *at;  /* where the text is read on; for a loop the end of its last character */
    const uint8_t *low; /* a loop gives back characters down to this; NULL where nothing is to be given back */
    uint32_t pc;
} place_t;

typedef struct {
    tok_run_t *run;
    const uint8_t *end;
    place_t place[TOK_DEPTH];
    uint32_t depth;
} matcher_t;

static bool has(const matcher_t *m, uint32_t set, const uint8_t **p)
{
    const uint8_t *next = *p;
    if (next == m->end || !(tok_sets_of(m->run->tok, tok_utf8(&next)) >> set & 1u)) {
        return false;
    }
    *p = next;
    return true;
}

static const uint8_t *back(const uint8_t *p)
{
    do {
        --p;
    } while ((*p & 0xC0u) == 0x80u);
    return p;
}

static bool push(matcher_t *m, place_t place)
{
    if (m->depth == TOK_DEPTH) {
        m->run->status = SDK_TOK_STEPS;
        return false;
    }
    m->place[m->depth++] = place;
    return true;
}

/* Goes back to the last place; false where there is none. */
static bool retry(matcher_t *m, const uint8_t **p, uint32_t *pc)
{
    if (m->depth == 0) {
        return false;
    }
    place_t *place = &m->place[m->depth - 1u];
    *pc = place->pc;
    if (place->low == NULL) {
        *p = place->at;
        --m->depth;
        return true;
    }
    place->at = back(place->at);
    *p = place->at;
    if (place->at == place->low) {
        --m->depth;
    }
    return true;
}

/* A loop takes all it can, at least so many; one that may give back notes how much. */
static bool loop(matcher_t *m, const uint32_t *code, uint32_t pc, const uint8_t **p)
{
    uint32_t min = code[pc + 1u] & 255u;
    uint32_t max = code[pc + 2u] & 255u;
    const uint8_t *low = *p;
    size_t n = 0;
    while ((max == 0 || n < max) && has(m, code[pc] >> 8, p)) {
        ++n;
        ++m->run->steps;
        low = n == min ? *p : low;
    }
    if (n < min) {
        return false;
    }
    return (code[pc] & 255u) == TOK_TAKE || *p == low || push(m, (place_t){*p, low, pc + 3u});
}

/* The end of what a program matches at p, or NULL. */
static const uint8_t *match(matcher_t *m, uint32_t pc, const uint8_t *p)
{
    const uint32_t *code = tok_words(m->run->tok, SDK_TOK_PROGRAM);
    m->depth = 0;
    while (m->run->status == SDK_TOK_OK) {
        uint32_t arg = code[pc] >> 8;
        const uint8_t *ahead = p;
        bool right = true;
        ++m->run->steps;
        switch (code[pc] & 255u) {
        case TOK_MATCH:
            return p;
        case TOK_SET:
            right = has(m, arg, &p);
            ++pc;
            break;
        case TOK_LOOP:
        case TOK_TAKE:
            right = loop(m, code, pc, &p);
            pc += 3u;
            break;
        case TOK_TRY:
            right = push(m, (place_t){p, NULL, arg});
            ++pc;
            break;
        case TOK_JUMP:
            pc = arg;
            break;
        case TOK_IF:
            right = has(m, arg, &ahead);
            ++pc;
            break;
        default:
            right = !has(m, arg, &ahead);
            ++pc;
        }
        if (m->run->steps > m->run->steps_max) {
            m->run->status = SDK_TOK_STEPS;
        }
        if (!right && !retry(m, &p, &pc)) {
            return NULL;
        }
    }
    return NULL;
}

/* What is known of the piece before, while one after the other is found. */
typedef struct {
    const tok_split_t *split;
    uint8_t *marks;
    bool before; /* whether the last part was a match */
} cutter_t;

/* A part of a piece: a match, or what is between matches. */
static void cut(cutter_t *c, size_t begin, bool matched, bool first)
{
    bool begins = true;
    matched = matched != (c->split->invert != 0);
    switch (c->split->behaviour) {
    case TOK_REMOVED:
        c->marks[begin] |= matched ? 2u : 0u;
        break;
    case TOK_WITH_PREVIOUS:
        begins = first || !matched || c->before;
        break;
    case TOK_WITH_NEXT:
        begins = first || !c->before || matched;
        break;
    case TOK_CONTIGUOUS:
        begins = first || matched != c->before;
        break;
    default:
        break;
    }
    c->before = matched;
    c->marks[begin] |= begins ? 1u : 0u;
}

static void split_piece(matcher_t *m, const uint8_t *text, size_t begin, size_t end, cutter_t *c)
{
    size_t gap = begin;
    c->before = false;
    m->end = text + end;
    for (size_t at = begin; at < end && m->run->status == SDK_TOK_OK;) {
        const uint8_t *stop = match(m, c->split->program, text + at);
        if (stop == NULL || stop == text + at) {
            at += tok_utf8_length(text[at]);
            continue;
        }
        if (gap < at) {
            cut(c, gap, false, gap == begin);
        }
        cut(c, at, true, at == begin);
        at = (size_t)(stop - text);
        gap = at;
    }
    if (gap < end) {
        cut(c, gap, false, gap == begin);
    }
}

bool tok_split(tok_run_t *run, const uint8_t *text, size_t n, uint8_t *marks)
{
    const tok_split_t *split = (const tok_split_t *)(const void *)run->tok->part[SDK_TOK_SPLITS].data;
    const tok_split_t *last = split + run->tok->part[SDK_TOK_SPLITS].bytes / sizeof *split;
    matcher_t m;
    m.run = run;
    memset(marks, 0, n);
    marks[0] = 1;
    run->steps = 0;
    run->steps_max = ((uint64_t)n + STEPS_PER_BYTE) * STEPS_PER_BYTE;
    for (; split < last; ++split) {
        cutter_t c = {split, marks, false};
        for (size_t begin = 0; begin < n;) {
            size_t end = begin + 1u;
            while (end < n && !(marks[end] & 1u)) {
                ++end;
            }
            if (!(marks[begin] & 2u)) {
                split_piece(&m, text, begin, end, &c);
            }
            begin = end;
            if (run->status != SDK_TOK_OK) {
                return false;
            }
        }
    }
    return true;
}
