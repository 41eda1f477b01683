/* Texts: UTF-8 that may be broken, and what a tokenizer changes in a text before it looks for words. */
#include "tok_parts.h"

size_t tok_put_utf8(uint32_t code, uint8_t *out)
{
    if (code < 0x80u) {
        out[0] = (uint8_t)code;
        return 1;
    }
    if (code < 0x800u) {
        out[0] = (uint8_t)(0xC0u | (code >> 6));
        out[1] = (uint8_t)(0x80u | (code & 0x3Fu));
        return 2;
    }
    if (code < 0x10000u) {
        out[0] = (uint8_t)(0xE0u | (code >> 12));
        out[1] = (uint8_t)(0x80u | ((code >> 6) & 0x3Fu));
        out[2] = (uint8_t)(0x80u | (code & 0x3Fu));
        return 3;
    }
    out[0] = (uint8_t)(0xF0u | (code >> 18));
    out[1] = (uint8_t)(0x80u | ((code >> 12) & 0x3Fu));
    out[2] = (uint8_t)(0x80u | ((code >> 6) & 0x3Fu));
    out[3] = (uint8_t)(0x80u | (code & 0x3Fu));
    return 4;
}

/* Whether a byte goes on with a character of which n bytes are there (The Unicode Standard, table 3-7). */
static bool goes_on(const uint8_t *held, uint8_t n, uint8_t byte)
{
    uint8_t low = 0x80;
    uint8_t high = 0xBF;
    if (n == 1) {
        low = held[0] == 0xE0u ? 0xA0 : held[0] == 0xF0u ? 0x90 : 0x80;
        high = held[0] == 0xEDu ? 0x9F : held[0] == 0xF4u ? 0x8F : 0xBF;
    }
    return byte >= low && byte <= high;
}

static size_t put_broken(uint8_t *out)
{
    return tok_put_utf8(0xFFFDu, out);
}

size_t tok_repair(uint8_t held[4], uint8_t *n_held, uint8_t byte, uint8_t *out)
{
    size_t n = 0;
    if (*n_held != 0) {
        if (goes_on(held, *n_held, byte)) {
            held[(*n_held)++] = byte;
            if (*n_held == tok_utf8_length(held[0])) {
                memcpy(out, held, *n_held);
                n = *n_held;
                *n_held = 0;
            }
            return n;
        }
        n = put_broken(out);
        *n_held = 0;
    }
    if (byte < 0x80u) {
        out[n++] = byte;
    } else if (byte >= 0xC2u && byte <= 0xF4u) {
        held[0] = byte;
        *n_held = 1;
    } else {
        n += put_broken(out + n);
    }
    return n;
}

/* A text that is built behind one that is read, then takes its place. */
typedef struct {
    tok_run_t *run;
    uint8_t *out;
    size_t n, room;
} builder_t;

static builder_t builder(tok_run_t *run)
{
    tok_arena_t *arena = &run->arena;
    return (builder_t){run, arena->base + arena->used, 0, arena->size - arena->used};
}

static bool put(builder_t *b, const uint8_t *s, size_t n)
{
    if (n > b->room - b->n) {
        b->run->status = SDK_TOK_MEMORY;
        return false;
    }
    if (n != 0) {
        memcpy(b->out + b->n, s, n);
    }
    b->n += n;
    return true;
}

/* The text is what was built; it is the last thing in the working memory. */
static bool built(builder_t *b, tok_text_t *text)
{
    tok_arena_t *arena = &b->run->arena;
    memmove(text->text, b->out, b->n);
    text->n = b->n;
    arena->used = (size_t)(text->text - arena->base) + b->n;
    return true;
}

static bool starts(const tok_text_t *text, const uint8_t *s, size_t n)
{
    return n <= text->n && memcmp(text->text, s, n) == 0;
}

static bool prepend(tok_run_t *run, tok_text_t *text, const uint8_t *s, size_t n)
{
    builder_t b = builder(run);
    return put(&b, s, n) && put(&b, text->text, text->n) && built(&b, text);
}

static bool replace(tok_run_t *run, tok_text_t *text, const tok_change_t *change)
{
    const uint8_t *strings = run->tok->part[SDK_TOK_STRINGS].data;
    const uint8_t *from = strings + change->from;
    builder_t b = builder(run);
    size_t done = 0;
    for (size_t i = 0; i + change->from_bytes <= text->n;) {
        if (text->text[i] != from[0] || memcmp(text->text + i, from, change->from_bytes) != 0) {
            ++i;
            continue;
        }
        if (!put(&b, text->text + done, i - done) || !put(&b, strings + change->to, change->to_bytes)) {
            return false;
        }
        i += change->from_bytes;
        done = i;
    }
    return put(&b, text->text + done, text->n - done) && built(&b, text);
}

bool tok_change(tok_run_t *run, tok_text_t *text, int part, bool first)
{
    uint32_t n;
    const tok_change_t *change = tok_changes(run->tok, part, &n);
    const uint8_t *strings = run->tok->part[SDK_TOK_STRINGS].data;
    for (uint32_t i = 0; i < n; ++i, ++change) {
        const uint8_t *to = strings + change->to;
        bool right = true;
        switch (change->kind) {
        case TOK_NFC:
            right = tok_nfc(run, text);
            break;
        case TOK_REPLACE:
            right = replace(run, text, change);
            break;
        case TOK_PREPEND:
            right = text->n == 0 || prepend(run, text, to, change->to_bytes);
            break;
        default:
            if (!starts(text, to, change->to_bytes) && (first || change->kind == TOK_PREPEND_MISSING)) {
                right = prepend(run, text, to, change->to_bytes);
            }
        }
        if (!right) {
            return false;
        }
    }
    return true;
}
