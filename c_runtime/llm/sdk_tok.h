/* A tokenizer: byte-level BPE, SentencePiece BPE or unigram, from a table that sdk.llm.text makes of a tokenizer.json or
 * of the fields of a GGUF file. Nothing is allocated, nothing recurses, and time grows with the text alone. */
#ifndef SDK_TOK_H
#define SDK_TOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    SDK_TOK_OK = 0,
    SDK_TOK_TABLE = 1,  /* no table, a damaged one, one of another version, or not aligned to 8 bytes */
    SDK_TOK_MEMORY = 2, /* more working memory is needed */
    SDK_TOK_SPACE = 3,  /* more room for results is needed */
    SDK_TOK_STEPS = 4,  /* the patterns of this table take too long on this text */
    SDK_TOK_ID = 5,     /* a number above those of all tokens */
    SDK_TOK_LONG = 6,   /* the text has 2^30 bytes or more */
    SDK_TOK_UNKNOWN = 7 /* the vocabulary has no token for a character, and none for what it does not know */
} sdk_tok_status_t;

/* The parts of a table, in their order. */
enum {
    SDK_TOK_TEXT_AT, SDK_TOK_TEXT, SDK_TOK_FLAGS, SDK_TOK_LEXICON, SDK_TOK_BYTES, SDK_TOK_MERGES_AT, SDK_TOK_MERGES,
    SDK_TOK_SCORES, SDK_TOK_ADDED, SDK_TOK_ADDED_NORMAL, SDK_TOK_STRINGS, SDK_TOK_NORMALISERS, SDK_TOK_CHANGES,
    SDK_TOK_SPLITS, SDK_TOK_PROGRAM, SDK_TOK_PAGES, SDK_TOK_CLASSES, SDK_TOK_SETS, SDK_TOK_DECOMPOSED,
    SDK_TOK_DECOMPOSITIONS, SDK_TOK_ORDERS, SDK_TOK_COMPOSED, SDK_TOK_PREFIX, SDK_TOK_SUFFIX, SDK_TOK_DECODERS,
    SDK_TOK_PARTS
};

typedef struct {
    const uint8_t *data;
    uint32_t bytes;
} sdk_tok_part_t;

/* A table that is read in place: keep it as long as this. */
typedef struct {
    uint32_t kind, flags, tokens, unknown, longest;
    sdk_tok_part_t part[SDK_TOK_PARTS];
} sdk_tok_t;

/* Reads a table of n bytes, aligned to 8, and checks all of it. */
sdk_tok_status_t sdk_tok_load(sdk_tok_t *tok, const void *table, size_t n);

#define SDK_TOK_SPECIAL 1u /* put what the model expects around a text (as: begin of text) around this one */
#define SDK_TOK_PLAIN 2u   /* names of special tokens in the text are text: for what a user wrote */

/* The tokens of a text of n bytes. Bytes that are no UTF-8 count as U+FFFD. `work` is memory for the time of the call;
 * with SDK_TOK_MEMORY call again with more: sdk_tok_work(n) bytes are enough for common texts. `count` gets the number of
 * tokens, all of them also with SDK_TOK_SPACE. */
sdk_tok_status_t sdk_tok_encode(const sdk_tok_t *tok, const char *text, size_t n, uint32_t flags, uint32_t *ids,
                                size_t cap, size_t *count, void *work, size_t work_bytes);

/* Bytes of working memory that are enough for most texts of n bytes. */
size_t sdk_tok_work(const sdk_tok_t *tok, size_t n);

/* Whether a text has the name of a special token (tok_names.c). */
bool sdk_tok_names(const sdk_tok_t *tok, const char *text, size_t n);

/* What has come of a text: bytes that may yet become a character are held back. */
typedef struct {
    const sdk_tok_t *tok;
    uint32_t left;  /* characters at the begin that are still to be taken away */
    bool specials;  /* special tokens are shown */
    bool begun;
    uint8_t held[4];
    uint8_t n_held;
} sdk_tok_stream_t;

void sdk_tok_stream(sdk_tok_stream_t *stream, const sdk_tok_t *tok, bool specials);

/* The bytes that one more token adds to the text, whole characters of UTF-8: at most sdk_tok_longest(tok). */
sdk_tok_status_t sdk_tok_next(sdk_tok_stream_t *stream, uint32_t id, char *out, size_t cap, size_t *n);

/* What is held back at the end of the text, as one U+FFFD: at most 3 bytes. */
sdk_tok_status_t sdk_tok_end(sdk_tok_stream_t *stream, char *out, size_t cap, size_t *n);

size_t sdk_tok_longest(const sdk_tok_t *tok);

#ifdef __cplusplus
}
#endif

#endif /* SDK_TOK_H */
