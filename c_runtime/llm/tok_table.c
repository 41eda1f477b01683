/* The table of a tokenizer: what is read is checked once, so that nothing is later. */
#include "tok_parts.h"

#define HEAD_WORDS 8u
#define CODES 0x110000u

typedef struct {
    uint32_t magic, version, bytes, kind, flags, tokens, unknown, longest;
} head_t;

/* Bytes of one entry by part, or 0: any length. */
static const uint8_t entry_bytes[SDK_TOK_PARTS] = {
    4, 0, 1, 4, 4, 4, sizeof(tok_merge_t), 8, sizeof(tok_added_t), sizeof(tok_added_t), 0, sizeof(tok_change_t),
    sizeof(tok_change_t), sizeof(tok_split_t), 4, 2, 0, 4, sizeof(tok_decomposed_t), 4, 4, sizeof(tok_composed_t), 4, 4,
    sizeof(tok_change_t),
};

static bool read_parts(sdk_tok_t *tok, const uint8_t *table, size_t n)
{
    const uint32_t *place = (const uint32_t *)(const void *)table + HEAD_WORDS;
    for (int k = 0; k < SDK_TOK_PARTS; ++k) {
        uint32_t at = place[2 * k];
        uint32_t bytes = place[2 * k + 1];
        if (at % 8u != 0 || at > n || bytes > n - at || (entry_bytes[k] > 1 && bytes % entry_bytes[k] != 0)) {
            return false;
        }
        tok->part[k].data = table + at;
        tok->part[k].bytes = bytes;
    }
    return true;
}

/* Whether n + 1 places rise from 0 to the end. */
static bool rises(const sdk_tok_t *tok, int part, uint32_t n, uint32_t end)
{
    const uint32_t *at = tok_words(tok, part);
    if (tok_word_count(tok, part) != n + 1u || at[0] != 0 || at[n] != end) {
        return false;
    }
    for (uint32_t i = 0; i < n; ++i) {
        if (at[i] > at[i + 1u]) {
            return false;
        }
    }
    return true;
}

static bool are_ids(const sdk_tok_t *tok, int part, bool none)
{
    const uint32_t *ids = tok_words(tok, part);
    for (uint32_t i = 0; i < tok_word_count(tok, part); ++i) {
        if (ids[i] >= tok->tokens && !(none && ids[i] == TOK_NONE)) {
            return false;
        }
    }
    return true;
}

static bool vocabulary_is_right(const sdk_tok_t *tok)
{
    const uint32_t merges = tok->part[SDK_TOK_MERGES].bytes / (uint32_t)sizeof(tok_merge_t);
    const tok_merge_t *merge = (const tok_merge_t *)(const void *)tok->part[SDK_TOK_MERGES].data;
    bool bpe = tok->kind == TOK_BPE;
    if (!rises(tok, SDK_TOK_TEXT_AT, tok->tokens, tok->part[SDK_TOK_TEXT].bytes) ||
        tok->part[SDK_TOK_FLAGS].bytes != tok->tokens || !are_ids(tok, SDK_TOK_LEXICON, false) ||
        tok_word_count(tok, SDK_TOK_BYTES) != 256u || !are_ids(tok, SDK_TOK_BYTES, true) ||
        !are_ids(tok, SDK_TOK_PREFIX, false) || !are_ids(tok, SDK_TOK_SUFFIX, false)) {
        return false;
    }
    if (!bpe) {
        return tok->part[SDK_TOK_SCORES].bytes / 8u == tok->tokens + 1u; /* the last: an unknown character's */
    }
    if (!rises(tok, SDK_TOK_MERGES_AT, tok->tokens, merges)) {
        return false;
    }
    for (uint32_t i = 0; i < merges; ++i) {
        if (merge[i].right >= tok->tokens || merge[i].made >= tok->tokens) {
            return false;
        }
    }
    return true;
}

static bool is_text(const sdk_tok_t *tok, uint32_t at, uint32_t n)
{
    uint32_t all = tok->part[SDK_TOK_STRINGS].bytes;
    return at <= all && n <= all - at;
}

static bool added_are_right(const sdk_tok_t *tok, int part)
{
    const tok_added_t *added = (const tok_added_t *)(const void *)tok->part[part].data;
    for (uint32_t i = 0; i < tok->part[part].bytes / (uint32_t)sizeof *added; ++i) {
        if (!is_text(tok, added[i].at, added[i].bytes) || added[i].bytes == 0 || added[i].id >= tok->tokens) {
            return false;
        }
    }
    return true;
}

static bool changes_are_right(const sdk_tok_t *tok, int part, uint32_t kinds)
{
    uint32_t n;
    const tok_change_t *change = tok_changes(tok, part, &n);
    for (uint32_t i = 0; i < n; ++i) {
        if (part == SDK_TOK_DECODERS && change[i].kind == TOK_STRIP) {
            continue;
        }
        bool replaces = part == SDK_TOK_DECODERS ? change[i].kind == TOK_SHOW : change[i].kind == TOK_REPLACE;
        if (change[i].kind > kinds || !is_text(tok, change[i].from, change[i].from_bytes) ||
            !is_text(tok, change[i].to, change[i].to_bytes) || (replaces && change[i].from_bytes == 0)) {
            return false;
        }
    }
    return true;
}

/* Each instruction is whole, goes forward, and the last one ends the program. */
static bool program_is_right(const sdk_tok_t *tok)
{
    const uint32_t *code = tok_words(tok, SDK_TOK_PROGRAM);
    uint32_t n = tok_word_count(tok, SDK_TOK_PROGRAM);
    if (n == 0) {
        return tok->part[SDK_TOK_SPLITS].bytes == 0;
    }
    if (code[n - 1u] != TOK_MATCH || n > 1u << 20) {
        return false;
    }
    for (uint32_t pc = 0; pc < n; ++pc) {
        uint32_t op = code[pc] & 255u;
        uint32_t arg = code[pc] >> 8;
        if (op == TOK_TRY || op == TOK_JUMP) {
            if (arg <= pc || arg >= n) {
                return false;
            }
        } else if (op > TOK_UNLESS || arg >= 32u) {
            return false;
        }
        if (op == TOK_LOOP || op == TOK_TAKE) {
            if (n - pc < 4u) {
                return false;
            }
            pc += 2u;
        }
    }
    return true;
}

/* A jump into the operands of a loop would run them as instructions: each place of a jump is one of an instruction. */
static bool targets_are_right(const sdk_tok_t *tok)
{
    const uint32_t *code = tok_words(tok, SDK_TOK_PROGRAM);
    uint32_t n = tok_word_count(tok, SDK_TOK_PROGRAM);
    for (uint32_t pc = 0; pc < n; ++pc) {
        uint32_t op = code[pc] & 255u;
        if (op == TOK_LOOP || op == TOK_TAKE) {
            if (code[pc + 1u] >> 8 != TOK_OPERAND || code[pc + 2u] >> 8 != TOK_OPERAND) {
                return false; /* operands say that they are some */
            }
            pc += 2u;
        } else if (op == TOK_TRY || op == TOK_JUMP) {
            if (code[code[pc] >> 8] >> 8 == TOK_OPERAND) {
                return false;
            }
        }
    }
    return true;
}

static bool splits_are_right(const sdk_tok_t *tok)
{
    const tok_split_t *split = (const tok_split_t *)(const void *)tok->part[SDK_TOK_SPLITS].data;
    for (uint32_t i = 0; i < tok->part[SDK_TOK_SPLITS].bytes / (uint32_t)sizeof *split; ++i) {
        if (split[i].program >= tok_word_count(tok, SDK_TOK_PROGRAM) || split[i].behaviour > TOK_CONTIGUOUS ||
            split[i].invert > 1u || tok_words(tok, SDK_TOK_PROGRAM)[split[i].program] >> 8 == TOK_OPERAND) {
            return false;
        }
    }
    return true;
}

static bool characters_are_right(const sdk_tok_t *tok)
{
    const uint16_t *page = (const uint16_t *)(const void *)tok->part[SDK_TOK_PAGES].data;
    const uint8_t *class_of = tok->part[SDK_TOK_CLASSES].data;
    uint32_t pages = tok->part[SDK_TOK_CLASSES].bytes / 128u;
    const tok_decomposed_t *d = (const tok_decomposed_t *)(const void *)tok->part[SDK_TOK_DECOMPOSED].data;
    uint32_t codes = tok_word_count(tok, SDK_TOK_DECOMPOSITIONS);
    if (tok->part[SDK_TOK_PAGES].bytes != CODES / 128u * 2u || tok->part[SDK_TOK_CLASSES].bytes % 128u != 0) {
        return false;
    }
    for (uint32_t i = 0; i < CODES / 128u; ++i) {
        if (page[i] >= pages) {
            return false;
        }
    }
    for (uint32_t i = 0; i < tok->part[SDK_TOK_CLASSES].bytes; ++i) {
        if (class_of[i] >= tok_word_count(tok, SDK_TOK_SETS)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < tok->part[SDK_TOK_DECOMPOSED].bytes / (uint32_t)sizeof *d; ++i) {
        if (d[i].at > codes || d[i].n > codes - d[i].at || d[i].n > 8u) {
            return false;
        }
    }
    for (uint32_t i = 0; i < codes; ++i) {
        if (tok_words(tok, SDK_TOK_DECOMPOSITIONS)[i] >= CODES) {
            return false;
        }
    }
    const tok_composed_t *c = (const tok_composed_t *)(const void *)tok->part[SDK_TOK_COMPOSED].data;
    for (uint32_t i = 0; i < tok->part[SDK_TOK_COMPOSED].bytes / (uint32_t)sizeof *c; ++i) {
        if (c[i].code >= CODES) {
            return false;
        }
    }
    return true;
}

/* The most bytes that a token may become, three for each that may be broken, with what decoding puts in its place. */
static uint32_t longest_of(const sdk_tok_t *tok)
{
    const uint32_t *at = tok_words(tok, SDK_TOK_TEXT_AT);
    uint32_t n;
    uint32_t grows = 1;
    uint32_t longest = 0;
    const tok_change_t *change = tok_changes(tok, SDK_TOK_DECODERS, &n);
    for (uint32_t i = 0; i < n; ++i) {
        grows = change[i].kind == TOK_SHOW && change[i].to_bytes > grows ? change[i].to_bytes : grows;
    }
    for (uint32_t i = 0; i < tok->tokens; ++i) {
        longest = at[i + 1u] - at[i] > longest ? at[i + 1u] - at[i] : longest;
    }
    return longest > 0x0FFFFFFFu / grows ? TOK_NONE : 3u * longest * grows + 6u;
}

sdk_tok_status_t sdk_tok_load(sdk_tok_t *tok, const void *table, size_t n)
{
    const head_t *head = table;
    memset(tok, 0, sizeof *tok);
    if (((uintptr_t)table & 7u) != 0 || n < sizeof *head + 8u * SDK_TOK_PARTS || head->magic != TOK_MAGIC ||
        head->version != TOK_VERSION || head->bytes != n || head->kind > TOK_UNIGRAM || head->tokens == 0 ||
        head->tokens > 1u << 24 || (head->unknown != TOK_NONE && head->unknown >= head->tokens)) {
        return SDK_TOK_TABLE;
    }
    tok->kind = head->kind;
    tok->flags = head->flags;
    tok->tokens = head->tokens;
    tok->unknown = head->unknown;
    if (!read_parts(tok, table, n) || !vocabulary_is_right(tok) || !added_are_right(tok, SDK_TOK_ADDED) ||
        !added_are_right(tok, SDK_TOK_ADDED_NORMAL) || !changes_are_right(tok, SDK_TOK_NORMALISERS, TOK_PREPEND_FIRST) ||
        !changes_are_right(tok, SDK_TOK_CHANGES, TOK_PREPEND_FIRST) ||
        !changes_are_right(tok, SDK_TOK_DECODERS, TOK_STRIP_TOKEN) || !program_is_right(tok) ||
        !targets_are_right(tok) || !splits_are_right(tok) || !characters_are_right(tok)) {
        return SDK_TOK_TABLE;
    }
    tok->longest = longest_of(tok);
    return tok->longest == TOK_NONE ? SDK_TOK_TABLE : SDK_TOK_OK;
}

size_t sdk_tok_longest(const sdk_tok_t *tok)
{
    return tok->longest;
}
