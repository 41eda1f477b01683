/* The search of niche.py, choice for choice, so that both find the same placement for the same budget; see there. */
#include <stdint.h>
#include <string.h>

#define BIG INT64_C(1099511627776)

typedef struct {
    int64_t at, lowest;
    int32_t id, held;
} Item;

typedef struct {
    int64_t capacity, left, memo_used, memo_size;
    const int64_t *size, *first, *last, *align, *latest;
    const int64_t *taken; /* of the capacity, by section */
    const int64_t *walls, *wall_start; /* low, high by turns; where those of a block start */
    int64_t *out;
    int64_t *level, *count, *held_sum, *lowest, *second, *owner; /* by section */
    Item *items;
    uint64_t *memo;
} Search;

int32_t niche_search(Search *s, int32_t count, int32_t plain);

static uint64_t mixed(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t key_of(const Item *items, int32_t n)
{
    uint64_t key = (uint64_t)n;
    for (int32_t i = 0; i < n; ++i) {
        const uint64_t who = ((uint64_t)(uint32_t)items[i].id << 1) | (uint64_t)(uint32_t)items[i].held;
        key = mixed(key + mixed(who) + ((uint64_t)items[i].at << 20));
    }
    return key == 0 ? 1 : key;
}

/* The slot of a key: where it is, or the empty one where it would be. */
static uint64_t *slot_of(const Search *s, uint64_t key)
{
    const uint64_t mask = (uint64_t)s->memo_size - 1;
    uint64_t k = key & mask;
    while (s->memo[k] != 0 && s->memo[k] != key) {
        k = (k + 1) & mask;
    }
    return &s->memo[k];
}

static int rivals(const Search *s, int32_t a, int32_t b)
{
    return s->first[a] <= s->last[b] && s->first[b] <= s->last[a];
}

static int64_t rounded(int64_t at, int64_t align)
{
    return (at + align - 1) / align * align;
}

static int64_t fit(const Search *s, int32_t id, int64_t floor)
{
    int64_t at = rounded(floor, s->align[id]);
    for (int64_t w = s->wall_start[id]; w < s->wall_start[id + 1]; ++w) {
        if (s->walls[2 * w] < at && at < s->walls[2 * w + 1]) {
            at = rounded(s->walls[2 * w + 1], s->align[id]);
        }
    }
    return at;
}

/* Highest lower bound first; nearly sorted already. */
static void sort_down(Item *items, int32_t n)
{
    for (int32_t i = 1; i < n; ++i) {
        const Item x = items[i];
        int32_t j = i;
        for (; j > 0 && items[j - 1].lowest < x.lowest; --j) {
            items[j] = items[j - 1];
        }
        items[j] = x;
    }
}

/* Whether the blocks from any offset up fit below the top; leaves what each section has to hold, with what is taken of it. */
static int fits(Search *s, Item *items, int32_t n, int64_t low, int64_t high)
{
    int64_t *const held = s->held_sum;
    memcpy(held + low, s->taken + low, sizeof(int64_t) * (size_t)(high - low + 1));
    sort_down(items, n);
    for (int32_t i = 0; i < n; ++i) {
        const int32_t u = items[i].id;
        const int64_t size = s->size[u];
        int64_t max_held = 0;
        for (int64_t q = s->first[u]; q <= s->last[u]; ++q) {
            held[q] += size;
            max_held = held[q] > max_held ? held[q] : max_held;
        }
        if (items[i].lowest > s->latest[u] || items[i].lowest + max_held > s->capacity) {
            return 0;
        }
    }
    return 1;
}

/* A block held back lies on another that is still to come: 1 = some rose, 0 = none, -1 = one does not fit. */
static int rise_held(const Search *s, Item *items, int32_t n)
{
    int moved = 0;
    for (int32_t i = 0; i < n; ++i) {
        if (items[i].held == 0) {
            continue;
        }
        int64_t end = BIG;
        for (int32_t j = 0; j < n; ++j) {
            if (j != i && rivals(s, items[i].id, items[j].id)) {
                const int64_t other = items[j].lowest + s->size[items[j].id];
                end = other < end ? other : end;
            }
        }
        end = end > items[i].at ? end : items[i].at + 1;
        if (end > items[i].lowest) {
            items[i].lowest = end;
            moved = 1;
            if (end > s->latest[items[i].id]) {
                return -1;
            }
        }
    }
    return moved;
}

/* Whether some block cannot be the next of one of its sections. */
static int crowded(const Search *s, const Item *items, int32_t n)
{
    for (int32_t i = 0; i < n; ++i) {
        const int32_t u = items[i].id;
        int64_t max_held = 0;
        for (int64_t q = s->first[u]; q <= s->last[u]; ++q) {
            max_held = s->held_sum[q] > max_held ? s->held_sum[q] : max_held;
        }
        if (items[i].lowest + max_held > s->capacity) {
            return 1;
        }
    }
    return 0;
}

/* A block that cannot be the next of one of its sections lies on another of that section; results as above. */
static int rise_above(Search *s, Item *items, int32_t n, int64_t low, int64_t high)
{
    int moved = 0;
    if (!crowded(s, items, n)) {
        return 0;
    }
    for (int64_t q = low; q <= high; ++q) {
        s->lowest[q] = s->second[q] = BIG;
        s->owner[q] = -1;
    }
    for (int32_t i = 0; i < n; ++i) {
        const int32_t u = items[i].id;
        const int64_t end = items[i].lowest + s->size[u];
        for (int64_t q = s->first[u]; q <= s->last[u]; ++q) {
            if (end < s->lowest[q]) {
                s->second[q] = s->lowest[q];
                s->lowest[q] = end;
                s->owner[q] = i;
            } else if (end < s->second[q]) {
                s->second[q] = end;
            }
        }
    }
    for (int32_t i = 0; i < n; ++i) {
        const int32_t u = items[i].id;
        int64_t best = items[i].lowest;
        for (int64_t q = s->first[u]; q <= s->last[u]; ++q) {
            if (items[i].lowest + s->held_sum[q] > s->capacity) {
                const int64_t end = s->owner[q] == i ? s->second[q] : s->lowest[q];
                best = end > best ? end : best;
            }
        }
        if (best > items[i].lowest) {
            items[i].lowest = best;
            moved = 1;
            if (best > s->latest[u]) {
                return -1;
            }
        }
    }
    return moved;
}

/* Whether one held back could lie where it is held back from after all. */
static int idle(const Search *s, const Item *items, int32_t n)
{
    for (int32_t i = 0; i < n; ++i) {
        int64_t lowest = BIG;
        if (items[i].held == 0) {
            continue;
        }
        for (int32_t j = 0; j < n; ++j) {
            if (j != i && rivals(s, items[i].id, items[j].id) && items[j].lowest < lowest) {
                lowest = items[j].lowest;
            }
        }
        if (lowest >= items[i].at + s->size[items[i].id]) {
            return 1;
        }
    }
    return 0;
}

static int lower_bounds(Search *s, Item *items, int32_t n, int64_t low, int64_t high)
{
    for (int32_t i = 0; i < n; ++i) {
        items[i].lowest = items[i].at + items[i].held;
    }
    for (;;) {
        if (!fits(s, items, n, low, high)) {
            return 0;
        }
        const int held = rise_held(s, items, n);
        const int above = held < 0 ? -1 : rise_above(s, items, n, low, high);
        if (above < 0) {
            return 0;
        }
        if (held == 0 && above == 0) {
            return !idle(s, items, n);
        }
    }
}

static int is_free(const Item *x)
{
    return x->held == 0 && x->lowest == x->at;
}

/* The section of a niche with the fewest things to try, of these the one with the fewest bytes to waste. */
static int64_t tightest(Search *s, const Item *items, int32_t n, int64_t low, int64_t high)
{
    int64_t best = low, best_score = INT64_MAX;
    for (int64_t q = low; q <= high; ++q) {
        s->count[q] = 0;
    }
    for (int32_t i = 0; i < n; ++i) { /* the lowest comes last */
        for (int64_t q = s->first[items[i].id]; q <= s->last[items[i].id]; ++q) {
            s->level[q] = items[i].lowest;
        }
    }
    for (int32_t i = 0; i < n; ++i) {
        if (is_free(&items[i])) {
            for (int64_t q = s->first[items[i].id]; q <= s->last[items[i].id]; ++q) {
                s->count[q] += s->level[q] == items[i].lowest;
            }
        }
    }
    for (int64_t start = low, end; start <= high; start = end + 1) {
        for (end = start; end < high && s->level[end + 1] == s->level[start]; ++end) {
        }
        const int left = start == low || s->level[start - 1] > s->level[start];
        const int right = end == high || s->level[end + 1] > s->level[start];
        for (int64_t q = start; left && right && q <= end; ++q) {
            const int64_t slack = s->capacity - s->level[q] - s->held_sum[q];
            const int64_t score = (s->count[q] + (slack > 0)) * BIG + slack;
            if (score < best_score) {
                best_score = score;
                best = q;
            }
        }
    }
    return best;
}

/* Marks, by `lowest` = 1, the items that can be next in a section; how many there are. */
static int32_t mark_options(const Search *s, Item *items, const Item *sorted, int32_t n, int64_t section)
{
    int32_t options = 0;
    for (int32_t i = 0; i < n; ++i) {
        items[i].lowest = 0;
    }
    for (int32_t i = 0; i < n; ++i) {
        const Item *const x = &sorted[i];
        const int covers = s->first[x->id] <= section && section <= s->last[x->id];
        if (covers && is_free(x) && x->lowest == s->level[section]) {
            int32_t a = 0, b = n - 1;
            while (a < b) { /* ids ascend */
                const int32_t middle = (a + b) / 2;
                if (items[middle].id < x->id) {
                    a = middle + 1;
                } else {
                    b = middle;
                }
            }
            items[a].lowest = 1;
            ++options;
        }
    }
    return options;
}

/* Puts item `chosen` where it lies: the others, moved to where they lie then; how many they are. */
static int32_t place(const Search *s, const Item *items, int32_t n, int32_t chosen, int32_t plain, Item *others)
{
    const int32_t u = items[chosen].id;
    const int64_t top = items[chosen].at + s->size[u];
    int32_t m = 0;
    s->out[u] = items[chosen].at;
    for (int32_t i = 0; i < n; ++i) {
        if (i != chosen) {
            Item x = items[i];
            if (x.at < top && rivals(s, u, x.id)) {
                x.at = plain ? top : fit(s, x.id, top);
                x.held = 0;
            }
            others[m++] = x;
        }
    }
    return m;
}

static int32_t split(Search *s, Item *items, int32_t n, int32_t plain);

/* 1 = placed, 0 = impossible, -1 = out of budget. Items are in the order in which they are tried, and stay so. */
static int32_t solve(Search *s, Item *items, int32_t n, int32_t plain)
{
    const uint64_t key = key_of(items, n);
    Item *const sorted = items + n;
    int64_t low = s->first[items[0].id], high = s->last[items[0].id];
    if (*slot_of(s, key) == key) {
        return 0;
    }
    for (int32_t i = 1; i < n; ++i) {
        low = s->first[items[i].id] < low ? s->first[items[i].id] : low;
        high = s->last[items[i].id] > high ? s->last[items[i].id] : high;
    }
    for (;;) {
        s->left -= n;
        if (s->left < 0) {
            return -1;
        }
        memcpy(sorted, items, sizeof(Item) * (size_t)n);
        if (!lower_bounds(s, sorted, n, low, high)) {
            break;
        }
        const int64_t q = tightest(s, sorted, n, low, high);
        const int64_t slack = s->capacity - s->level[q] - s->held_sum[q];
        const int32_t options = mark_options(s, items, sorted, n, q);
        for (int32_t c = 0; c < n; ++c) {
            if (items[c].lowest == 0) {
                continue;
            }
            const int32_t m = place(s, items, n, c, plain, sorted);
            const int32_t result = split(s, sorted, m, plain);
            if (result != 0) {
                return result;
            }
        }
        if (slack <= 0 || options == 0) {
            break;
        }
        for (int32_t i = 0; i < n; ++i) {
            items[i].held |= (int32_t)items[i].lowest;
        }
    }
    if (s->memo_used < s->memo_size / 2) {
        *slot_of(s, key) = key;
        ++s->memo_used;
    }
    return 0;
}

/* Parts that no block connects, by first sections: `at` is where each starts in `out`, `lowest` its length. */
static int32_t parts_of(const Search *s, const Item *items, int32_t n, Item *out, Item *parts)
{
    int64_t *const reach = s->count; /* the last section of a block that starts in this one */
    int64_t low = INT64_MAX, high = 0;
    int32_t count = 0, m = 0;
    for (int32_t i = 0; i < n; ++i) {
        low = s->first[items[i].id] < low ? s->first[items[i].id] : low;
        high = s->last[items[i].id] > high ? s->last[items[i].id] : high;
    }
    for (int64_t q = low; q <= high; ++q) {
        reach[q] = -1;
    }
    for (int32_t i = 0; i < n; ++i) {
        int64_t *const there = &reach[s->first[items[i].id]];
        *there = s->last[items[i].id] > *there ? s->last[items[i].id] : *there;
    }
    for (int64_t start = low, end; start <= high; start = end + 1) {
        end = reach[start];
        for (int64_t q = start + 1; q <= end; ++q) {
            end = reach[q] > end ? reach[q] : end;
        }
        if (end < start) { /* no block to come covers it */
            end = start;
            continue;
        }
        const int32_t from = m;
        for (int32_t i = 0; i < n; ++i) {
            if (start <= s->first[items[i].id] && s->first[items[i].id] <= end) {
                out[m++] = items[i];
            }
        }
        parts[count].at = from;
        parts[count++].lowest = m - from;
    }
    return count;
}

static int32_t split(Search *s, Item *items, int32_t n, int32_t plain)
{
    if (n == 0) {
        return 1;
    }
    Item *const by_part = items + n, *const parts = by_part + n;
    const int32_t count = parts_of(s, items, n, by_part, parts);
    if (count == 1 && n > 1) {
        return solve(s, items, n, plain);
    }
    for (int32_t k = 0; k < count; ++k) {
        const Item *const only = &by_part[parts[k].at];
        if (parts[k].lowest == 1) {
            if (only->held != 0 || only->at > s->latest[only->id]) {
                return 0;
            }
            s->out[only->id] = only->at;
        }
    }
    for (int32_t k = 1; k < count; ++k) { /* the largest first, then by first section */
        const Item x = parts[k];
        int32_t j = k;
        for (; j > 0 && parts[j - 1].lowest < x.lowest; --j) {
            parts[j] = parts[j - 1];
        }
        parts[j] = x;
    }
    for (int32_t k = count - 1; k >= 0; --k) {
        const int32_t m = (int32_t)parts[k].lowest;
        if (m > 1) {
            Item *const mine = parts + count;
            memcpy(mine, &by_part[parts[k].at], sizeof(Item) * (size_t)m);
            const int32_t result = solve(s, mine, m, plain);
            if (result != 1) {
                return result;
            }
        }
    }
    return 1;
}

/* Offsets of all blocks within the capacity, to `out`: 1 = found, 0 = there are none, -1 = the budget `left` is spent. */
int32_t niche_search(Search *s, int32_t count, int32_t plain)
{
    for (int32_t i = 0; i < count; ++i) {
        s->items[i].id = i;
        s->items[i].at = fit(s, i, 0);
        s->items[i].held = 0;
        s->items[i].lowest = 0;
    }
    return split(s, s->items, count, plain);
}
