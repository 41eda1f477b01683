/* Byte pair encoding of a word: the two neighbours with the lowest rank become one, until no two may. Neighbours wait in a
 * heap, so that a word of n letters takes n log n steps. */
#include "tok_parts.h"

typedef struct {
    uint32_t id, before, next; /* id TOK_NONE: taken up by its neighbour */
} symbol_t;
typedef struct {
    uint32_t rank, at, made;
} pair_t;
typedef struct {
    tok_run_t *run;
    symbol_t *symbol;
    uint32_t symbols;
    pair_t *heap;
    uint32_t pairs;
} bpe_t;

static const tok_merge_t *merge_of(const sdk_tok_t *tok, uint32_t left, uint32_t right)
{
    const tok_merge_t *merge = (const tok_merge_t *)(const void *)tok->part[SDK_TOK_MERGES].data;
    uint32_t low = tok_words(tok, SDK_TOK_MERGES_AT)[left];
    uint32_t end = tok_words(tok, SDK_TOK_MERGES_AT)[left + 1u];
    uint32_t high = end;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2u;
        if (merge[middle].right < right) {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    return low < end && merge[low].right == right ? &merge[low] : NULL;
}

static bool less(const pair_t *a, const pair_t *b)
{
    return a->rank < b->rank || (a->rank == b->rank && a->at < b->at);
}

static void push(bpe_t *b, pair_t pair)
{
    uint32_t k = b->pairs++;
    while (k != 0 && less(&pair, &b->heap[(k - 1u) / 2u])) {
        b->heap[k] = b->heap[(k - 1u) / 2u];
        k = (k - 1u) / 2u;
    }
    b->heap[k] = pair;
}

static pair_t pop(bpe_t *b)
{
    pair_t top = b->heap[0];
    pair_t last = b->heap[--b->pairs];
    uint32_t k = 0;
    for (uint32_t child = 1; child < b->pairs; child = 2u * k + 1u) {
        child += child + 1u < b->pairs && less(&b->heap[child + 1u], &b->heap[child]);
        if (!less(&b->heap[child], &last)) {
            break;
        }
        b->heap[k] = b->heap[child];
        k = child;
    }
    b->heap[k] = last;
    return top;
}

/* A symbol and the one after it wait to become one, if they may. */
static void offer(bpe_t *b, uint32_t at)
{
    uint32_t next = b->symbol[at].next;
    if (next != TOK_NONE) {
        const tok_merge_t *merge = merge_of(b->run->tok, b->symbol[at].id, b->symbol[next].id);
        if (merge != NULL) {
            push(b, (pair_t){merge->rank, at, merge->made});
        }
    }
}

static void merge_all(bpe_t *b)
{
    for (uint32_t i = 0; i + 1u < b->symbols; ++i) {
        offer(b, i);
    }
    while (b->pairs != 0) {
        pair_t pair = pop(b);
        symbol_t *left = &b->symbol[pair.at];
        if (left->id == TOK_NONE || left->next == TOK_NONE) {
            continue;
        }
        symbol_t *right = &b->symbol[left->next];
        const tok_merge_t *merge = merge_of(b->run->tok, left->id, right->id);
        if (merge == NULL || merge->made != pair.made) {
            continue; /* one of them has become another since */
        }
        left->id = pair.made;
        left->next = right->next;
        right->id = TOK_NONE;
        if (left->next != TOK_NONE) {
            b->symbol[left->next].before = pair.at;
        }
        if (left->before != TOK_NONE) {
            offer(b, left->before);
        }
        offer(b, pair.at);
    }
}

static void add(bpe_t *b, uint32_t id)
{
    uint32_t k = b->symbols++;
    b->symbol[k] = (symbol_t){id, k == 0 ? TOK_NONE : k - 1u, TOK_NONE};
    if (k != 0) {
        b->symbol[k - 1u].next = k;
    }
}

/* A character that the vocabulary lacks: its bytes, if there are tokens for them. */
static bool add_bytes(bpe_t *b, const uint8_t *s, size_t n)
{
    const uint32_t *bytes = tok_words(b->run->tok, SDK_TOK_BYTES);
    for (size_t i = 0; i < n; ++i) {
        if (bytes[s[i]] == TOK_NONE) {
            return false;
        }
    }
    for (size_t i = 0; i < n; ++i) {
        add(b, bytes[s[i]]);
    }
    return true;
}

static void add_characters(bpe_t *b, const uint8_t *word, size_t n)
{
    const sdk_tok_t *tok = b->run->tok;
    uint32_t waiting = 0; /* unknown characters that are not added yet */
    for (size_t i = 0; i < n;) {
        size_t length = tok_utf8_length(word[i]);
        uint32_t id = tok_find(tok, word + i, length);
        if (id != TOK_NONE) {
            if (waiting != 0) {
                add(b, tok->unknown);
            }
            waiting = 0;
            add(b, id);
        } else if (!(tok->flags & TOK_BYTE_FALLBACK) || !add_bytes(b, word + i, length)) {
            if (tok->unknown != TOK_NONE) {
                if (waiting != 0 && !(tok->flags & TOK_FUSE_UNKNOWN)) {
                    add(b, tok->unknown);
                }
                waiting = 1;
            }
        }
        i += length;
    }
    if (waiting != 0) {
        add(b, tok->unknown);
    }
}

/* Each byte is a letter of its own; those that the vocabulary lacks are left out. */
static void add_letters(bpe_t *b, const uint8_t *word, size_t n)
{
    const uint32_t *bytes = tok_words(b->run->tok, SDK_TOK_BYTES);
    bool waiting = false;
    uint32_t unknown = b->run->tok->unknown;
    for (size_t i = 0; i < n; ++i) {
        if (bytes[word[i]] == TOK_NONE) {
            if (waiting && !(b->run->tok->flags & TOK_FUSE_UNKNOWN)) {
                add(b, unknown);
            }
            waiting = unknown != TOK_NONE;
            continue;
        }
        if (waiting) {
            add(b, unknown);
        }
        waiting = false;
        add(b, bytes[word[i]]);
    }
    if (waiting) {
        add(b, unknown);
    }
}

void tok_bpe(tok_run_t *run, const uint8_t *word, size_t n)
{
    if (run->tok->flags & TOK_WHOLE_WORDS) {
        uint32_t whole = tok_find(run->tok, word, n);
        if (whole != TOK_NONE) {
            tok_emit(run, whole);
            return;
        }
    }
    size_t before = run->arena.used;
    bpe_t b = {run, NULL, 0, NULL, 0};
    b.symbol = tok_take(run, n * sizeof *b.symbol);
    b.heap = tok_take(run, 2u * n * sizeof *b.heap); /* each merge takes one pair and brings two, and takes a symbol */
    if (b.heap != NULL) {
        if (run->tok->flags & TOK_BYTE_LEVEL) {
            add_letters(&b, word, n);
        } else {
            add_characters(&b, word, n);
        }
        merge_all(&b);
        for (uint32_t i = 0; b.symbols != 0 && i != TOK_NONE; i = b.symbol[i].next) {
            tok_emit(run, b.symbol[i].id);
        }
    }
    run->arena.used = before;
}
