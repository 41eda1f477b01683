"""How each value operation is spelled in C: the first row that fits its types and the target wins."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from sdk.codegen_c.c99.mve import MVE_FIRST, MVE_INTEGERS
from sdk.codegen_c.c99.neon import NEON_ROWS
from sdk.compiler.ir.types import DType

__all__ = ["Spelling", "find_spelling"]


@dataclass(frozen=True, slots=True)
class Spelling:
    """``text`` for operation ``op`` where types fit and the target has every feature of ``needs``.

    ``types`` are shell patterns: the result, then the arguments; the last one repeats. In the text ``{0}``
    is an argument, ``{0:int}`` one that must be a literal, ``@name`` a helper or vector type, ``$T`` the
    result type, ``$0`` the type of argument 0. A ``small`` row holds only where |argument 0| <= 2**30.
    """

    op: str
    types: str
    text: str
    needs: frozenset[str] = frozenset()
    small: bool = False


def _row(op: str, types: str, text: str, needs: str = "", small: bool = False) -> Spelling:
    return Spelling(op, types, text, frozenset(needs.split()), small)


_WORD: Final = ("i8", "u8")
_RIGHT: Final = ("rdbpot1", "rdbpot22")  # right shifts by 1 or more
# fmt: off
_REAL: Final = (
    "exp", "log", "tanh", "erf", "sigmoid", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "asinh", "acosh", "atanh", "abs", "floor", "ceil", "trunc",
)
# fmt: on
_ROWS: Final = (
    *(_row(*row) for row in NEON_ROWS),
    # Fixed point on scalars.
    _row("srdhm", "i32", "@srdhm({0}, {1})"),
    _row("srdhm30", "i32", "@srdhm30_dsp({0}, {1})", "dsp thumb2"),
    _row("srdhm30", "i32", "@srdhm30({0}, {1})", "thumb2"),
    _row("srdhm30", "i32", "@srdhm30_thumb({0}, {1})", "thumb"),
    _row("srdhm30", "i32", "@srdhm30({0}, {1})"),
    _row("mac_high", "i32", "@mac_high_dsp({0}, {1}, {2})", "dsp thumb2"),
    _row("mac_high", "i32", "@mac_high({0}, {1}, {2})"),
    _row("rdbpot", "i32", "@rdbpot({0}, {1})"),
    *(_row(name, "i32", "@rdbpot1({0}, {1})", small=True) for name in _RIGHT),
    *(_row(name, "i32", "@rdbpot({0}, {1})") for name in _RIGHT),
    _row("mulq64", "i32 i64 i32", "@mulq64({0}, {1}, {2})"),
    _row("add_halves", "i64", "@add_halves_thumb({0}, (int32_t)({1}))", "thumb"),
    _row("add_halves", "i64", "@add_halves({0}, (int32_t)({1}))"),
    _row("clz", "i32", "@clz((uint32_t)({0}))"),
    _row("bits", "[iu]8x4 i16x2", "{0}", "words"),
    _row("bits", "i16x2 [iu]8x4", "{0}", "words"),
    _row("bits", "*", "@bits_$T_$0({0})"),
    _row("clz", "u32 u32", "(uint32_t)@clz({0})"),
    *(_row("fold_add", f"{t.scalar} {t}", f"@foldadd_mve_{t}({{0}})", "mve") for t in MVE_INTEGERS),
    *(_row(f"fold_{name}", "*", f"@fold{name}_$0({{0}})") for name in ("add", "mul", "min", "max")),
    *(_row(f"zip_{half}", "*", f"@zip{half}_$T({{0}}, {{1}})") for half in ("lo", "hi")),
    # Real numbers, on scalars and lanes.
    *(_row(name, "f[36]*", f"@{name}_$T({{0}})") for name in _REAL),
    _row("round", "f[36]*", "@whole_$T({0})"),
    _row("isnan", "* f[36]*", "@isnan_$0({0})"),
    _row("isinf", "* f[36]*", "@isinf_$0({0})"),
    _row("fmod", "f[36]*", "@fmod_$T({0}, {1})"),
    _row("fmod", "i*", "@rem_$T({0}, {1})"),
    _row("fmod", "u*", "@urem_$T({0}, {1})"),
    _row("pow", "f[36]*", "@pow_$T({0}, {1})"),
    _row("abs", "i*", "@abs_$T({0})"),
    _row("abs", "u*", "{0}"),
    # Vectors of 16 bytes whose dot product is one sum.
    *(_row("dot", f"i32 i32 {t} {t}", f"@dot16_mve_{t}({{0}}, {{1}}, {{2}})", "mve") for t in ("i8x16", "u8x16")),
    *(_row(f"srdhm{small}", "i32x4", "@srdhm_mve({0}, {1})", "mve") for small in ("", "30")),
    _row("rdbpot", "i32x4", "@rdbpot_mve({0}, {1})", "mve"),
    *(_row(name, "i32x4", "@rdbpot1_mve({0}, {1})", "mve", small=True) for name in _RIGHT),
    *(_row(name, "i32x4", "@rdbpot_mve({0}, {1})", "mve") for name in _RIGHT),
    *(_row(name, str(t), f"@{name}_mve_{t}({{0}}, {{1}})", "mve") for t in MVE_INTEGERS for name in ("min", "max")),
    *(_row(way, str(t), f"@{way}_mve_{t}", "mve") for t in MVE_FIRST for way in ("loadn", "storen")),
    *(_row("cast", f"{t} i32x4", f"@narrow_mve_{t}({{0}})", "mve") for t in ("i8x4", "u8x4")),
    *(_row("cast", f"i32x4 {t}", f"@widen_mve_{t}({{0}})", "mve") for t in ("i8x4", "u8x4")),
    _row("fma", "f32x4", "@fma_mve({0}, {1}, {2})", "mve-fp"),
    # The same on lanes.
    _row("srdhm", "i32x*", "@srdhm_$T({0}, {1})"),
    _row("srdhm30", "i32x*", "@srdhm30_$T({0}, {1})"),
    _row("mac_high", "i32x*", "@machigh_$T({0}, {1}, {2})"),
    _row("rdbpot", "i32x*", "@rdbpot_$T({0}, {1})"),
    *(_row(name, "i32x*", "@rdbpot1_$T({0}, {1})", small=True) for name in _RIGHT),
    *(_row(name, "i32x*", "@rdbpot_$T({0}, {1})") for name in _RIGHT),
    _row("mulq64", "i32x* i64x* i32x*", "@mulq64_$T({0}, {1}, {2})"),
    _row("clz", "[iu]32x*", "@clz_$T({0})"),
    # Four bytes unpacked to words of two halves.
    *(
        _row(f"{name}s", f"i16x2 {byte}x4", f"@{name}_{byte}({{0}})", "dsp thumb2 words")
        for name in ("even", "odd")
        for byte in _WORD
    ),
    _row("dot", "i32 i32 i16x2 i16x2", "@smlad({1}, {2}, {0})", "dsp thumb2 words"),
    _row("dot", "i32 i32 i16x2 i16x2", "@dot2({0}, {1}, {2})", "words"),
    _row("dot", "i64 i64 i16x2 i16x2", "@smlald({0}, {1}, {2})", "dsp thumb2 words"),
    _row("dot", "i64 i64 i16x2 i16x2", "@dot2_i64({0}, {1}, {2})", "words"),
    _row("mac_pair", "i32 i32 i16x2 i16x2 i32 i32", "@mac{3:int}{4:int}_dsp({0}, {1}, {2})", "dsp thumb2 words"),
    _row("mac_pair", "i32 i32 i16x2 i16x2 i32 i32", "@mac{3:int}{4:int}({0}, {1}, {2})", "words"),
    _row("mac_pair", "i32 i32 i16x2 i16x2 i32 i32", "{0} + {1}[{3:int}] * {2}[{4:int}]", "vectors"),
    # Dot products of words of four bytes.
    *(
        _row("dot", f"i32 i32 {a}x4 {b}x4", f"@dot4_{a}{b}_dsp({{0}}, {{1}}, {{2}})", "dsp thumb2 words")
        for a in _WORD
        for b in _WORD
    ),
    *(
        _row("dot", f"i32 i32 {a}x4 {b}x4", f"@dot4_{a}{b}({{0}}, {{1}}, {{2}})", "words")
        for a in _WORD
        for b in _WORD
    ),
    *(
        _row(
            "mac_lane",
            f"i32 i32 {a}x4 {b}x4 i32",
            f"@mac{{3:int}}_{a}{b}_dsp({{0}}, {{1}}, {{2}})",
            "dsp thumb2 words",
        )
        for a in _WORD
        for b in _WORD
    ),
    *(
        _row("mac_lane", f"i32 i32 {a}x4 {b}x4 i32", f"@mac{{3:int}}_{a}{b}({{0}}, {{1}}, {{2}})", "words")
        for a in _WORD
        for b in _WORD
    ),
    _row("add", "[iu]8x4", "@add4({0}, {1})", "words"),
    # Dot products of lanes.
    _row("dot", "i32x16 i32x16 u8x64 i8x64", "@vpdpbusd_i32x16({0}, {1}, {2})", "avx512vnni"),
    _row("dot", "i32x8 i32x8 u8x32 i8x32", "@vpdpbusd_i32x8({0}, {1}, {2})", "avx512vnni avx512vl"),
    _row("dot", "i32x8 i32x8 u8x32 i8x32", "@vpdpbusd_i32x8({0}, {1}, {2})", "avxvnni"),
    _row("dot", "i32x16 i32x16 i16x32 i16x32", "@pmaddwd_i32x16({0}, {1}, {2})", "avx512bw"),
    _row("dot", "i32x8 i32x8 i16x16 i16x16", "@pmaddwd_i32x8({0}, {1}, {2})", "avx2"),
    _row("dot", "i32x4 i32x4 i16x8 i16x8", "@pmaddwd_i32x4({0}, {1}, {2})", "sse2"),
    _row("dot", "*", "@dot_$T_$1_$2({0}, {1}, {2})"),
    _row("mac_lane", "i32 i32 [iu]*x* [iu]*x* i32", "{0} + {1}[{3:int}] * {2}[{3:int}]", "vectors"),
    _row("broadcast", "[iu]8x4 [iu]8", "@splat4({0})", "words"),
    _row("broadcast", "i16x2 i16", "@splat2({0})", "words"),
    # Lanes of which only the first few are in memory.
    *(
        _row(way, f"f32x{lanes}", f"@{way}_{isa}", isa)
        for way in ("loadn", "storen")
        for lanes, isa in ((16, "avx512f"), (8, "avx2"))
    ),
    # A vector read into scalars.
    _row("apart", "f32x4", "@apart_vfp_f32x4", "fpu-sp thumb2"),
    # A product added in one rounding, or in one instruction.
    _row("fma", "f32", "@mla_f32({0}, {1}, {2})", "fpu-sp thumb2"),
    _row("fma", "f32", "@fma_f32({0}, {1}, {2})"),
    _row("fma", "f32x16", "@fma_avx512f({0}, {1}, {2})", "avx512f"),
    _row("fma", "f32x8", "@fma_fma256({0}, {1}, {2})", "fma avx2"),
    _row("fma", "f32x4", "@fma_fma128({0}, {1}, {2})", "fma"),
    _row("fma", "f32x4", "@fma_neon({0}, {1}, {2})", "neon"),
    _row("fma", "f*x*", "@fma_$T({0}, {1}, {2})"),
)


@lru_cache(maxsize=4096)
def find_spelling(op: str, types: tuple[DType, ...], features: frozenset[str], small: bool) -> str | None:
    """The text for ``op`` with these types (result first), or None when it is an ordinary C operator."""
    names = [str(t) for t in types]
    for row in _ROWS:
        if (
            row.op == op
            and row.needs <= features
            and (small or not row.small)
            and _fits(row.types.split(), names)
        ):
            text = row.text.replace("$T", names[0])
            for k, name in enumerate(names[1:]):
                text = text.replace(f"${k}", name)
            return text
    return None


def _fits(patterns: list[str], names: list[str]) -> bool:
    padded = patterns + patterns[-1:] * (len(names) - len(patterns))
    return all(fnmatchcase(name, pattern) for name, pattern in zip(names, padded, strict=False))
