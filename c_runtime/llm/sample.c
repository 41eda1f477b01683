/* Sampling from a heap of logits: no more of it is put in order than is needed. */
#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "sdk_sample.h"

#define MAX_LOGIT 1e30f /* of a logit: penalties cannot make it infinite */

typedef struct {
    float logit;
    uint32_t id;
} candidate_t;

size_t sdk_sample_work(uint32_t vocabulary)
{
    return (size_t)vocabulary * (sizeof(candidate_t) + sizeof(uint32_t));
}

static bool before(const candidate_t *a, const candidate_t *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

static void sift(candidate_t *heap, size_t n, size_t k, candidate_t moved)
{
    for (size_t child = 2u * k + 1u; child < n; child = 2u * k + 1u) {
        child += child + 1u < n && before(&heap[child + 1u], &heap[child]);
        if (!before(&heap[child], &moved)) {
            break;
        }
        heap[k] = heap[child];
        k = child;
    }
    heap[k] = moved;
}

/* Moves the first of a heap of n behind the others. */
static const candidate_t *take(candidate_t *heap, size_t n)
{
    candidate_t first = heap[0];
    sift(heap, n - 1u, 0, heap[n - 1u]);
    heap[n - 1u] = first;
    return &heap[n - 1u];
}

static bool is_allowed(const uint32_t *allowed, uint32_t id)
{
    return allowed == NULL || (allowed[id >> 5] >> (id & 31u) & 1u);
}

static float penalised(const sdk_sampler_t *s, float logit, uint32_t times)
{
    if (times == 0) {
        return logit;
    }
    if (s->repetition > 0.0f) {
        logit = logit > 0.0f ? logit / s->repetition : logit * s->repetition;
    }
    return logit - (float)times * s->frequency - s->presence;
}

/* The tokens that may come, with their logits as the penalties leave them. */
static size_t gather(const sdk_sampler_t *s, const float *logits, uint32_t vocabulary, const uint32_t *last,
                     size_t n_last, const uint32_t *allowed, candidate_t *found)
{
    uint32_t *times = (uint32_t *)(void *)(found + vocabulary);
    size_t n = 0;
    for (uint32_t id = 0; id < vocabulary; ++id) {
        times[id] = 0;
    }
    for (size_t i = 0; i < n_last; ++i) {
        if (last[i] < vocabulary) {
            ++times[last[i]];
        }
    }
    for (uint32_t id = 0; id < vocabulary; ++id) {
        if (is_allowed(allowed, id) && logits[id] >= -FLT_MAX) { /* neither NaN nor minus infinity */
            float logit = logits[id] > MAX_LOGIT ? MAX_LOGIT : logits[id] < -MAX_LOGIT ? -MAX_LOGIT : logits[id];
            found[n++] = (candidate_t){penalised(s, logit, times[id]), id};
        }
    }
    return n;
}

/* SplitMix64: an evenly spread number from 0 up to 1. */
static double draw(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static double weight(const sdk_sampler_t *s, float logit, float best)
{
    return exp(((double)logit - (double)best) / (double)s->temperature);
}

uint32_t sdk_sample(sdk_sampler_t *sampler, const float *logits, uint32_t vocabulary, const uint32_t *last,
                    size_t n_last, const uint32_t *allowed, void *work)
{
    candidate_t *heap = work;
    size_t n = gather(sampler, logits, vocabulary, last, n_last, allowed, heap);
    if (n == 0) {
        return SDK_SAMPLE_NONE;
    }
    for (size_t k = n / 2u; k-- != 0;) {
        sift(heap, n, k, heap[k]);
    }
    float best = heap[0].logit;
    if (!(sampler->temperature > 0.0f)) {
        return heap[0].id;
    }
    size_t max = sampler->top_k != 0 && sampler->top_k < n ? sampler->top_k : n;
    size_t taken = 0; /* the first `taken` stand in order at the end */
    double total = 0.0;
    if (max < n) {
        for (; taken < max; ++taken) {
            total += weight(sampler, take(heap, n - taken)->logit, best);
        }
    } else {
        for (size_t k = 0; k < n; ++k) {
            total += weight(sampler, heap[k].logit, best);
        }
    }
    double enough = sampler->top_p > 0.0f && sampler->top_p < 1.0f ? total * (double)sampler->top_p : total;
    bool cuts = enough < total || sampler->min_p > 0.0f;
    size_t kept = 0;
    double sum = 0.0;
    for (; cuts && kept < max && sum < enough; ++kept) {
        const candidate_t *next = kept < taken ? &heap[n - 1u - kept] : take(heap, n - kept);
        double w = weight(sampler, next->logit, best);
        taken = kept < taken ? taken : kept + 1u;
        if (w < (double)sampler->min_p) {
            break;
        }
        sum += w;
    }
    kept = cuts ? kept : max;
    double chosen = draw(&sampler->state) * (cuts ? sum : total);
    uint32_t id = SDK_SAMPLE_NONE;
    for (size_t k = 0; k < kept && chosen >= 0.0; ++k) {
        const candidate_t *next = k < taken ? &heap[n - 1u - k] : take(heap, n - k);
        taken = k < taken ? taken : k + 1u;
        id = next->id;
        chosen -= weight(sampler, next->logit, best);
    }
    return id;
}
