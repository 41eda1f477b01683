"""x86-64: the dot products of SSE2, AVX2, AVX-VNNI and AVX-512, masked loads and stores, products added to floats."""

from __future__ import annotations

from typing import Final

from sdk.codegen_c.functions.instructions.lanes import fused, settled
from sdk.codegen_c.functions.instructions.model import InstructionSet, expression, function

__all__ = ["SET"]

_DOTS: Final = (
    function(
        "vpdpbusd_i32x16",
        "dot",
        "i32x16 i32x16 u8x64 i8x64",
        """@i32x16 @@(@i32x16 acc, @u8x64 a, @i8x64 b) {
#if defined(__clang__)
    return (@i32x16)__builtin_ia32_vpdpbusd512(acc, (@i32x16)a, (@i32x16)b);
#else
    return (@i32x16)__builtin_ia32_vpdpbusd_v16si(acc, (@i32x16)a, (@i32x16)b);
#endif
}""",
        "avx512vnni",
    ),
    function(
        "vpdpbusd_i32x8",
        "dot",
        "i32x8 i32x8 u8x32 i8x32",
        """@i32x8 @@(@i32x8 acc, @u8x32 a, @i8x32 b) {
#if defined(__clang__)
    return (@i32x8)__builtin_ia32_vpdpbusd256(acc, (@i32x8)a, (@i32x8)b);
#else
    return (@i32x8)__builtin_ia32_vpdpbusd_v8si(acc, (@i32x8)a, (@i32x8)b);
#endif
}""",
        "avxvnni",
    ),
    expression("dot", "i32x8 i32x8 u8x32 i8x32", "@vpdpbusd_i32x8({0}, {1}, {2})", "avx512vnni avx512vl"),
    function(
        "pmaddwd_i32x16",
        "dot",
        "i32x16 i32x16 i16x32 i16x32",
        """@i32x16 @@(@i32x16 acc, @i16x32 a, @i16x32 b) {
#if defined(__clang__)
    return acc + (@i32x16)__builtin_ia32_pmaddwd512(a, b);
#else
    return acc + (@i32x16)__builtin_ia32_pmaddwd512_mask(a, b, (@i32x16){0}, 0xFFFF);
#endif
}""",
        "avx512bw",
    ),
    function(
        "pmaddwd_i32x8",
        "dot",
        "i32x8 i32x8 i16x16 i16x16",
        """@i32x8 @@(@i32x8 acc, @i16x16 a, @i16x16 b) {
    return acc + (@i32x8)__builtin_ia32_pmaddwd256(a, b);
}""",
        "avx2",
    ),
    # saturates where the sum of two products leaves 16 bits
    function(
        "pmaddubsw_i16x16",
        "dot_small",
        "i16x16 i16x16 u8x32 i8x32",
        """@i16x16 @@(@i16x16 acc, @u8x32 a, @i8x32 b) {
    typedef char bytes __attribute__((vector_size(32)));
    return acc + (@i16x16)__builtin_ia32_pmaddubsw256((bytes)a, (bytes)b);
}""",
        "avx2",
    ),
    # the sizes of a by b with the signs of a; two products by what is no -128 stay within 16 bits
    function(
        "psignb_i32x8",
        "dot_narrow",
        "i32x8 i32x8 i8x32 i8x32",
        """@i32x8 @@(@i32x8 acc, @i8x32 a, @i8x32 b) {
    typedef char bytes __attribute__((vector_size(32)));
    const bytes size = (bytes)__builtin_ia32_psignb256((bytes)a, (bytes)a);
    const bytes by = (bytes)__builtin_ia32_psignb256((bytes)b, (bytes)a);
    const @i16x16 pairs = (@i16x16)__builtin_ia32_pmaddubsw256(size, by);
    return acc + (@i32x8)__builtin_ia32_pmaddwd256(pairs, @splat_i16x16(1));
}""",
        "avx2",
    ),
    function(
        "pmaddwd_i32x4",
        "dot",
        "i32x4 i32x4 i16x8 i16x8",
        """@i32x4 @@(@i32x4 acc, @i16x8 a, @i16x8 b) {
    return acc + (@i32x4)__builtin_ia32_pmaddwd128(a, b);
}""",
        "sse2",
    ),
)

# Lanes of which the first ``count`` are in memory; the others read 0 and are not written.
_FIRST_LANES: Final = (
    function(
        "loadn_avx512f",
        "loadn",
        "f32x16",
        """@f32x16 @@(const void *from, int32_t count) {
    uint32_t mask = count >= 16 ? 0xFFFFu : (count > 0 ? (1u << count) - 1u : 0u);
    return __builtin_ia32_loadups512_mask((const float *)from, (@f32x16){0}, (uint16_t)mask);
}""",
        "avx512f",
        call="@loadn_avx512f",
    ),
    function(
        "storen_avx512f",
        "storen",
        "f32x16",
        """void @@(void *to, int32_t count, @f32x16 value) {
    uint32_t mask = count >= 16 ? 0xFFFFu : (count > 0 ? (1u << count) - 1u : 0u);
    __builtin_ia32_storeups512_mask((float *)to, value, (uint16_t)mask);
}""",
        "avx512f",
        call="@storen_avx512f",
    ),
    function(
        "loadn_avx2",
        "loadn",
        "f32x8",
        """@f32x8 @@(const void *from, int32_t count) {
    @i32x8 mask = (@i32x8)((@i32x8){0, 1, 2, 3, 4, 5, 6, 7} < @splat_i32x8(count));
    return __builtin_ia32_maskloadps256((const @f32x8 *)from, mask);
}""",
        "avx2",
        call="@loadn_avx2",
    ),
    function(
        "storen_avx2",
        "storen",
        "f32x8",
        """void @@(void *to, int32_t count, @f32x8 value) {
    @i32x8 mask = (@i32x8)((@i32x8){0, 1, 2, 3, 4, 5, 6, 7} < @splat_i32x8(count));
    __builtin_ia32_maskstoreps256((@f32x8 *)to, mask, value);
}""",
        "avx2",
        call="@storen_avx2",
    ),
)

_FUSED: Final = (
    fused("fma_avx512f", "f32x16", "__builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4)", "avx512f"),
    fused("fma_fma256", "f32x8", "__builtin_ia32_vfmaddps256(a, b, c)", "fma avx2"),
    fused("fma_fma128", "f32x4", "__builtin_ia32_vfmaddps(a, b, c)", "fma"),
)

SET: Final = InstructionSet((*_DOTS, *_FIRST_LANES, *_FUSED, settled("f32x8", "x", "avx2")))
