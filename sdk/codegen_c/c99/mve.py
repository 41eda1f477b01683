"""The C functions for Arm's M-profile vectors (MVE), as data: what GNU vectors of 16 bytes have no operator for."""

from __future__ import annotations

import re
from typing import Final

from sdk.codegen_c.c99.names import scalar_name
from sdk.compiler.ir.types import DType, dtype

__all__ = ["MVE", "MVE_FIRST", "MVE_HEADER", "MVE_INTEGERS", "compared"]

MVE_HEADER: Final = "arm_mve.h"
MVE_INTEGERS: Final = tuple(dtype(name) for name in ("i8x16", "u8x16", "i16x8", "u16x8", "i32x4", "u32x4"))
MVE_FIRST: Final = (*MVE_INTEGERS, dtype("f32x4"))  # types whose first lanes are read and written by themselves


def _own(type: DType) -> str:
    """The header's name of a vector type: gcc takes it for another than a GNU vector of the same lanes."""
    kind = {"i": "int", "u": "uint", "f": "float"}[type.kind]
    return f"{kind}{type.bits}x{type.lanes}_t"


def _suffix(type: DType) -> str:
    return f"{'s' if type.kind == 'i' else type.kind}{type.bits}"


_EXTREMES: Final = {
    f"{name}_mve_{t}": f"@{t} @@(@{t} a, @{t} b) {{\n"
    f"    return (@{t})v{name}q_{_suffix(t)}(({_own(t)})a, ({_own(t)})b);\n}}"
    for name in ("min", "max")
    for t in MVE_INTEGERS
}
_FOLDS: Final = {
    f"foldadd_mve_{t}": f"{scalar_name(t)} @@(@{t} x) {{\n"
    f"    return ({scalar_name(t)})vaddvq_{_suffix(t)}(({_own(t)})x);\n}}"
    for t in MVE_INTEGERS
}
# The lanes below ``count`` are in memory; the others read 0 and are not written.
_LANES_BELOW: Final = {
    **{
        f"loadn_mve_{t}": f"@{t} @@(const void *from, int32_t count) {{\n"
        f"    mve_pred16_t below = vctp{t.bits}q(count > 0 ? (uint32_t)count : 0u);\n"
        f"    return (@{t})vldr{'bhw'[t.bits // 16]}q_z_{_suffix(t)}(from, below);\n}}"
        for t in MVE_FIRST
    },
    **{
        f"storen_mve_{t}": f"void @@(void *to, int32_t count, @{t} value) {{\n"
        f"    mve_pred16_t below = vctp{t.bits}q(count > 0 ? (uint32_t)count : 0u);\n"
        f"    vstr{'bhw'[t.bits // 16]}q_p_{_suffix(t)}(to, ({_own(t)})value, below);\n}}"
        for t in MVE_FIRST
    },
}
# Between four bytes and a vector of words, by the stack: gcc takes the lanes one by one.
_CONVERTED: Final = {
    **{
        f"narrow_mve_{t}": f"@{t} @@(@i32x4 x) {{\n#if defined(__clang__)\n"
        f"    return __builtin_convertvector(x, @{t});\n#else\n    @{t} out;\n"
        f"    vstrbq_s32((int8_t *)&out, (int32x4_t)x);\n    return out;\n#endif\n}}"
        for t in ("i8x4", "u8x4")
    },
    **{
        f"widen_mve_{t}": f"@i32x4 @@(@{t} x) {{\n#if defined(__clang__)\n"
        f"    return __builtin_convertvector(x, @i32x4);\n#else\n"
        f"    return (@i32x4)vldrbq_{of}32((const {scalar} *)&x);\n#endif\n}}"
        for t, of, scalar in (("i8x4", "s", "int8_t"), ("u8x4", "u", "uint8_t"))
    },
}

MVE: Final = {
    **{
        f"dot16_mve_{t}": f"int32_t @@(int32_t acc, @{t} a, @{t} b) {{\n"
        f"    return (int32_t)vmladavaq_{_suffix(t)}(({scalar})acc, ({_own(t)})a, ({_own(t)})b);\n}}"
        for t, scalar in ((dtype("i8x16"), "int32_t"), (dtype("u8x16"), "uint32_t"))
    },
    # As the scalar functions of these names: vqrdmulh saturates and rounds as srdhm does, vrshl rounds half up.
    "srdhm_mve": """@i32x4 @@(@i32x4 a, @i32x4 b) {
    return (@i32x4)vqrdmulhq_s32((int32x4_t)a, (int32x4_t)b);
}""",
    "rdbpot_mve": """@i32x4 @@(@i32x4 x, @i32x4 e) {
    int32x4_t down = vqaddq_s32((int32x4_t)x, (int32x4_t)((x & -e) >> 31)); /* negative: half away from zero */
    return (@i32x4)vrshlq_s32(down, (int32x4_t)-e);
}""",
    "rdbpot1_mve": """@i32x4 @@(@i32x4 x, @i32x4 e) { /* |x| <= 2**30, e >= 1 */
    return (@i32x4)vrshlq_s32((int32x4_t)(x + (x >> 31)), (int32x4_t)-e);
}""",
    "fma_mve": """@f32x4 @@(@f32x4 a, @f32x4 b, @f32x4 c) {
    return (@f32x4)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}""",
    # gcc 12 takes the first lane of a mask for all of them where it joins masks of floats (a < b & c < d, or one select
    # in another), and in masks it knows (the first lanes of a vector): what it cannot look through keeps its lanes.
    **{
        f"lanes_mve_{t}": f"@{t} @@(@{t} mask) {{\n"
        '#if !defined(__clang__)\n    __asm__("" : "+w"(mask));\n#endif\n    return mask;\n}'
        for t in ("i8x16", "i16x8", "i32x4")
    },
    **_EXTREMES,
    **_FOLDS,
    **_LANES_BELOW,
    **_CONVERTED,
}

_SIDE: Final = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))*?"  # with two levels of parentheses
_COMPARED: Final = re.compile(rf"\(@(i8x16|i16x8|i32x4)\)\(({_SIDE} (?:<|>|<=|>=|==|!=) {_SIDE})\)")


def compared(text: str) -> str:
    """The text of a helper with a mask of its own for each comparison."""
    return _COMPARED.sub(r"@lanes_mve_\1((@\1)(\2))", text)
