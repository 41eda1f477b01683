/* What the parts of grammars share. */
#ifndef GRAMMAR_PARTS_H
#define GRAMMAR_PARTS_H

#include <string.h>

#include "sdk_grammar.h"

#define GRAMMAR_MAGIC 0x4D524753u /* "SGRM" */
#define WORDS_MAGIC 0x44575353u   /* "SSWD" */
#define GRAMMAR_VERSION 1u
#define GRAMMAR_NONE 0xFFFFFFFFu /* of a call: nothing follows it in its rule; of an edge: the text is whole */
#define WORDS_STRIP_ALL 0xFFu    /* decoding takes all spaces from the first token */

/* A record of the heap: a set of pairs of words in rising order. Sets of (state, node) are what may come next, followed by
 * the record that each class of bytes leads to; sets of (state, node) of a node are where its rule returns to. Equal sets
 * are one record, and a record refers to older ones only. */
enum { REC_BEFORE = 0, REC_NEXT = 1, REC_HASH = 2, REC_KIND = 3, REC_PAIRS = 4 };
#define KIND_STATE 1u  /* what may come next, else a node */
#define KIND_WHOLE 2u  /* the text is whole here */
#define KIND_MARKED 4u /* in use, while memory is collected */
#define KIND_COUNT_SHIFT 3u

#define TO_UNKNOWN 0u /* where a class leads to */
#define TO_NOTHING 1u
#define FULL 2u /* no record: the heap or another part of the memory is full */

static inline uint32_t rec_count(const uint32_t *rec)
{
    return rec[REC_KIND] >> KIND_COUNT_SHIFT;
}

/* The record of a set of pairs, a new one where there is none yet; or FULL. */
uint32_t grammar_record(sdk_grammar_run_t *run, uint32_t kind, const uint32_t *pairs, uint32_t n);

/* Keeps of the heap what the states of path[0] up to path[depth] need. */
void grammar_collect(sdk_grammar_run_t *run, uint32_t depth);

/* The state after a byte of a class: TO_NOTHING, a record, or FULL. */
uint32_t grammar_step(sdk_grammar_run_t *run, uint32_t state, uint32_t class);
uint32_t grammar_first(sdk_grammar_run_t *run); /* the state of an empty text */

#endif /* GRAMMAR_PARTS_H */
