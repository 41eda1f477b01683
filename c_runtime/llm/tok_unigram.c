/* The most probable sequence of tokens of a text: the best way to each of its bytes, then back from the end. */
#include "tok_parts.h"

typedef struct {
    double score;
    uint32_t from; /* TOK_NONE: no way comes here */
    uint32_t id;
} node_t;

static void reach(node_t *node, double score, uint32_t from, uint32_t id)
{
    if (node->from == TOK_NONE || score > node->score) {
        *node = (node_t){score, from, id};
    }
}

static double score_of(const sdk_tok_t *tok, uint32_t id)
{
    return ((const double *)(const void *)tok->part[SDK_TOK_SCORES].data)[id];
}

/* Notes the tokens that begin at `at`; true when one of them has `length` bytes. */
static bool tokens_from(tok_run_t *run, node_t *node, const uint8_t *s, size_t n, size_t at, size_t length)
{
    const sdk_tok_t *tok = run->tok;
    tok_range_t range = {0, tok_word_count(tok, SDK_TOK_LEXICON)};
    bool single = false;
    for (size_t k = 1; at + k <= n && tok_lexicon_step(tok, &range, k - 1u, s[at + k - 1u]); ++k) {
        uint32_t id = tok_lexicon_end(tok, &range, k);
        if (id != TOK_NONE) {
            reach(&node[at + k], node[at].score + score_of(tok, id), (uint32_t)at, id);
            single = single || k == length;
        }
    }
    return single;
}

/* Turns the way that leads back from the end into one that leads to it: `from` becomes the next place. */
static void turn(node_t *node, size_t n)
{
    uint32_t next = TOK_NONE;
    uint32_t id = TOK_NONE;
    for (uint32_t at = (uint32_t)n; at != 0;) {
        node_t found = node[at];
        node[at].from = next;
        node[at].id = id;
        next = at;
        id = found.id;
        at = found.from;
    }
    node[0].from = next;
    node[0].id = id;
}

static void emit(tok_run_t *run, const uint8_t *s, size_t n)
{
    const sdk_tok_t *tok = run->tok;
    const uint32_t *bytes = tok_words(tok, SDK_TOK_BYTES);
    uint32_t id = tok_find(tok, s, n);
    bool whole = true;
    for (size_t i = 0; i < n; ++i) {
        whole = whole && bytes[s[i]] != TOK_NONE;
    }
    if (id != TOK_NONE || !(tok->flags & TOK_BYTE_FALLBACK) || !whole) {
        tok_emit(run, id == TOK_NONE ? tok->unknown : id);
        return;
    }
    for (size_t i = 0; i < n; ++i) {
        tok_emit(run, bytes[s[i]]);
    }
}

static void emit_all(tok_run_t *run, const node_t *node, const uint8_t *s, size_t n)
{
    uint32_t at = 0;
    while (at < n) {
        uint32_t end = node[at].from;
        if (node[at].id == run->tok->unknown) { /* unknown characters in a row are one */
            while (end < n && node[end].id == run->tok->unknown) {
                end = node[end].from;
            }
            emit(run, s + at, end - at);
        } else {
            tok_emit(run, node[at].id);
        }
        at = end;
    }
}

void tok_unigram(tok_run_t *run, const uint8_t *word, size_t n)
{
    const sdk_tok_t *tok = run->tok;
    size_t before = run->arena.used;
    node_t *node = tok_take(run, (n + 1u) * sizeof *node);
    if (node == NULL) {
        return;
    }
    for (size_t i = 0; i <= n; ++i) {
        node[i] = (node_t){0, TOK_NONE, TOK_NONE};
    }
    for (size_t at = 0; at < n;) {
        size_t length = tok_utf8_length(word[at]);
        if (!tokens_from(run, node, word, n, at, length)) {
            if (tok->unknown == TOK_NONE) {
                run->status = SDK_TOK_UNKNOWN;
                return;
            }
            reach(&node[at + length], node[at].score + score_of(tok, tok->tokens), (uint32_t)at, tok->unknown);
        }
        at += length;
    }
    turn(node, n);
    emit_all(run, node, word, n);
    run->arena.used = before;
}
