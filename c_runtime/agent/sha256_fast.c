#define _GNU_SOURCE
#include "sha256_fast.h"

#if defined(__x86_64__) && !defined(AG_PLAIN_SHA256)

#include <cpuid.h>
#include <immintrin.h>

static bool has_instructions(void)
{
    unsigned a, b, c, d;
    bool ssse3_sse41 = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & 1u << 9) != 0 && (c & 1u << 19) != 0;
    return ssse3_sse41 && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & 1u << 29) != 0;
}

/* State is held as the instructions want it: (A B E F) and (C D G H), the first one highest. */
__attribute__((target("sha,sse4.1,ssse3"))) static void take(uint32_t state[8], const uint8_t *data, size_t blocks)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
    __m128i low = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)state), 0xb1);
    __m128i high = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)(state + 4)), 0x1b);
    __m128i abef = _mm_alignr_epi8(low, high, 8), cdgh = _mm_blend_epi16(high, low, 0xf0);
    for (; blocks != 0; --blocks, data += 64) {
        __m128i abef0 = abef, cdgh0 = cdgh, w[4];
        for (unsigned i = 0; i < 4; ++i) {
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(data + 16u * i)), swap);
        }
#pragma GCC unroll 16
        for (unsigned i = 0; i < 16; ++i) {
            __m128i k = _mm_loadu_si128((const __m128i *)(const void *)(ag_sha256_k + 4u * i));
            __m128i sum = _mm_add_epi32(w[i % 4u], k);
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
            if (i < 12) {
                __m128i next = _mm_sha256msg1_epu32(w[i % 4u], w[(i + 1u) % 4u]);
                next = _mm_add_epi32(next, _mm_alignr_epi8(w[(i + 3u) % 4u], w[(i + 2u) % 4u], 4));
                w[i % 4u] = _mm_sha256msg2_epu32(next, w[(i + 3u) % 4u]);
            }
        }
        abef = _mm_add_epi32(abef, abef0);
        cdgh = _mm_add_epi32(cdgh, cdgh0);
    }
    low = _mm_shuffle_epi32(abef, 0x1b);
    high = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(low, high, 0xf0));
    _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(high, low, 8));
}

#elif defined(__aarch64__) && defined(__clang__) && !defined(AG_PLAIN_SHA256)

#include <arm_neon.h>
#include <sys/auxv.h>

#define HWCAP_SHA2_BIT (1ul << 6) /* of the kernel's <asm/hwcap.h> */

static bool has_instructions(void)
{
    return (getauxval(AT_HWCAP) & HWCAP_SHA2_BIT) != 0;
}

__attribute__((target("sha2"))) static void take(uint32_t state[8], const uint8_t *data, size_t blocks)
{
    uint32x4_t abcd = vld1q_u32(state), efgh = vld1q_u32(state + 4);
    for (; blocks != 0; --blocks, data += 64) {
        uint32x4_t abcd0 = abcd, efgh0 = efgh, w[4];
        for (unsigned i = 0; i < 4; ++i) {
            w[i] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(data + 16u * i)));
        }
#pragma GCC unroll 16
        for (unsigned i = 0; i < 16; ++i) {
            uint32x4_t sum = vaddq_u32(w[i % 4u], vld1q_u32(ag_sha256_k + 4u * i)), old = abcd;
            abcd = vsha256hq_u32(abcd, efgh, sum);
            efgh = vsha256h2q_u32(efgh, old, sum);
            if (i < 12) {
                w[i % 4u] = vsha256su1q_u32(vsha256su0q_u32(w[i % 4u], w[(i + 1u) % 4u]), w[(i + 2u) % 4u],
                                            w[(i + 3u) % 4u]);
            }
        }
        abcd = vaddq_u32(abcd, abcd0);
        efgh = vaddq_u32(efgh, efgh0);
    }
    vst1q_u32(state, abcd);
    vst1q_u32(state + 4, efgh);
}

#else

static bool has_instructions(void)
{
    return false;
}

static void take(uint32_t state[8], const uint8_t *data, size_t blocks)
{
    (void)state;
    (void)data;
    (void)blocks;
}

#endif

bool ag_sha256_fast(uint32_t state[8], const uint8_t *data, size_t blocks)
{
    static int known; /* 0: not looked yet, 1: it has none, 2: it has them */
    if (known == 0) {
        known = has_instructions() ? 2 : 1;
    }
    if (known == 1) {
        return false;
    }
    take(state, data, blocks);
    return true;
}
