/* The instructions of AVX-512 that generated code names, in C: for machines that lack them. The compiler makes of it
   what the machine has, so the generated code is tested, not the compiler's choice of instructions. */
#include <stdint.h>
#include <string.h>

/* What generated code asks for before it uses them; after the headers, which would use them too. */
#define __AVX512F__ 1
#define __AVX512BW__ 1
#define __AVX512DQ__ 1
#define __AVX512VL__ 1
#define __AVX512VNNI__ 1

typedef int32_t lacked_i32x16 __attribute__((vector_size(64), may_alias));
typedef int32_t lacked_i32x8 __attribute__((vector_size(32), may_alias));
typedef int16_t lacked_i16x32 __attribute__((vector_size(64), may_alias));
typedef float lacked_f32x16 __attribute__((vector_size(64), may_alias));

#define LACKED static inline __attribute__((unused))

LACKED int32_t lacked_dot(int32_t acc, int32_t a, int32_t b)
{
    uint32_t sum = (uint32_t)acc;
    for (int k = 0; k < 4; ++k) {
        sum += (uint32_t)((int32_t)(uint8_t)((uint32_t)a >> (8 * k)) * (int8_t)((uint32_t)b >> (8 * k)));
    }
    return (int32_t)sum;
}

LACKED lacked_i32x16 lacked_dot16(lacked_i32x16 acc, lacked_i32x16 a, lacked_i32x16 b)
{
    for (int k = 0; k < 16; ++k) {
        acc[k] = lacked_dot(acc[k], a[k], b[k]);
    }
    return acc;
}

LACKED lacked_i32x8 lacked_dot8(lacked_i32x8 acc, lacked_i32x8 a, lacked_i32x8 b)
{
    for (int k = 0; k < 8; ++k) {
        acc[k] = lacked_dot(acc[k], a[k], b[k]);
    }
    return acc;
}

LACKED lacked_i32x16 lacked_pairs(lacked_i16x32 a, lacked_i16x32 b)
{
    lacked_i32x16 out;
    for (int k = 0; k < 16; ++k) {
        out[k] = (int32_t)((uint32_t)(a[2 * k] * b[2 * k]) + (uint32_t)(a[2 * k + 1] * b[2 * k + 1]));
    }
    return out;
}

LACKED lacked_f32x16 lacked_load(const float *from, lacked_f32x16 other, uint16_t mask)
{
    for (int k = 0; k < 16; ++k) {
        other[k] = (mask >> k & 1) != 0 ? from[k] : other[k];
    }
    return other;
}

LACKED void lacked_store(float *to, lacked_f32x16 value, uint16_t mask)
{
    for (int k = 0; k < 16; ++k) {
        if ((mask >> k & 1) != 0) {
            to[k] = value[k];
        }
    }
}

LACKED lacked_f32x16 lacked_fma(lacked_f32x16 a, lacked_f32x16 b, lacked_f32x16 c)
{
    for (int k = 0; k < 16; ++k) {
        c[k] = __builtin_fmaf(a[k], b[k], c[k]);
    }
    return c;
}

#define __builtin_ia32_vpdpbusd512(c, a, b) lacked_dot16(c, (lacked_i32x16)(a), (lacked_i32x16)(b))
#define __builtin_ia32_vpdpbusd_v16si(c, a, b) lacked_dot16(c, (lacked_i32x16)(a), (lacked_i32x16)(b))
#define __builtin_ia32_vpdpbusd256(c, a, b) lacked_dot8(c, (lacked_i32x8)(a), (lacked_i32x8)(b))
#define __builtin_ia32_vpdpbusd_v8si(c, a, b) lacked_dot8(c, (lacked_i32x8)(a), (lacked_i32x8)(b))
#define __builtin_ia32_pmaddwd512(a, b) lacked_pairs(a, b)
#define __builtin_ia32_pmaddwd512_mask(a, b, other, mask) lacked_pairs(a, b)
#define __builtin_ia32_loadups512_mask(from, other, mask) lacked_load(from, other, mask)
#define __builtin_ia32_storeups512_mask(to, value, mask) lacked_store(to, value, mask)
#define __builtin_ia32_vfmaddps512_mask(a, b, c, mask, rounding) lacked_fma(a, b, c)
