"""Operations of the intrinsic table on one lane, in instructions that every driver has.

Integers of 8 and 16 bits are 32-bit words that hold their value (with the sign of the type), 16-bit floats the word of
their bits: only buffers have narrow types. Products of 32 bits by 32 are taken by extended multiplication, not in 64
bits, which most phones lack; 64-bit values themselves need the capability.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from sdk.codegen_c.spirv.code import Code
from sdk.compiler.ir.types import BOOL, F16, F32, I32, I64, U32, DType
from sdk.errors import BuildError

__all__ = ["Scalars"]

_COMPARE: Final = {
    "lt": ("SLessThan", "ULessThan", "FOrdLessThan"),
    "le": ("SLessThanEqual", "ULessThanEqual", "FOrdLessThanEqual"),
    "gt": ("SGreaterThan", "UGreaterThan", "FOrdGreaterThan"),
    "ge": ("SGreaterThanEqual", "UGreaterThanEqual", "FOrdGreaterThanEqual"),
    "eq": ("IEqual", "IEqual", "FOrdEqual"),
    "ne": ("INotEqual", "INotEqual", "FUnordNotEqual"),
}
_ARITHMETIC: Final = {"add": ("IAdd", "FAdd"), "sub": ("ISub", "FSub"), "mul": ("IMul", "FMul")}
_BITWISE: Final = {"and": "BitwiseAnd", "or": "BitwiseOr", "xor": "BitwiseXor"}
_LOGICAL: Final = {"and": "LogicalAnd", "or": "LogicalOr", "xor": "LogicalNotEqual"}
_MIN, _MAX = -(1 << 31), (1 << 31) - 1


class Scalars:
    """Emits operations into ``code``: values go in and come out as identities, ``kind`` is their type in the IR."""

    def __init__(self, code: Code) -> None:
        self.code, self.words = code, code.words

    # --- types and numbers -----------------------------------------------------------------------------------

    def type(self, kind: DType) -> int:
        """The type that values of ``kind`` have in registers."""
        if kind.kind == "b":
            return self.words.bool_type()
        if kind.is_float and kind.bits > 16:
            return self.words.float_type(kind.bits)
        return self.words.uint(64 if kind.bits == 64 else 32)

    def imm(self, value: float, kind: DType) -> int:
        """A literal."""
        if kind.kind == "b":
            return self.words.truth(bool(value))
        if kind == F16:
            return self.words.number(struct.unpack("<H", struct.pack("<e", value))[0])
        if kind.is_float:
            return self.words.real(float(value), kind.bits)
        return self.words.number(int(value), 64 if kind.bits == 64 else 32)

    def u32(self, value: int) -> int:
        """A word."""
        return self.words.number(value)

    # --- pieces that the operations are made of ----------------------------------------------------------------

    def op(self, name: str, kind: DType, *args: int) -> int:
        """An instruction whose result is of ``kind``."""
        return self.code.op(name, self.type(kind), *args)

    def glsl(self, name: str, kind: DType, *args: int) -> int:
        """A function of GLSL.std.450 whose result is of ``kind``."""
        return self.code.glsl(name, self.type(kind), *args)

    def compare(self, name: str, kind: DType, a: int, b: int) -> int:
        """A condition on two values of ``kind``."""
        signed, unsigned, real = _COMPARE[name]
        if kind.kind == "b" and name in ("eq", "ne"):
            return self.op("LogicalEqual" if name == "eq" else "LogicalNotEqual", BOOL, a, b)
        if kind.kind == "b":
            return self.compare(name, U32, self.word_of(a), self.word_of(b))
        return self.op(real if kind.is_float else signed if kind.kind == "i" else unsigned, BOOL, a, b)

    def select(self, cond: int, kind: DType, yes: int, no: int) -> int:
        """One of two values, both of which are there."""
        return yes if yes == no else self.op("Select", kind, cond, yes, no)

    def word_of(self, cond: int) -> int:
        """A condition as 0 or 1."""
        return self.op("Select", U32, cond, self.u32(1), self.u32(0))

    def wrap(self, kind: DType, value: int) -> int:
        """A word as the value of a narrow type: its lower bits with their sign."""
        if kind.bits >= 32:
            return value
        name = "BitFieldSExtract" if kind.kind == "i" else "BitFieldUExtract"
        return self.op(name, U32, value, self.u32(0), self.u32(kind.bits))

    def bits_of(self, value: int, kind: DType) -> int:
        """The bits of a float of 32 or 64 bits, or of an integer, as an integer."""
        return self.op("Bitcast", DType("u", kind.bits), value) if kind.is_float and kind != F16 else value

    def is_nan(self, kind: DType, value: int) -> int:
        """Whether a float is a NaN: by its bits, since drivers may assume that no number is one."""
        whole = DType("u", max(kind.bits, 32))
        size = self.op("BitwiseAnd", whole, self.bits_of(value, kind), self.imm(_mask(kind), whole))
        return self.compare("gt", whole, size, self.imm(_infinity(kind), whole))

    def is_inf(self, kind: DType, value: int) -> int:
        """Whether a float is infinite."""
        whole = DType("u", max(kind.bits, 32))
        size = self.op("BitwiseAnd", whole, self.bits_of(value, kind), self.imm(_mask(kind), whole))
        return self.compare("eq", whole, size, self.imm(_infinity(kind), whole))

    def wide_product(self, a: int, b: int, signed: bool = True) -> tuple[int, int]:
        """The lower and the upper word of the product of two words."""
        pair = self.words.record(self.words.uint(), self.words.uint())
        both = self.code.op("SMulExtended" if signed else "UMulExtended", pair, a, b)
        low, high = (self.op("CompositeExtract", U32, both, k) for k in (0, 1))
        return low, high

    # --- the operations --------------------------------------------------------------------------------------

    def apply(self, name: str, kind: DType, args: list[int]) -> int:
        """Operation ``name``, whose arguments and result are all of ``kind``.

        Raises:
            BuildError: there is none of this name on values of this type.
        """
        if kind == F16 and name not in ("min", "max"):
            raise BuildError(f"{name} on f16, in which values are stored and not computed")
        if kind.kind == "b":
            found = self._logic(name, args)
        elif kind.is_float:
            found = self._float(name, kind, args)
        else:
            found = self._int(name, kind, args)
        if found is None:
            raise BuildError(f"{name} on {kind} has no form in SPIR-V")
        return found

    def _logic(self, name: str, args: list[int]) -> int | None:
        if name in _LOGICAL:
            return self.op(_LOGICAL[name], BOOL, *args)
        if name in ("min", "max"):
            return self.op(_LOGICAL["and" if name == "min" else "or"], BOOL, *args)
        return self.op("LogicalNot", BOOL, *args) if name == "not" else None

    def _float(self, name: str, kind: DType, args: list[int]) -> int | None:
        if name in _ARITHMETIC:
            return self.op(_ARITHMETIC[name][1], kind, *args)
        match name:
            case "tdiv":
                return self.op("FDiv", kind, *args)
            case "neg":
                return self.op("FNegate", kind, *args)
            case "abs":
                return self.glsl("FAbs", kind, *args)
            case "min" | "max":
                return self.extreme(name, kind, *args)
            case "fma":
                return self.glsl("Fma", kind, *args)
        return None

    def extreme(self, name: str, kind: DType, a: int, b: int) -> int:
        """The smaller or larger of two floats; a NaN where either is one."""
        if kind == F16:
            wide = self.extreme(name, F32, self.from_half(a), self.from_half(b))
            return self.to_half(wide)
        a, b = (b, a) if self.words.is_constant(b) else (a, b)
        first = self.compare("lt" if name == "min" else "gt", kind, a, b)
        if not self.words.is_constant(a):
            first = self.op("LogicalOr", BOOL, first, self.is_nan(kind, a))
        return self.select(first, kind, a, b)

    def _int(self, name: str, kind: DType, args: list[int]) -> int | None:
        if name in _ARITHMETIC:
            return self.wrap(kind, self.op(_ARITHMETIC[name][0], kind, *args))
        if name in _BITWISE:
            return self.op(_BITWISE[name], kind, *args)
        match name:
            case "tdiv":
                return self.quotient(kind, *args)
            case "fmod":
                return self.remainder(kind, *args)
            case "neg":
                return self.wrap(kind, self.op("SNegate", kind, *args))
            case "abs":
                return self._size(kind, args[0])
            case "min" | "max":
                first = self.compare("lt" if name == "min" else "gt", kind, *args)
                return self.select(first, kind, *args)
            case "shl":
                return self.wrap(kind, self.op("ShiftLeftLogical", kind, *args))
            case "shr":
                return self.op("ShiftRightArithmetic" if kind.kind == "i" else "ShiftRightLogical", kind, *args)
            case "clz" if kind.bits == 32:
                return self.op("ISub", U32, self.u32(31), self.glsl("FindUMsb", U32, *args))
        fixed = _FIXED.get(name)
        if fixed is not None and kind == I32:
            return fixed(self, *args)
        return self.add_halves(*args) if name == "add_halves" and kind == I64 else None

    def _size(self, kind: DType, a: int) -> int:
        if kind.kind == "u":
            return a
        negative = self.compare("lt", kind, a, self.imm(0, kind))
        return self.wrap(kind, self.select(negative, kind, self.op("SNegate", kind, a), a))

    def quotient(self, kind: DType, a: int, b: int) -> int:
        """Rounded towards zero; by 0: 0. No instruction divides by 0, nor the smallest number by -1."""
        known = self.words.value_of(b)
        if kind.kind == "u":
            if known:
                return self.op("UDiv", kind, a, b)
            none = self.compare("eq", kind, b, self.imm(0, kind))
            found = self.op("UDiv", kind, a, self.select(none, kind, self.imm(1, kind), b))
            return self.select(none, kind, self.imm(0, kind), found)
        if known == (1 << max(kind.bits, 32)) - 1:
            return self.wrap(kind, self.op("SNegate", kind, a))
        if known:
            return self.op("SDiv", kind, a, b)
        none = self.compare("eq", kind, b, self.imm(0, kind))
        minus = self.compare("eq", kind, b, self.imm(-1, kind))
        odd = self.op("LogicalOr", BOOL, none, minus)
        found = self.op("SDiv", kind, a, self.select(odd, kind, self.imm(1, kind), b))
        negated = self.wrap(kind, self.op("SNegate", kind, a))
        return self.select(none, kind, self.imm(0, kind), self.select(minus, kind, negated, found))

    def remainder(self, kind: DType, a: int, b: int) -> int:
        """What division towards zero leaves, with the sign of a; by 0: 0. Drivers disagree on that of negatives."""
        rest = self.op("ISub", kind, a, self.op("IMul", kind, self.quotient(kind, a, b), b))
        none = self.compare("eq", kind, b, self.imm(0, kind))
        return self.select(none, kind, self.imm(0, kind), self.wrap(kind, rest))

    # --- fixed point -----------------------------------------------------------------------------------------

    def srdhm(self, a: int, b: int) -> int:
        """round(a*b / 2**31), ties to plus infinity, saturated."""
        low, high = self.wide_product(a, b)
        half = self.u32(1 << 30)
        low = self.op("IAdd", U32, low, half)
        high = self.op("IAdd", U32, high, self.word_of(self.compare("lt", U32, low, half)))
        upper = self.op("ShiftLeftLogical", U32, high, self.u32(1))
        found = self.op("BitwiseOr", U32, upper, self.op("ShiftRightLogical", U32, low, self.u32(31)))
        minimum = [self.compare("eq", U32, x, self.u32(_MIN)) for x in (a, b)]
        return self.select(self.op("LogicalAnd", BOOL, *minimum), U32, self.u32(_MAX), found)

    def srdhm30(self, a: int, b: int) -> int:
        """The same where a is known to be small."""
        low, high = self.wide_product(a, b)
        half = self.u32(1 << 30)
        low = self.op("IAdd", U32, low, half)
        high = self.op("IAdd", U32, high, self.word_of(self.compare("lt", U32, low, half)))
        upper = self.op("ShiftLeftLogical", U32, high, self.u32(1))
        return self.op("BitwiseOr", U32, upper, self.op("ShiftRightLogical", U32, low, self.u32(31)))

    def rdbpot(self, x: int, e: int) -> int:
        """x / 2**e to nearest, ties away from zero."""
        one = self.u32(1)
        mask = self.op("ISub", U32, self.op("ShiftLeftLogical", U32, one, e), one)
        below = self.word_of(self.compare("lt", I32, x, self.u32(0)))
        threshold = self.op("IAdd", U32, self.op("ShiftRightLogical", U32, mask, one), below)
        more = self.compare("gt", U32, self.op("BitwiseAnd", U32, x, mask), threshold)
        return self.op("IAdd", U32, self.op("ShiftRightArithmetic", U32, x, e), self.word_of(more))

    def mac_high(self, a: int, b: int, c: int) -> int:
        """c + the upper word of a*b."""
        return self.op("IAdd", U32, c, self.wide_product(a, b)[1])

    def mulq64(self, x: int, multiplier: int, shift: int) -> int:
        """TFLite's scaling of a 64-bit sum by 16 bits of the multiplier; a word."""
        rounded = self.op("IAdd", U32, multiplier, self.u32(1 << 15))
        rounded = self.op("ShiftRightArithmetic", U32, rounded, self.u32(16))
        small = self.compare("lt", I32, multiplier, self.u32(0x7FFF0000))
        reduced = self.cast(I32, I64, self.select(small, U32, rounded, self.u32(0x7FFF)))
        total = self.cast(I32, I64, self.op("ISub", U32, self.u32(15), shift))
        before = self.op("ISub", I64, total, self.imm(1, I64))
        half = self.op("ShiftLeftLogical", I64, self.imm(1, I64), before)
        sum = self.op("IAdd", I64, self.op("IMul", I64, x, reduced), half)
        return self.cast(I64, I32, self.op("ShiftRightArithmetic", I64, sum, total))

    def add_halves(self, a: int, b: int) -> int:
        """b added to the lower word of a, b / 2**16 to nearest, halves up, to its upper one."""
        low = self.op("BitwiseAnd", I64, self.op("IAdd", I64, a, b), self.imm(0xFFFFFFFF, I64))
        rounded = self.op("IAdd", I64, b, self.imm(1 << 15, I64))
        rounded = self.op("ShiftRightArithmetic", I64, rounded, self.imm(16, I64))
        upper = self.op("ShiftRightArithmetic", I64, a, self.imm(32, I64))
        high = self.op("ShiftLeftLogical", I64, self.op("IAdd", I64, upper, rounded), self.imm(32, I64))
        return self.op("BitwiseOr", I64, high, low)

    # --- conversions -----------------------------------------------------------------------------------------

    def cast(self, source: DType, to: DType, value: int) -> int:
        """``value`` of ``source`` as ``to``: integers wrap, floats truncate and saturate, NaN becomes 0."""
        if source == to:
            return value
        if source.kind == "b":
            return value if to.kind == "b" else self._from_word(U32, to, self.word_of(value))
        if to.kind == "b":
            if source == F16:
                return self.cast(F32, to, self.from_half(value))
            return self.compare("ne", source, value, self.imm(0, source))
        if source == F16:
            return self.cast(F32, to, self.from_half(value))
        if to == F16:
            return self.to_half(self.cast(source, F32, value))
        if source.is_float:
            if to.is_float:
                return self.op("FConvert", to, value)
            return self._whole(source, to, value)
        return self._from_word(source, to, value)

    def _from_word(self, source: DType, to: DType, value: int) -> int:
        """An integer as another number."""
        if to == F16:
            return self.to_half(self._from_word(source, F32, value))
        if to.is_float:
            return self.op("ConvertSToF" if source.kind == "i" else "ConvertUToF", to, value)
        if to.bits == 64 and source.bits < 64:
            return self.op("SConvert" if source.kind == "i" else "UConvert", to, value)
        if source.bits == 64 and to.bits < 64:
            value = self.op("UConvert", U32, value)
        fits = source.bits < to.bits and (source.kind == to.kind or source.kind == "u")
        return value if fits or to.bits >= 32 else self.wrap(to, value)

    def _whole(self, source: DType, to: DType, value: int) -> int:
        """A float as an integer: no instruction is given what it does not hold."""
        lo, hi = to.limits
        target = DType(to.kind, 64 if to.bits == 64 else 32)
        above = self.imm(hi + 1, source)
        held = self.compare("gt", source, value, self.imm(lo, source))
        inside = self.op("LogicalAnd", BOOL, held, self.compare("lt", source, value, above))
        kept = self.select(inside, source, value, self.imm(0, source))
        found = self.op("ConvertFToS" if to.kind == "i" else "ConvertFToU", target, kept)
        top = self.compare("ge", source, value, above)
        low = self.compare("le", source, value, self.imm(lo, source))
        found = self.select(top, target, self.imm(hi, target), found)
        return self.select(low, target, self.imm(lo, target), found)

    def from_half(self, h: int) -> int:
        """The f32 of a word of 16 bits, exactly, subnormal numbers too."""
        size = self.op("BitwiseAnd", U32, h, self.u32(0x7FFF))
        sign = self.op("ShiftLeftLogical", U32, self.op("BitwiseAnd", U32, h, self.u32(0x8000)), self.u32(16))
        shifted = self.op("ShiftLeftLogical", U32, size, self.u32(13))
        normal = self.op("IAdd", U32, shifted, self.u32(112 << 23))
        odd = self.op("IAdd", U32, shifted, self.u32(224 << 23))
        tiny = self.op("FMul", F32, self.op("ConvertUToF", F32, size), self.imm(2.0**-24, F32))
        found = self.select(self.compare("ge", U32, size, self.u32(0x7C00)), U32, odd, normal)
        found = self.select(self.compare("lt", U32, size, self.u32(0x0400)), U32, self.bits_of(tiny, F32), found)
        return self.op("Bitcast", F32, self.op("BitwiseOr", U32, found, sign))

    def to_half(self, x: int) -> int:
        """The nearest f16 of an f32, ties to even, as a word."""
        word = self.bits_of(x, F32)
        size = self.op("BitwiseAnd", U32, word, self.u32(0x7FFFFFFF))
        sign = self.op("BitwiseAnd", U32, self.op("ShiftRightLogical", U32, word, self.u32(16)), self.u32(0x8000))
        odd = self.op("BitwiseAnd", U32, self.op("ShiftRightLogical", U32, size, self.u32(13)), self.u32(1))
        near = self.op("IAdd", U32, self.op("IAdd", U32, size, self.u32(0xFFF - (112 << 23))), odd)
        normal = self.op("ShiftRightLogical", U32, near, self.u32(13))
        scaled = self.op("FMul", F32, self.op("Bitcast", F32, size), self.imm(2.0**24, F32))
        small = self.compare("lt", U32, size, self.u32(0x38800000))
        whole = self.glsl("RoundEven", F32, self.select(small, F32, scaled, self.imm(0.0, F32)))
        tiny = self.op("ConvertFToU", U32, whole)
        found = self.select(small, U32, tiny, normal)
        large = self.compare("ge", U32, size, self.u32(0x477FF000))  # what rounds to more than 65504
        found = self.select(large, U32, self.u32(0x7C00), found)
        nan = self.compare("gt", U32, size, self.u32(0x7F800000))
        return self.op("BitwiseOr", U32, self.select(nan, U32, self.u32(0x7E00), found), sign)


_FIXED: Final[dict[str, Callable[..., int]]] = {
    "srdhm": Scalars.srdhm,
    "srdhm30": Scalars.srdhm30,
    "rdbpot": Scalars.rdbpot,
    "rdbpot1": Scalars.rdbpot,
    "rdbpot22": Scalars.rdbpot,
    "mac_high": Scalars.mac_high,
}


def _mask(kind: DType) -> int:
    return (1 << (kind.bits - 1)) - 1


def _infinity(kind: DType) -> int:
    return {16: 0x7C00, 32: 0x7F800000, 64: 0x7FF0000000000000}[kind.bits]

