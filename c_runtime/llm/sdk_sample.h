/* Chooses the next token by its logits: penalties, temperature, top-k, top-p and min-p, then a draw with a seed. */
#ifndef SDK_SAMPLE_H
#define SDK_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SDK_SAMPLE_NONE 0xFFFFFFFFu

/* All that is 0 is off, but for the state: {0} takes the most probable token. */
typedef struct {
    float temperature; /* divides the logits; 0: the most probable token */
    float top_p;       /* as few tokens as have this probability together */
    float min_p;       /* tokens with this part of the most probable one's probability */
    float repetition;  /* divides positive logits of tokens that were there, multiplies negative ones; 1: off */
    float presence;    /* taken from the logits of tokens that were there */
    float frequency;   /* taken once for each time that a token was there */
    uint32_t top_k;    /* as many tokens */
    uint64_t state;    /* a seed; each draw changes it */
} sdk_sampler_t;

/* Bytes of working memory, aligned to 4. */
size_t sdk_sample_work(uint32_t vocabulary);

/* The next token by f32 logits; `last` are tokens that were there, for the penalties. `allowed` has a bit for each token
 * that may come, from the lowest bit of the first word, or is NULL: all. SDK_SAMPLE_NONE where no token may come: all
 * are forbidden, or their logits are NaN or minus infinity. */
uint32_t sdk_sample(sdk_sampler_t *sampler, const float *logits, uint32_t vocabulary, const uint32_t *last,
                    size_t n_last, const uint32_t *allowed, void *work);

#ifdef __cplusplus
}
#endif

#endif /* SDK_SAMPLE_H */
