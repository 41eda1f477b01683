/* Which tokens may come next, so that a text follows a grammar: tables that sdk.llm.grammar makes of a grammar or a JSON
 * schema, and of a tokenizer's vocabulary, are read in place. Nothing is allocated, nothing recurses. */
#ifndef SDK_GRAMMAR_H
#define SDK_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    SDK_GRAMMAR_OK = 0,
    SDK_GRAMMAR_TABLE = 1,  /* a damaged table, one of another version or vocabulary, or not aligned to 4 bytes */
    SDK_GRAMMAR_MEMORY = 2, /* more working memory is needed */
    SDK_GRAMMAR_STEPS = 3,  /* the grammar has too many ways to read this text */
    SDK_GRAMMAR_TOKEN = 4   /* this token may not come here */
} sdk_grammar_status_t;

/* The tokens of a vocabulary in the order of their texts, each with what it does not share with the one before. A table
 * that is read in place: keep it as long as this. */
typedef struct {
    const uint32_t *ids, *at;
    const uint16_t *shared;
    const uint8_t *suffixes;
    uint32_t count, vocabulary, strip, mark;
} sdk_words_t;

/* A grammar for one vocabulary; read in place too. */
typedef struct {
    const uint8_t *class_of, *final;
    const uint32_t *starts, *moves_at, *calls_at, *moves, *calls;
    uint32_t rules, states, classes, root, mark;
} sdk_grammar_t;

sdk_grammar_status_t sdk_words_load(sdk_words_t *words, const void *table, size_t n);
sdk_grammar_status_t sdk_grammar_load(sdk_grammar_t *grammar, const void *table, size_t n);

#define SDK_GRAMMAR_DEPTH 256u /* above the bytes of the longest token that is used */

/* How far a text has come. Members are private. */
typedef struct {
    const sdk_grammar_t *grammar;
    const sdk_words_t *words;
    uint32_t *heap, *buckets, *items, *slots, *pending, *heads, *pairs;
    uint32_t heap_words, bucket_count, item_cap, slot_count, pending_cap;
    uint32_t used, last, item_count, pending_count, found;
    uint64_t steps;
    struct {
        uint32_t state, left;
    } path[SDK_GRAMMAR_DEPTH]; /* path[0]: after the tokens that were taken */
} sdk_grammar_run_t;

/* Bytes of working memory that are enough for most texts of a grammar. */
size_t sdk_grammar_work(const sdk_grammar_t *grammar);

/* Begins a text. `work` is memory aligned to 4 that must stay as it is while the run is used; begin again for each text. */
sdk_grammar_status_t sdk_grammar_begin(sdk_grammar_run_t *run, const sdk_grammar_t *grammar, const sdk_words_t *words,
                                       void *work, size_t work_bytes);

/* Sets in `allowed` (a bit for each of `vocabulary` tokens, as sdk_sample takes it) those that may come next, and clears
 * the others. Tokens that end an answer are not among them: ask sdk_grammar_can_end. As long as it says no, there is at
 * least one token. */
sdk_grammar_status_t sdk_grammar_allowed(sdk_grammar_run_t *run, uint32_t *allowed, uint32_t vocabulary);

/* Goes on by one token. SDK_GRAMMAR_TOKEN, and nothing changes, where it may not come here. */
sdk_grammar_status_t sdk_grammar_take(sdk_grammar_run_t *run, uint32_t id);

bool sdk_grammar_can_end(const sdk_grammar_run_t *run); /* the text is whole */
bool sdk_grammar_is_done(const sdk_grammar_run_t *run); /* it is, and nothing can follow */

#ifdef __cplusplus
}
#endif

#endif /* SDK_GRAMMAR_H */
