/* What the parts of the tokenizer share. */
#ifndef TOK_PARTS_H
#define TOK_PARTS_H

#include <string.h>

#include "sdk_tok.h"

#define TOK_MAGIC 0x4B4F5453u /* "STOK" */
#define TOK_VERSION 1u
#define TOK_NONE 0xFFFFFFFFu
#define TOK_TEXT_MAX ((size_t)1 << 30)
#define TOK_DEPTH 128u /* places of a pattern's program to come back to */

enum { TOK_BPE = 0, TOK_UNIGRAM = 1 };
/* flags of a table */
#define TOK_BYTE_LEVEL 1u
#define TOK_BYTE_FALLBACK 2u
#define TOK_FUSE_UNKNOWN 4u
#define TOK_WHOLE_WORDS 8u
/* flags of a token */
#define TOK_IS_SPECIAL 1u
#define TOK_IS_BYTE 2u
#define TOK_IS_HOLE 4u
/* flags of an added token */
#define TOK_ADDED_SPECIAL 1u
#define TOK_ADDED_LEFT 2u
#define TOK_ADDED_RIGHT 4u

/* Changes of a text. */
enum { TOK_NFC = 0, TOK_PREPEND = 1, TOK_REPLACE = 2, TOK_PREPEND_MISSING = 3, TOK_PREPEND_FIRST = 4 };
typedef struct {
    uint32_t kind, from, from_bytes, to, to_bytes; /* places in SDK_TOK_STRINGS */
} tok_change_t;

/* What decoding does: puts a text for another, takes `to` spaces from the begin, or all that it would put into the first
 * token. */
enum { TOK_SHOW = 0, TOK_STRIP = 1, TOK_STRIP_TOKEN = 2 };

/* How a text is split by what a pattern matches. */
enum { TOK_ISOLATED = 0, TOK_REMOVED = 1, TOK_WITH_PREVIOUS = 2, TOK_WITH_NEXT = 3, TOK_CONTIGUOUS = 4 };
typedef struct {
    uint32_t program, behaviour, invert;
} tok_split_t;

/* A program: opcode in the low 8 bits, a set of characters or a target in the rest. No way leads back, so that it ends.
 * TOK_LOOP, and TOK_TAKE that never gives back, are followed by the least and the most repetitions (0: any number), each
 * below 256 with TOK_OPERAND above. */
#define TOK_OPERAND 0xFFFFFFu
enum { TOK_MATCH = 0, TOK_SET = 1, TOK_LOOP = 2, TOK_TAKE = 3, TOK_TRY = 4, TOK_JUMP = 5, TOK_IF = 6, TOK_UNLESS = 7 };

typedef struct {
    uint32_t at, bytes, id, flags; /* text in SDK_TOK_STRINGS; sorted by text */
} tok_added_t;
typedef struct {
    uint32_t right, rank, made;
} tok_merge_t;
typedef struct {
    uint32_t code, at, n;
} tok_decomposed_t;
typedef struct {
    uint32_t first, second, code;
} tok_composed_t;

/* Working memory: used up to `used`. */
typedef struct {
    uint8_t *base;
    size_t used, size;
} tok_arena_t;

/* An encoding under way. */
typedef struct {
    const sdk_tok_t *tok;
    tok_arena_t arena;
    uint32_t *ids;
    size_t cap, count;
    uint64_t steps, steps_max;
    uint32_t flags;
    sdk_tok_status_t status;
} tok_run_t;

typedef struct {
    uint8_t *text;
    size_t n;
} tok_text_t;

static inline const uint32_t *tok_words(const sdk_tok_t *tok, int part)
{
    return (const uint32_t *)(const void *)tok->part[part].data;
}

static inline uint32_t tok_word_count(const sdk_tok_t *tok, int part)
{
    return tok->part[part].bytes / 4u;
}

static inline const tok_change_t *tok_changes(const sdk_tok_t *tok, int part, uint32_t *n)
{
    *n = tok->part[part].bytes / (uint32_t)sizeof(tok_change_t);
    return (const tok_change_t *)(const void *)tok->part[part].data;
}

/* The character of UTF-8 at p, which is whole; moves p behind it. */
static inline uint32_t tok_utf8(const uint8_t **p)
{
    const uint8_t *s = *p;
    if (s[0] < 0x80u) {
        *p = s + 1;
        return s[0];
    }
    if (s[0] < 0xE0u) {
        *p = s + 2;
        return ((uint32_t)(s[0] & 0x1Fu) << 6) | (s[1] & 0x3Fu);
    }
    if (s[0] < 0xF0u) {
        *p = s + 3;
        return ((uint32_t)(s[0] & 0x0Fu) << 12) | ((uint32_t)(s[1] & 0x3Fu) << 6) | (s[2] & 0x3Fu);
    }
    *p = s + 4;
    return ((uint32_t)(s[0] & 0x07u) << 18) | ((uint32_t)(s[1] & 0x3Fu) << 12) | ((uint32_t)(s[2] & 0x3Fu) << 6) |
           (s[3] & 0x3Fu);
}

static inline size_t tok_utf8_length(uint8_t first)
{
    return first < 0x80u ? 1 : first < 0xE0u ? 2 : first < 0xF0u ? 3 : 4;
}

/* The sets that have a character, one bit each. */
static inline uint32_t tok_sets_of(const sdk_tok_t *tok, uint32_t code)
{
    const uint16_t *pages = (const uint16_t *)(const void *)tok->part[SDK_TOK_PAGES].data;
    const uint8_t *classes = tok->part[SDK_TOK_CLASSES].data;
    return tok_words(tok, SDK_TOK_SETS)[classes[((size_t)pages[code >> 7] << 7) | (code & 127u)]];
}

size_t tok_put_utf8(uint32_t code, uint8_t *out);

/* Bytes that may be broken UTF-8: gives the whole characters that one more byte ends, broken ones as U+FFFD; at most 6
 * bytes of out. */
size_t tok_repair(uint8_t held[4], uint8_t *n_held, uint8_t byte, uint8_t *out);

void *tok_take(tok_run_t *run, size_t bytes);                     /* memory aligned to 8; NULL with the status set */
void tok_emit(tok_run_t *run, uint32_t id);                       /* one more token */
uint32_t tok_find(const sdk_tok_t *tok, const uint8_t *s, size_t n); /* the token of a text, or TOK_NONE */

/* A search in sorted texts, letter by letter: those from low up to high go on as the letters so far. */
typedef struct {
    uint32_t low, high;
} tok_range_t;

bool tok_lexicon_step(const sdk_tok_t *tok, tok_range_t *range, size_t depth, uint8_t byte);
uint32_t tok_lexicon_end(const sdk_tok_t *tok, const tok_range_t *range, size_t depth);
const tok_added_t *tok_added_at(const sdk_tok_t *tok, int part, const uint8_t *s, size_t n);

bool tok_change(tok_run_t *run, tok_text_t *text, int part, bool first);
bool tok_nfc(tok_run_t *run, tok_text_t *text);
/* Sets bit 0 of marks where pieces begin, bit 1 where a piece is taken away. */
bool tok_split(tok_run_t *run, const uint8_t *text, size_t n, uint8_t *marks);
void tok_bpe(tok_run_t *run, const uint8_t *word, size_t n);
void tok_unigram(tok_run_t *run, const uint8_t *word, size_t n);

#endif /* TOK_PARTS_H */
