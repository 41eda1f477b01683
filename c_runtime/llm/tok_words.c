/* Words by their letters: the vocabulary and the added tokens, both sorted by their bytes. */
#include "tok_parts.h"

typedef struct {
    const uint8_t *s;
    size_t n;
} word_t;

static word_t token_at(const sdk_tok_t *tok, uint32_t place)
{
    uint32_t id = tok_words(tok, SDK_TOK_LEXICON)[place];
    const uint32_t *at = tok_words(tok, SDK_TOK_TEXT_AT);
    return (word_t){tok->part[SDK_TOK_TEXT].data + at[id], at[id + 1u] - at[id]};
}

static word_t added_at(const sdk_tok_t *tok, int part, uint32_t place)
{
    const tok_added_t *added = (const tok_added_t *)(const void *)tok->part[part].data + place;
    return (word_t){tok->part[SDK_TOK_STRINGS].data + added->at, added->bytes};
}

static word_t word_at(const sdk_tok_t *tok, int part, uint32_t place)
{
    return part == SDK_TOK_LEXICON ? token_at(tok, place) : added_at(tok, part, place);
}

/* The first place from low up to high whose letter is at least `letter`; a word that has ended comes first. */
static uint32_t first_from(const sdk_tok_t *tok, int part, tok_range_t range, size_t depth, uint32_t letter)
{
    while (range.low < range.high) {
        uint32_t middle = range.low + (range.high - range.low) / 2u;
        word_t word = word_at(tok, part, middle);
        if (word.n <= depth || word.s[depth] < letter) {
            range.low = middle + 1u;
        } else {
            range.high = middle;
        }
    }
    return range.low;
}

static bool step(const sdk_tok_t *tok, int part, tok_range_t *range, size_t depth, uint8_t byte)
{
    range->low = first_from(tok, part, *range, depth, byte);
    range->high = first_from(tok, part, *range, depth, byte + 1u);
    return range->low < range->high;
}

bool tok_lexicon_step(const sdk_tok_t *tok, tok_range_t *range, size_t depth, uint8_t byte)
{
    return step(tok, SDK_TOK_LEXICON, range, depth, byte);
}

uint32_t tok_lexicon_end(const sdk_tok_t *tok, const tok_range_t *range, size_t depth)
{
    return token_at(tok, range->low).n == depth ? tok_words(tok, SDK_TOK_LEXICON)[range->low] : TOK_NONE;
}

uint32_t tok_find(const sdk_tok_t *tok, const uint8_t *s, size_t n)
{
    tok_range_t range = {0, tok_word_count(tok, SDK_TOK_LEXICON)};
    for (size_t i = 0; i < n; ++i) {
        if (!tok_lexicon_step(tok, &range, i, s[i])) {
            return TOK_NONE;
        }
    }
    return n == 0 ? TOK_NONE : tok_lexicon_end(tok, &range, n);
}

const tok_added_t *tok_added_at(const sdk_tok_t *tok, int part, const uint8_t *s, size_t n)
{
    const tok_added_t *added = (const tok_added_t *)(const void *)tok->part[part].data;
    const tok_added_t *longest = NULL;
    tok_range_t range = {0, tok->part[part].bytes / (uint32_t)sizeof *added};
    for (size_t i = 0; i < n && range.low < range.high && step(tok, part, &range, i, s[i]); ++i) {
        longest = added[range.low].bytes == i + 1u ? &added[range.low] : longest;
    }
    return longest;
}
