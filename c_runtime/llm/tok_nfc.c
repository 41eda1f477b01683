/* Normal form C (Unicode Standard Annex 15), by tables of the version of Unicode that the tokenizer was made with. */
#include "tok_parts.h"

/* No character below can change or be changed. */
#define FIRST_MARK 0x300u
#define S_BASE 0xAC00u
#define L_BASE 0x1100u
#define V_BASE 0x1161u
#define T_BASE 0x11A7u
#define L_COUNT 19u
#define V_COUNT 21u
#define T_COUNT 28u
#define S_COUNT (L_COUNT * V_COUNT * T_COUNT)

static uint32_t order_of(const sdk_tok_t *tok, uint32_t code)
{
    const uint32_t *orders = tok_words(tok, SDK_TOK_ORDERS);
    uint32_t low = 0;
    uint32_t high = tok_word_count(tok, SDK_TOK_ORDERS);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2u;
        if (orders[middle] >> 8 < code) {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    return low < tok_word_count(tok, SDK_TOK_ORDERS) && orders[low] >> 8 == code ? orders[low] & 255u : 0;
}

static const tok_decomposed_t *decomposed(const sdk_tok_t *tok, uint32_t code)
{
    const tok_decomposed_t *all = (const tok_decomposed_t *)(const void *)tok->part[SDK_TOK_DECOMPOSED].data;
    uint32_t n = tok->part[SDK_TOK_DECOMPOSED].bytes / (uint32_t)sizeof *all;
    uint32_t low = 0;
    uint32_t high = n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2u;
        if (all[middle].code < code) {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    return low < n && all[low].code == code ? &all[low] : NULL;
}

static uint32_t composed(const sdk_tok_t *tok, uint32_t first, uint32_t second)
{
    const tok_composed_t *all = (const tok_composed_t *)(const void *)tok->part[SDK_TOK_COMPOSED].data;
    uint32_t n = tok->part[SDK_TOK_COMPOSED].bytes / (uint32_t)sizeof *all;
    uint32_t low = 0;
    uint32_t high = n;
    if (first - L_BASE < L_COUNT && second - V_BASE < V_COUNT) {
        return S_BASE + ((first - L_BASE) * V_COUNT + (second - V_BASE)) * T_COUNT;
    }
    if (first - S_BASE < S_COUNT && (first - S_BASE) % T_COUNT == 0 && second - T_BASE - 1u < T_COUNT - 1u) {
        return first + (second - T_BASE);
    }
    while (low < high) {
        uint32_t middle = low + (high - low) / 2u;
        if (all[middle].first < first || (all[middle].first == first && all[middle].second < second)) {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    return low < n && all[low].first == first && all[low].second == second ? all[low].code : TOK_NONE;
}

/* Writes the decomposition of one character; at most 8 characters. */
static size_t decompose(const sdk_tok_t *tok, uint32_t code, uint32_t *out)
{
    if (code < 0xC0u) {
        out[0] = code;
        return 1;
    }
    if (code - S_BASE < S_COUNT) {
        uint32_t s = code - S_BASE;
        out[0] = L_BASE + s / (V_COUNT * T_COUNT);
        out[1] = V_BASE + s % (V_COUNT * T_COUNT) / T_COUNT;
        out[2] = T_BASE + s % T_COUNT;
        return s % T_COUNT == 0 ? 2 : 3;
    }
    const tok_decomposed_t *found = decomposed(tok, code);
    if (found == NULL) {
        out[0] = code;
        return 1;
    }
    memcpy(out, tok_words(tok, SDK_TOK_DECOMPOSITIONS) + found->at, found->n * sizeof *out);
    return found->n;
}

/* Sorts marks by their order, those of one order as they stood: by counting, so that a long run takes no longer. */
static void sort_marks(uint32_t *mark, const uint8_t *order, uint32_t *copy, size_t n)
{
    size_t place[256] = {0};
    size_t sum = 0;
    for (size_t i = 0; i < n; ++i) {
        ++place[order[i]];
    }
    for (uint32_t k = 0; k < 256u; ++k) {
        size_t of_this = place[k];
        place[k] = sum;
        sum += of_this;
    }
    for (size_t i = 0; i < n; ++i) {
        copy[place[order[i]]++] = mark[i];
    }
    memcpy(mark, copy, n * sizeof *mark);
}

static void sort_all(const sdk_tok_t *tok, uint32_t *code, uint8_t *order, uint32_t *copy, size_t n)
{
    for (size_t i = 0; i < n; ++i) {
        order[i] = (uint8_t)order_of(tok, code[i]);
    }
    for (size_t i = 0; i < n;) {
        size_t end = i;
        bool sorted = true;
        while (end < n && order[end] != 0) {
            sorted = sorted && (end == i || order[end - 1u] <= order[end]);
            ++end;
        }
        if (!sorted) {
            sort_marks(code + i, order + i, copy, end - i);
        }
        i = end > i ? end : i + 1u;
    }
}

static size_t compose(const sdk_tok_t *tok, uint32_t *code, size_t n)
{
    size_t out = 0;
    size_t starter = n;
    uint32_t last = 0; /* the order of the last mark that stays behind the starter */
    for (size_t i = 0; i < n; ++i) {
        uint32_t order = order_of(tok, code[i]);
        bool next_to = starter < n && out == starter + 1u;
        if (starter < n && (next_to || (last < order && last != 0))) {
            uint32_t made = composed(tok, code[starter], code[i]);
            if (made != TOK_NONE) {
                code[starter] = made;
                continue;
            }
        }
        if (order == 0) {
            starter = out;
        }
        last = order;
        code[out++] = code[i];
    }
    return out;
}

static bool is_plain(const tok_text_t *text)
{
    for (size_t i = 0; i < text->n; ++i) {
        if (text->text[i] >= 0xCCu) { /* U+0300 and above */
            return false;
        }
    }
    return true;
}

bool tok_nfc(tok_run_t *run, tok_text_t *text)
{
    if (is_plain(text)) {
        return true;
    }
    size_t max = 0;
    size_t n = 0;
    uint32_t part[8];
    for (const uint8_t *p = text->text; p < text->text + text->n;) {
        max += decompose(run->tok, tok_utf8(&p), part);
    }
    uint32_t *code = tok_take(run, max * sizeof *code);
    uint32_t *copy = tok_take(run, max * sizeof *copy);
    uint8_t *order = tok_take(run, max);
    if (order == NULL) {
        return false;
    }
    for (const uint8_t *p = text->text; p < text->text + text->n;) {
        n += decompose(run->tok, tok_utf8(&p), code + n);
    }
    sort_all(run->tok, code, order, copy, n);
    n = compose(run->tok, code, n);
    uint8_t *out = tok_take(run, 4u * n);
    if (out == NULL) {
        return false;
    }
    size_t bytes = 0;
    for (size_t i = 0; i < n; ++i) {
        bytes += tok_put_utf8(code[i], out + bytes);
    }
    memmove(text->text, out, bytes);
    text->n = bytes;
    run->arena.used = (size_t)(text->text - run->arena.base) + bytes;
    return true;
}
