"""Arm's M-profile vectors (MVE): what GNU vectors of 16 bytes have no operator for."""

from __future__ import annotations

import re
from typing import Final

from sdk.codegen_c.functions.instructions.model import Instruction, InstructionSet, function
from sdk.codegen_c.functions.names import scalar_name
from sdk.compiler.ir.types import DType, dtype

__all__ = ["SET", "compared"]

_INTEGERS: Final = tuple(dtype(name) for name in ("i8x16", "u8x16", "i16x8", "u16x8", "i32x4", "u32x4"))


def _own(type: DType) -> str:
    """The header's name of a vector type: gcc takes it for another than a GNU vector of the same lanes."""
    kind = {"i": "int", "u": "uint", "f": "float"}[type.kind]
    return f"{kind}{type.bits}x{type.lanes}_t"


def _suffix(type: DType) -> str:
    return f"{'s' if type.kind == 'i' else type.kind}{type.bits}"


def _dot(t: DType) -> Instruction:
    """All products of two vectors of bytes, added to one sum."""
    sums = "int32_t" if t.kind == "i" else "uint32_t"
    return function(
        f"dot16_mve_{t}",
        "dot",
        f"i32 i32 {t} {t}",
        f"int32_t @@(int32_t acc, @{t} a, @{t} b) {{\n"
        f"    return (int32_t)vmladavaq_{_suffix(t)}(({sums})acc, ({_own(t)})a, ({_own(t)})b);\n}}",
        "mve",
    )


# vqrdmulh saturates and rounds as srdhm does, vrshl rounds half up.
_FIXED_POINT: Final = (
    function(
        "srdhm_mve",
        "srdhm srdhm30",
        "i32x4",
        """@i32x4 @@(@i32x4 a, @i32x4 b) {
    return (@i32x4)vqrdmulhq_s32((int32x4_t)a, (int32x4_t)b);
}""",
        "mve",
    ),
    function(
        "rdbpot_mve",
        "rdbpot rdbpot1 rdbpot22",
        "i32x4",
        """@i32x4 @@(@i32x4 x, @i32x4 e) {
    int32x4_t down = vqaddq_s32((int32x4_t)x, (int32x4_t)((x & -e) >> 31)); /* negative: half away from zero */
    return (@i32x4)vrshlq_s32(down, (int32x4_t)-e);
}""",
        "mve",
    ),
    function(
        "rdbpot1_mve",
        "rdbpot1 rdbpot22",
        "i32x4",
        """@i32x4 @@(@i32x4 x, @i32x4 e) { /* |x| <= 2**30, e >= 1 */
    return (@i32x4)vrshlq_s32((int32x4_t)(x + (x >> 31)), (int32x4_t)-e);
}""",
        "mve",
        small=True,
    ),
)


def _extreme(name: str, t: DType) -> Instruction:
    return function(
        f"{name}_mve_{t}",
        name,
        str(t),
        f"@{t} @@(@{t} a, @{t} b) {{\n    return (@{t})v{name}q_{_suffix(t)}(({_own(t)})a, ({_own(t)})b);\n}}",
        "mve",
    )


def _fold(t: DType) -> Instruction:
    scalar = scalar_name(t)
    return function(
        f"foldadd_mve_{t}",
        "fold_add",
        f"{t.scalar} {t}",
        f"{scalar} @@(@{t} x) {{\n    return ({scalar})vaddvq_{_suffix(t)}(({_own(t)})x);\n}}",
        "mve",
    )


def _first_lanes(t: DType) -> tuple[Instruction, Instruction]:
    """The lanes below ``count`` are in memory; the others read 0 and are not written."""
    below = f"    mve_pred16_t below = vctp{t.bits}q(count > 0 ? (uint32_t)count : 0u);\n"
    width = "bhw"[t.bits // 16]
    load = (
        f"@{t} @@(const void *from, int32_t count) {{\n"
        f"{below}    return (@{t})vldr{width}q_z_{_suffix(t)}(from, below);\n}}"
    )
    store = (
        f"void @@(void *to, int32_t count, @{t} value) {{\n"
        f"{below}    vstr{width}q_p_{_suffix(t)}(to, ({_own(t)})value, below);\n}}"
    )
    return (
        function(f"loadn_mve_{t}", "loadn", str(t), load, "mve", call=f"@loadn_mve_{t}"),
        function(f"storen_mve_{t}", "storen", str(t), store, "mve", call=f"@storen_mve_{t}"),
    )


def _first_bytes(t: DType) -> tuple[Instruction, Instruction]:
    """The same of four bytes, each of which is the low one of a word of the vector."""
    sign = _suffix(t)[0]
    below = "    mve_pred16_t below = vctp32q(count > 0 ? (uint32_t)count : 0u);\n"
    load = (
        f"@{t} @@(const void *from, int32_t count) {{\n"
        f"{below}    return @narrow_mve_{t}((@i32x4)vldrbq_z_{sign}32(from, below));\n}}"
    )
    store = (
        f"void @@(void *to, int32_t count, @{t} value) {{\n"
        f"{below}    vstrbq_p_s32(to, (int32x4_t)@widen_mve_{t}(value), below);\n}}"
    )
    return (
        function(f"loadn_mve_{t}", "loadn", str(t), load, "mve", call=f"@loadn_mve_{t}"),
        function(f"storen_mve_{t}", "storen", str(t), store, "mve", call=f"@storen_mve_{t}"),
    )


def _converted(t: DType) -> tuple[Instruction, Instruction]:
    """Between four bytes and a vector of words, by the stack: gcc takes the lanes one by one."""
    narrow = (
        f"@{t} @@(@i32x4 x) {{\n#if defined(__clang__)\n    return __builtin_convertvector(x, @{t});\n#else\n"
        f"    @{t} out;\n    vstrbq_s32((int8_t *)&out, (int32x4_t)x);\n    return out;\n#endif\n}}"
    )
    widen = (
        f"@i32x4 @@(@{t} x) {{\n#if defined(__clang__)\n    return __builtin_convertvector(x, @i32x4);\n#else\n"
        f"    return (@i32x4)vldrbq_{_suffix(t)[0]}32((const {scalar_name(t)} *)&x);\n#endif\n}}"
    )
    return (
        function(f"narrow_mve_{t}", "cast", f"{t} i32x4", narrow, "mve"),
        function(f"widen_mve_{t}", "cast", f"i32x4 {t}", widen, "mve"),
    )


SET: Final = InstructionSet(
    (
        *(_dot(dtype(name)) for name in ("i8x16", "u8x16")),
        *_FIXED_POINT,
        *(_extreme(name, t) for t in _INTEGERS for name in ("min", "max")),
        *(_fold(t) for t in _INTEGERS),
        *(one for t in (*_INTEGERS, dtype("f32x4")) for one in _first_lanes(t)),
        *(one for name in ("i8x4", "u8x4") for one in (*_converted(dtype(name)), *_first_bytes(dtype(name)))),
        function(
            "fma_mve",
            "fma",
            "f32x4",
            """@f32x4 @@(@f32x4 a, @f32x4 b, @f32x4 c) {
    return (@f32x4)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}""",
            "mve-fp",
        ),
    ),
    # gcc 12 takes the first lane of a mask for all of them where it joins masks of floats (a < b & c < d, or one select
    # in another), and in masks it knows (the first lanes of a vector): what it cannot look through keeps its lanes.
    functions={
        f"lanes_mve_{t}": f"@{t} @@(@{t} mask) {{\n"
        '#if !defined(__clang__)\n    __asm__("" : "+w"(mask));\n#endif\n    return mask;\n}'
        for t in ("i8x16", "i16x8", "i32x4")
    },
    header="arm_mve.h",
)

_SIDE: Final = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))*?"  # with two levels of parentheses
_COMPARED: Final = re.compile(rf"\(@(i8x16|i16x8|i32x4)\)\(({_SIDE} (?:<|>|<=|>=|==|!=) {_SIDE})\)")


def compared(text: str) -> str:
    """The text of a C function with a mask of its own for each comparison."""
    return _COMPARED.sub(r"@lanes_mve_\1((@\1)(\2))", text)
