/* memcpy and its kin for images without a C library; words where both sides are aligned, bytes elsewhere. */
#include "sdk_rt_mem.h"

#include <stdint.h>

typedef uint32_t __attribute__((may_alias)) word_t;

/* Keeps the compiler from turning the loop around it back into a call of the function it is in. */
#define KEEP_LOOP(p) __asm__ volatile("" : "+r"(p))

static int aligned(const void *a, const void *b)
{
    return (((uintptr_t)a | (uintptr_t)b) & 3u) == 0;
}

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    uint8_t *t = to;
    const uint8_t *f = from;
    if (aligned(t, f)) {
        word_t *tw = to;
        const word_t *fw = from;
        for (; n >= 4; n -= 4) {
            *tw++ = *fw++;
            KEEP_LOOP(tw);
        }
        t = (uint8_t *)tw;
        f = (const uint8_t *)fw;
    }
    for (; n != 0; --n) {
        *t++ = *f++;
        KEEP_LOOP(t);
    }
    return to;
}

void *memmove(void *to, const void *from, size_t n)
{
    uint8_t *t = to;
    const uint8_t *f = from;
    if ((uintptr_t)t - (uintptr_t)f >= n) { /* unsigned: also true when to lies below from */
        for (size_t i = 0; i < n; ++i) {
            t[i] = f[i];
            KEEP_LOOP(t);
        }
    } else {
        while (n != 0) {
            --n;
            t[n] = f[n];
            KEEP_LOOP(t);
        }
    }
    return to;
}

void *memset(void *to, int byte, size_t n)
{
    uint8_t *t = to;
    uint32_t word = (uint8_t)byte * 0x01010101u;
    for (; n != 0 && ((uintptr_t)t & 3u) != 0; --n) {
        *t++ = (uint8_t)word;
        KEEP_LOOP(t);
    }
    word_t *tw = (word_t *)(void *)t;
    for (; n >= 4; n -= 4) {
        *tw++ = word;
        KEEP_LOOP(tw);
    }
    t = (uint8_t *)tw;
    for (; n != 0; --n) {
        *t++ = (uint8_t)word;
        KEEP_LOOP(t);
    }
    return to;
}

int memcmp(const void *a, const void *b, size_t n)
{
    const uint8_t *x = a, *y = b;
    for (size_t i = 0; i < n; ++i) {
        if (x[i] != y[i]) {
            return x[i] < y[i] ? -1 : 1;
        }
    }
    return 0;
}
