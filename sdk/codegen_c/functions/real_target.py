"""C text of what differs between targets: fused multiply-add, square roots, arguments of sine that are huge."""

from __future__ import annotations

from typing import Final

from sdk.compiler.ir.types import DType

__all__ = ["HUGE", "SQRT_PIECES", "mad_text", "sqrt_text"]

# Where the target finds square roots in hardware; clang then has them as a builtin that no library backs.
_SQRT_HARDWARE: Final = {
    32: "defined(__SSE2__) || defined(__aarch64__) || (defined(__ARM_FP) && (__ARM_FP & 4))",
    64: "defined(__SSE2__) || defined(__aarch64__) || (defined(__ARM_FP) && (__ARM_FP & 8))",
}
# The bits of x*2/pi below 4 as whole numbers, so that nothing cancels (Payne and Hanek's way); x is finite.
HUGE: Final = {
    32: """float @@(float x, int32_t *quarter) {
    static const uint32_t bits[] = {%table 8%};
    uint32_t word = (uint32_t)@bits_f32(@abs_f32(x));
    uint32_t m = (word & 0x007FFFFFu) | 0x00800000u;
    uint32_t at = (word >> 23) - 120u;
    const uint32_t *w = bits + (at >> 5);
    uint32_t shift = at & 31u;
    uint32_t a = (uint32_t)(((((uint64_t)w[0] << 32) | w[1]) << shift) >> 32);
    uint32_t b = (uint32_t)(((((uint64_t)w[1] << 32) | w[2]) << shift) >> 32);
    uint32_t c = (uint32_t)(((((uint64_t)w[2] << 32) | w[3]) << shift) >> 32);
    uint64_t part = ((uint64_t)(m * a) << 32) + (uint64_t)m * b + (((uint64_t)m * c) >> 32);
    uint32_t q = (uint32_t)((part + ((uint64_t)1 << 61)) >> 62);
    float rest = (float)(int64_t)(part - ((uint64_t)q << 62));
    float r = @mad_f32(rest, %quarter_hi%, rest * %quarter_lo%);
    *quarter = x < 0.0f ? -(int32_t)q : (int32_t)q;
    return x < 0.0f ? -r : r;
}""",
    64: """double @@(double x, int32_t *quarter) {
    static const uint32_t bits[] = {0u, %table 40%};
    uint64_t word = (uint64_t)@bits_f64(@abs_f64(x));
    uint64_t m = (word & UINT64_C(0x000FFFFFFFFFFFFF)) | UINT64_C(0x0010000000000000);
    uint32_t at = (uint32_t)(word >> 52) - 1013u;
    uint32_t shift = at & 31u;
    uint32_t part[7] = {0};
    for (int32_t k = 5; k >= 0; --k) {
        const uint32_t *w = bits + (at >> 5) + k;
        uint64_t window = ((((uint64_t)w[0] << 32) | w[1]) << shift) >> 32;
        uint64_t low = (m & 0xFFFFFFFFu) * window + part[k];
        part[k] = (uint32_t)low;
        uint64_t high = (m >> 32) * window + (low >> 32);
        for (int32_t j = k - 1; j >= 0; --j) {
            high += part[j];
            part[j] = (uint32_t)high;
            high >>= 32;
        }
    }
    uint32_t q = (part[0] + ((uint32_t)1 << 29)) >> 30;
    int64_t top = (int64_t)((((uint64_t)part[0] << 32) | part[1]) - ((uint64_t)q << 62));
    double rest = (double)top + (double)(((uint64_t)part[2] << 32) | part[3]) * 0x1p-64;
    double r = @mad_f64(rest, %quarter_hi%, rest * %quarter_lo%);
    *quarter = x < 0.0 ? -(int32_t)q : (int32_t)q;
    return x < 0.0 ? -r : r;
}""",
}

# Compilers of Apple and of Swift call themselves clang 17 and lack the builtin that came with that version elsewhere.
_SQRT_SCALAR: Final = """$C @@($C x) {
#if (HARDWARE) && defined(__clang__) && __clang_major__ >= 18
    return __builtin_elementwise_sqrt(x);
#elif defined(__SSE2__)
    return __builtin_ia32_%sse%((@$Tx%per_register%){x})[0];
#elif HARDWARE
    $C y;
#if defined(__aarch64__)
    __asm__("fsqrt %a64%" : "=w"(y) : "w"(x));
#else
    __asm__("vsqrt.$T %vfp%" : "=%register%"(y) : "%register%"(x));
#endif
    return y;
#else
    return @sqrtnewton_$T(x);
#endif
}"""
# The pieces of that per width: the x86 builtin, the operands of two assemblers, the constraint of a VFP register.
SQRT_PIECES: Final = {
    32: {"sse": "sqrtss", "a64": "%s0, %s1", "vfp": "%0, %1", "register": "t"},
    64: {"sse": "sqrtsd", "a64": "%d0, %d1", "vfp": "%P0, %P1", "register": "w"},
}
_SQRT_LANES: Final = """$C @@($C x) {
#if HARDWARE
#if defined(__clang__) && __clang_major__ >= 18
    return __builtin_elementwise_sqrt(x);
#else
    $C out = {0};
    for (int32_t i = 0; i < $N; ++i) {
        out[i] = @sqrt_$D(x[i]);
    }
    return out;
#endif
#else
    return @sqrtnewton_$T(x);
#endif
}"""
# gcc fuses only through builtins; clang by the pragma, where the target has the instruction.
_FUSED: Final = {
    "f32": ("__FMA__) || defined(__aarch64__) || (defined(__ARM_FEATURE_FMA)", "__builtin_fmaf(a, b, c)"),
    "f64": ("__FMA__) || defined(__aarch64__", "__builtin_fma(a, b, c)"),
    "f32x4": ("__FMA__", "__builtin_ia32_vfmaddps(a, b, c)"),
    "f32x8": ("__FMA__", "__builtin_ia32_vfmaddps256(a, b, c)"),
    "f32x16": ("__AVX512F__", "__builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4)"),
    "f64x2": ("__FMA__", "__builtin_ia32_vfmaddpd(a, b, c)"),
    "f64x4": ("__FMA__", "__builtin_ia32_vfmaddpd256(a, b, c)"),
    "f64x8": ("__AVX512F__", "__builtin_ia32_vfmaddpd512_mask(a, b, c, (unsigned char)0xFF, 4)"),
}


def sqrt_text(type: DType) -> str:
    """The square root of a float type."""
    return (_SQRT_SCALAR if type.lanes == 1 else _SQRT_LANES).replace("HARDWARE", _SQRT_HARDWARE[type.bits])


def mad_text(type: DType) -> str:
    """a*b + c, fused where the target has an instruction for it."""
    fused = _FUSED.get(str(type))
    between = f"#elif defined({fused[0]})\n    return {fused[1]};\n" if fused else ""
    return (
        "$C @@($C a, $C b, $C c) {\n#if defined(__clang__)\n#pragma STDC FP_CONTRACT ON\n    return a * b + c;\n"
        f"{between}#else\n    return a * b + c;\n#endif\n}}"
    )
