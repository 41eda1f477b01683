/* From a text to tokens: added tokens are found, the rest is changed, split into pieces, and each piece encoded. */
#include "tok_parts.h"

typedef void encode_fn(tok_run_t *run, uint8_t *text, size_t n, bool first);

void *tok_take(tok_run_t *run, size_t bytes)
{
    tok_arena_t *arena = &run->arena;
    size_t at = (arena->used + 7u) & ~(size_t)7u;
    if (run->status != SDK_TOK_OK || at > arena->size || bytes > arena->size - at) {
        run->status = run->status == SDK_TOK_OK ? SDK_TOK_MEMORY : run->status;
        return NULL;
    }
    arena->used = at + bytes;
    return arena->base + at;
}

void tok_emit(tok_run_t *run, uint32_t id)
{
    if (run->count < run->cap) {
        run->ids[run->count] = id;
    }
    ++run->count;
}

/* A copy of a text as the last thing in the working memory, where it can be changed. */
static bool copy(tok_run_t *run, const uint8_t *s, size_t n, tok_text_t *text)
{
    text->text = tok_take(run, n);
    text->n = n;
    if (text->text == NULL) {
        return false;
    }
    memcpy(text->text, s, n);
    return true;
}

static void encode_word(tok_run_t *run, const uint8_t *word, size_t n)
{
    if (run->tok->kind == TOK_BPE) {
        tok_bpe(run, word, n);
    } else {
        tok_unigram(run, word, n);
    }
}

static void encode_pieces(tok_run_t *run, const uint8_t *text, size_t n)
{
    uint8_t *marks = tok_take(run, n);
    if (marks == NULL || !tok_split(run, text, n, marks)) {
        return;
    }
    for (size_t begin = 0; begin < n && run->status == SDK_TOK_OK;) {
        size_t end = begin + 1u;
        while (end < n && !(marks[end] & 1u)) {
            ++end;
        }
        if (!(marks[begin] & 2u)) {
            encode_word(run, text + begin, end - begin);
        }
        begin = end;
    }
}

/* A text without added tokens, normalised. */
static void encode_normal(tok_run_t *run, uint8_t *s, size_t n, bool first)
{
    size_t before = run->arena.used;
    tok_text_t text;
    if (copy(run, s, n, &text) && tok_change(run, &text, SDK_TOK_CHANGES, first) && text.n != 0) {
        encode_pieces(run, text.text, text.n);
    }
    run->arena.used = before;
}

static size_t space_at(const sdk_tok_t *tok, const uint8_t *s, size_t n)
{
    const uint8_t *p = s;
    while (p < s + n) {
        const uint8_t *next = p;
        if (!(tok_sets_of(tok, tok_utf8(&next)) & 1u)) { /* the first set of each table: white space */
            break;
        }
        p = next;
    }
    return (size_t)(p - s);
}

static size_t space_before(const sdk_tok_t *tok, const uint8_t *s, size_t n)
{
    while (n != 0) {
        size_t k = n - 1u;
        while (k != 0 && (s[k] & 0xC0u) == 0x80u) {
            --k;
        }
        const uint8_t *p = s + k;
        if (!(tok_sets_of(tok, tok_utf8(&p)) & 1u)) {
            break;
        }
        n = k;
    }
    return n;
}

/* Emits the added tokens of a list that a text names, and encodes what is between them. */
static void encode_around(tok_run_t *run, int part, uint8_t *s, size_t n, bool first, encode_fn *rest)
{
    const sdk_tok_t *tok = run->tok;
    size_t done = 0;
    for (size_t at = 0; at < n && run->status == SDK_TOK_OK;) {
        const tok_added_t *added = tok_added_at(tok, part, s + at, n - at);
        if (added == NULL) {
            at += tok_utf8_length(s[at]);
            continue;
        }
        size_t begin = at;
        size_t end = at + added->bytes;
        at = end;
        if ((run->flags & SDK_TOK_PLAIN) && (added->flags & TOK_ADDED_SPECIAL)) {
            continue;
        }
        if (added->flags & TOK_ADDED_LEFT) {
            begin = space_before(tok, s, begin);
            begin = begin < done ? done : begin;
        }
        if (added->flags & TOK_ADDED_RIGHT) {
            end += space_at(tok, s + end, n - end);
        }
        if (done < begin) {
            rest(run, s + done, begin - done, first && done == 0);
        }
        tok_emit(run, added->id);
        done = end;
    }
    if (done < n && run->status == SDK_TOK_OK) {
        rest(run, s + done, n - done, first && done == 0);
    }
}

/* A text without the added tokens that are found before anything is changed. */
static void encode_raw(tok_run_t *run, uint8_t *s, size_t n, bool first)
{
    size_t before = run->arena.used;
    tok_text_t text;
    if (copy(run, s, n, &text) && tok_change(run, &text, SDK_TOK_NORMALISERS, first) && text.n != 0) {
        encode_around(run, SDK_TOK_ADDED_NORMAL, text.text, text.n, first, encode_normal);
    }
    run->arena.used = before;
}

/* The text with U+FFFD for what is no UTF-8, in the working memory. */
static bool repaired(tok_run_t *run, const uint8_t *s, size_t n, tok_text_t *text)
{
    uint8_t held[4];
    uint8_t n_held = 0;
    uint8_t out[8];
    tok_arena_t *arena = &run->arena;
    text->text = tok_take(run, 0);
    text->n = 0;
    for (size_t i = 0; i <= n && text->text != NULL; ++i) {
        size_t made = 0;
        if (i < n) {
            made = tok_repair(held, &n_held, s[i], out);
        } else if (n_held != 0) {
            made = tok_put_utf8(0xFFFDu, out);
        }
        if (made > arena->size - arena->used) {
            run->status = SDK_TOK_MEMORY;
            return false;
        }
        memcpy(text->text + text->n, out, made);
        text->n += made;
        arena->used += made;
    }
    return text->text != NULL;
}

static void emit_all(tok_run_t *run, int part)
{
    for (uint32_t i = 0; i < tok_word_count(run->tok, part); ++i) {
        tok_emit(run, tok_words(run->tok, part)[i]);
    }
}

sdk_tok_status_t sdk_tok_encode(const sdk_tok_t *tok, const char *text, size_t n, uint32_t flags, uint32_t *ids,
                                size_t cap, size_t *count, void *work, size_t work_bytes)
{
    size_t skip = (8u - ((uintptr_t)work & 7u)) & 7u;
    tok_run_t run = {tok, {work, 0, work_bytes}, ids, cap, 0, 0, 0, flags, SDK_TOK_OK};
    tok_text_t whole;
    *count = 0;
    if (n >= TOK_TEXT_MAX || work_bytes >= (size_t)1 << (8u * sizeof(size_t) - 2u)) {
        return n >= TOK_TEXT_MAX ? SDK_TOK_LONG : SDK_TOK_MEMORY;
    }
    if (skip != 0) {
        run.arena.base = (uint8_t *)work + (work_bytes > skip ? skip : 0);
        run.arena.size = work_bytes > skip ? work_bytes - skip : 0;
    }
    if (flags & SDK_TOK_SPECIAL) {
        emit_all(&run, SDK_TOK_PREFIX);
    }
    if (repaired(&run, (const uint8_t *)text, n, &whole) && whole.n != 0) {
        encode_around(&run, SDK_TOK_ADDED, whole.text, whole.n, true, encode_raw);
    }
    if (flags & SDK_TOK_SPECIAL) {
        emit_all(&run, SDK_TOK_SUFFIX);
    }
    *count = run.status == SDK_TOK_OK ? run.count : 0;
    return run.status == SDK_TOK_OK && run.count > cap ? SDK_TOK_SPACE : run.status;
}

size_t sdk_tok_work(const sdk_tok_t *tok, size_t n)
{
    size_t letter = tok->kind == TOK_BPE ? 36u : 16u; /* of the longest word, which may be the whole text */
    size_t grows = tok->flags & TOK_BYTE_LEVEL ? 1u : 2u;
    return n >= TOK_TEXT_MAX ? 0 : 4096u + n * (8u + letter * grows);
}
