"""The logistic curve and tanh of i16 in fixed point of 16 bits, as gemmlowp computes them: e to the power by a
polynomial and a product for each bit, then three Newton steps of a division.

A raw value with ``i`` integer bits stands for ``raw / 2**(15 - i)``; results have none.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import cast, imm, op
from sdk.compiler.ir.loops import Let, Ref, Stmt, ValueExpr
from sdk.compiler.ir.types import I16, I32

__all__ = ["WORD_BITS", "halved_ref", "word_curve", "word_curve_ref"]

Array = NDArray[Any]
WORD_BITS: Final = range(7)  # integer bits that a curve takes
_ONE: Final = 32767  # without integer bits
_EIGHTH, _THIRD, _EXP_EIGHTH = 1 << 12, 10923, 28918  # 1/8, 1/3, e**(-1/8), without integer bits
# e**-(2**k) for k = -2 … 4, without integer bits
_EXP_STEPS: Final = (25520, 19875, 12055, 4435, 600, 11, 0)
_START, _SLOPE, _UNIT = 23130, -15420, 1 << 13  # 48/17, -32/17 and 1 with two integer bits
_WIDE_BITS: Final = 5  # with more integer bits, what is below -32 is 0


def _clamp_of(bits: int) -> int:
    return -(1 << 20 - bits)


def _times_ref(a: Array, b: Array | int) -> Array:
    return np.asarray(np.asarray(a * b, np.int64) + (1 << 14)) >> 15


def halved_ref(x: Array, bits: int) -> Array:
    """x / 2**bits to nearest, halves away from zero."""
    size = np.asarray(np.abs(x) + (1 << bits - 1), x.dtype) >> bits
    return np.where(x < 0, -size, size)


def _exp_ref(a: Array, bits: int) -> Array:
    fraction = 15 - bits
    quarter = 1 << fraction - 2
    part = (a & quarter - 1) - quarter
    x = (part << bits) + _EIGHTH
    x2 = _times_ref(x, x)
    x3, x4 = _times_ref(x2, x), _times_ref(x2, x2)
    tail = halved_ref(_times_ref(halved_ref(x4, 2) + x3, _THIRD) + x2, 1)
    result = np.minimum(_EXP_EIGHTH + _times_ref(x + tail, _EXP_EIGHTH), _ONE)
    for k, step in enumerate(_EXP_STEPS, start=-2):
        if k < bits:
            result = np.where(part - a & 1 << fraction + k, _times_ref(result, step), result)
    if bits > _WIDE_BITS:
        result = np.where(a < _clamp_of(bits), 0, result)
    return np.where(a == 0, _ONE, result)


def word_curve_ref(x: Array, bits: int, tanh: bool) -> Array:
    """tanh, else the logistic curve, of i16 with ``bits`` integer bits, as i16."""
    wide = x.astype(np.int64)
    e = _exp_ref(-np.abs(wide), bits + tanh)
    half = e + _ONE + 1 >> 1
    root = _START + _times_ref(half, _SLOPE)
    for _ in range(3):
        root = root + (_times_ref(root, _UNIT - _times_ref(half, root)) << 2)
    if tanh:
        size = np.minimum(root - _UNIT << 2, _ONE)
        value = np.where(wide < 0, -size, size)
    else:
        size = np.minimum(root << 1, _ONE)
        value = np.where(wide < 0, _ONE - size, size)
    return np.where(wide == 0, 0 if tanh else _ONE + 1 >> 1, value).astype(np.int16)


def _times(a: ValueExpr, b: ValueExpr) -> ValueExpr:
    """A product without integer bits; no two factors here are both -32768, which alone would saturate."""
    return op("shr", op("add", op("mul", a, b), imm(1 << 14)), imm(15))


class _Names:
    """Statements that name values, after a tag."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.lets: list[Stmt] = []

    def let(self, name: str, value: ValueExpr) -> Ref:
        self.lets.append(Let(f"{self.tag}{name}", value))
        return Ref(f"{self.tag}{name}", I32)


def _exp(names: _Names, a: Ref, bits: int) -> ValueExpr:
    """e**a for the i32 ``a`` in -32768..0."""
    fraction = 15 - bits
    quarter = 1 << fraction - 2
    part = names.let("part", op("sub", op("and", a, imm(quarter - 1)), imm(quarter)))
    x = names.let("x", op("add", op("shl", part, imm(bits)), imm(_EIGHTH)))
    x2 = names.let("x2", _times(x, x))
    x4 = op("rdbpot", _times(x2, x2), imm(2))
    tail = op("rdbpot", op("add", _times(op("add", x4, _times(x2, x)), imm(_THIRD)), x2), imm(1))
    first = op("add", _times(op("add", x, tail), imm(_EXP_EIGHTH)), imm(_EXP_EIGHTH))
    result: ValueExpr = names.let("e", op("min", first, imm(_ONE)))
    rest = names.let("rest", op("sub", part, a))
    for k, step in enumerate(_EXP_STEPS, start=-2):
        if k < bits:
            there = op("ne", op("and", rest, imm(1 << fraction + k)), imm(0))
            result = names.let(f"e{k + 2}", op("select", there, _times(result, imm(step)), result, dtype=I32))
    if bits > _WIDE_BITS:
        result = op("select", op("lt", a, imm(_clamp_of(bits))), imm(0), result, dtype=I32)
    return op("select", op("eq", a, imm(0)), imm(_ONE), result, dtype=I32)


def word_curve(x: ValueExpr, bits: int, tanh: bool, tag: str) -> tuple[list[Stmt], ValueExpr]:
    """The same of the i16 ``x``: statements that name things after ``tag``, and the value in i16."""
    names = _Names(tag)
    wide = names.let("wide", cast(x, I32))
    below = names.let("below", op("min", wide, op("neg", wide)))
    half = names.let("half", op("shr", op("add", _exp(names, below, bits + tanh), imm(_ONE + 1)), imm(1)))
    root = names.let("root", op("add", _times(half, imm(_SLOPE)), imm(_START)))
    for k in range(3):
        error = op("sub", imm(_UNIT), _times(half, root))
        root = names.let(f"root{k}", op("add", root, op("shl", _times(root, error), imm(2))))
    shifted = op("shl", op("sub", root, imm(_UNIT)), imm(2)) if tanh else op("shl", root, imm(1))
    size = names.let("size", op("min", shifted, imm(_ONE)))
    other = op("neg", size) if tanh else op("sub", imm(_ONE), size)
    value = op("select", op("lt", wide, imm(0)), other, size, dtype=I32)
    middle = imm(0 if tanh else _ONE + 1 >> 1)
    return names.lets, cast(op("select", op("eq", wide, imm(0)), middle, value, dtype=I32), I16)
