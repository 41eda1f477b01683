"""Fixed-point rescaling: accumulators or stored integers to stored integers.

As TensorFlow Lite does it, which rounds twice; ``requantize`` with ``spare`` rounds as runtimes on floats do: the
accumulator is first shifted left by that many bits, which the sums leave free. ``halves="up"`` rounds once, exactly;
``halves="even"`` rounds halves to even, exactly where the first of its two roundings has nothing to round, which is so
where sums end at halves (multipliers of few bits). With ``high`` bits it gives what TensorFlow Lite does from the high
word of one product, of the accumulator shifted left by that many.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import apply, cast, imm, op, srdhm
from sdk.compiler.ir.loops import Imm, ValueExpr
from sdk.compiler.ir.types import I8, I16, I32, I64, U8, TensorType, dtype
from sdk.compiler.ops.build import map_elements
from sdk.compiler.ops.fixed import multiply_quantized as multiply_quantized_ref
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.traits import Elementwise
from sdk.compiler.sym import Var
from sdk.errors import BuildError

__all__ = ["halves_up", "multiply_quantized", "multiply_quantized_const", "saturate"]

Array = NDArray[Any]


def multiply_quantized(
    x: ValueExpr, mult: ValueExpr, shift: ValueExpr, shift_lo: int, shift_hi: int, acc_bits: int
) -> ValueExpr:
    """MultiplyByQuantizedMultiplier(x, mult, shift) where shift_lo <= shift <= shift_hi (positive = left) and
    |x| < 2**acc_bits after the left shift: the bounds choose the cheapest exact form."""
    fixed = isinstance(shift, Imm)
    if shift_hi > 0:
        x = op("shl", x, shift if fixed else op("max", shift, imm(0)))
    high = op("srdhm30" if acc_bits <= 30 else "srdhm", x, mult)
    if shift_lo >= 0:
        return high
    if isinstance(shift, Imm):
        right: ValueExpr = imm(-int(shift.value))
    else:
        right = op("max", op("neg", shift), imm(0)) if shift_hi > 0 else op("neg", shift)
    return op("rdbpot" if shift_hi >= 0 else "rdbpot22" if shift_lo >= -22 else "rdbpot1", high, right)


def multiply_quantized_const(x: ValueExpr, mult: int, shift: int, acc_bits: int) -> ValueExpr:
    """The same for a multiplier known at build time; |x| < 2**acc_bits after the left shift."""
    return multiply_quantized(x, imm(mult), imm(shift), shift, shift, acc_bits)


def saturate(value: ValueExpr, zp: int, lo: int, hi: int, out: str) -> ValueExpr:
    """``clamp(value + zp, lo, hi)`` as type ``out``."""
    if zp:
        value = op("add", value, imm(zp))
    return cast(op("min", op("max", value, imm(lo)), imm(hi)), dtype(out))


def _requantize_infer(acc: TensorType, mult: TensorType, shift: TensorType, *, out: str, **_: Any) -> TensorType:
    if acc.dtype not in (I32, I64) or mult.shape != shift.shape or mult.dtype != I32 or shift.dtype != I32:
        raise BuildError(f"requantize wants an i32 or i64 accumulator and equal i32 mult and shift, got {acc.dtype}")
    return TensorType(dtype(out), acc.shape)


def _requantize_ref(
    acc: Array, mult: Array, shift: Array,
    *, out: str, zp: int, lo: int, hi: int, spare: int = 0, halves: str = "even", high: int = 0, **_: Any,
) -> Array:  # fmt: skip
    if high:
        wide = acc.astype(np.int64) * mult + (np.int64(1) << 30)
        tail = (np.int64(1) << (shift.astype(np.int64) - high)) * (2 * zp + 1) - (wide < 0) * (lo < zp)
        return np.asarray(np.clip(((wide >> 31) + tail) >> (shift - high + 1), lo, hi)).astype(dtype(out).numpy)
    if spare and halves == "up":
        right = (spare - 1 - shift).astype(np.int64)
        value = (((acc.astype(np.int64) << spare) * mult >> 32) + (np.int64(1) << (right - 1))) >> right
    elif spare:
        scaled = srdhm((acc.astype(np.int64) << spare).astype(np.int32), mult).astype(np.int64)
        right = (spare - shift).astype(np.int64)
        value = (scaled + ((scaled >> right) & 1) + ((np.int64(1) << (right - 1)) - 1)) >> right
    elif acc.dtype == np.int64:
        value = apply("mulq64", [acc, mult, shift], I32)
    else:
        value = multiply_quantized_ref(acc, mult, shift)
    return np.asarray(np.clip(value.astype(np.int64) + zp, lo, hi)).astype(dtype(out).numpy)


def _requantize(
    acc: ValueExpr, mult: ValueExpr, shift: ValueExpr,
    *, out: str, zp: int, lo: int, hi: int, shift_lo: int, shift_hi: int, acc_bits: int, spare: int = 0,
    halves: str = "even", high: int = 0,
) -> ValueExpr:  # fmt: skip
    if high:
        return saturate(_high_word(acc, mult, shift, high, zp, lo), 0, lo, hi, out)
    if spare and halves == "up":
        return saturate(halves_up(acc, mult, op("sub", imm(spare - 1), shift), spare, zp), 0, lo, hi, out)
    if spare:
        scaled: ValueExpr = _halves_to_even(acc, mult, shift, spare, acc_bits)
    elif acc.dtype.bits == 64:
        scaled = op("mulq64", acc, mult, shift, dtype=I32)
    else:
        scaled = multiply_quantized(acc, mult, shift, shift_lo, shift_hi, acc_bits)
    return saturate(scaled, zp, lo, hi, out)


def halves_up(acc: ValueExpr, mult: ValueExpr, right: ValueExpr, spare: int, zp: int) -> ValueExpr:
    """round(acc * mult * 2**(spare - 32 - right)) + zp, where acc * 2**spare and (2*zp + 1) * 2**right fit 32 bits,
    1 <= right <= 31: the half and the zero point are added to the high word, before the shift; what the low word holds
    cannot change the bits above."""
    tail = op("shl", imm(2 * zp + 1), op("add", right, imm(-1)))
    return op("shr", op("mac_high", op("shl", acc, imm(spare)) if spare else acc, mult, tail), right)


def _halves_to_even(acc: ValueExpr, mult: ValueExpr, shift: ValueExpr, spare: int, acc_bits: int) -> ValueExpr:
    """acc * mult / 2**31 * 2**shift to nearest, halves to even, for shift < spare."""
    high = op("srdhm30" if acc_bits <= 30 else "srdhm", op("shl", acc, imm(spare)), mult)
    right = op("sub", imm(spare), shift)
    odd = op("and", op("shr", high, right), imm(1))
    half = op("add", op("shl", imm(1), op("sub", right, imm(1))), imm(-1))
    return op("shr", op("add", high, op("add", odd, half)), right)


def _high_word(acc: ValueExpr, mult: ValueExpr, right: ValueExpr, bits: int, zp: int, lo: int) -> ValueExpr:
    """acc * mult / 2**(31 - bits + 1 + right) and the zero point, rounded as TensorFlow Lite does.

    What it adds in both of its roundings, and the zero point, stand in the high word already: 2**30 is there
    2**(bits - 2). Halves of negative numbers go away from zero, which is all the same where the clamp ends at zero.
    """
    wide = op("shl", acc, imm(bits))
    tail = op("add", op("shl", imm(2 * zp + 1), op("add", right, imm(-1))), imm(1 << (bits - 2)))
    # a mask of 0 in the one case, so that layers of both kinds differ in a number only
    away = imm(-1 << (bits - 1) if lo < zp else 0)
    tail = op("add", tail, op("and", op("shr", wide, imm(31)), away))
    return op("shr", op("mac_high", wide, mult, tail), right)


def _rescale_infer(x: TensorType, *, out: str, **_: Any) -> TensorType:
    if x.dtype not in (I8, U8, I16):
        raise BuildError(f"rescale wants an i8, u8 or i16 tensor, got {x.dtype}")
    return TensorType(dtype(out), x.shape)


def _rescale_ref(x: Array, *, out: str, in_zp: int, mult: int, shift: int, zp: int, lo: int, hi: int) -> Array:
    value = multiply_quantized_ref(x.astype(np.int32) - in_zp, mult, shift)
    return np.clip(value.astype(np.int64) + zp, lo, hi).astype(dtype(out).numpy)


def _rescale(x: ValueExpr, *, out: str, in_zp: int, mult: int, shift: int, zp: int, lo: int, hi: int) -> ValueExpr:
    bits = x.dtype.bits + 1 + max(shift, 0)
    value = cast(x, I32)
    if in_zp:
        value = op("add", value, imm(-in_zp))
    # a ratio of exactly one needs no arithmetic
    scaled = value if (mult, shift) == (1 << 30, 1) else multiply_quantized_const(value, mult, shift, bits)
    return saturate(scaled, zp, lo, hi, out)


def _mult(size: int) -> Any:
    return lambda rng: rng.integers(1 << 30, (1 << 31) - 1, size)


def _shift(size: int, lo: int, hi: int) -> Any:
    return lambda rng: rng.integers(lo, hi + 1, size)


def _acc(shape: tuple[int, ...], bits: int) -> Any:
    return lambda rng: rng.integers(-(1 << bits) + 1, 1 << bits, shape)


_T = TensorType
_N = Var("n", 1, 9).expr
_I8: Any = {"out": "i8", "zp": -4, "lo": -128, "hi": 127}
_I16: Any = {"out": "i16", "zp": 0, "lo": -32768, "hi": 32767}
_U8: Any = {"out": "u8", "zp": 9, "lo": 0, "hi": 200}

define(
    OpDef(
        "requantize",
        ("acc", "mult", "shift"),
        _requantize_infer,
        _requantize_ref,
        map_elements(("acc", "mult", "shift"), _requantize),
        samples=(
            sample(
                _T(I32, (4, 6)),
                _T(I32, (6,)),
                _T(I32, (6,)),
                values={0: _acc((4, 6), 20), 1: _mult(6), 2: _shift(6, -12, -1)},
                **_I8,
                shift_lo=-12,
                shift_hi=-1,
                acc_bits=20,
            ),
            sample(
                _T(I32, (4, 6)),
                _T(I32, (1,)),
                _T(I32, (1,)),
                values={0: _acc((4, 6), 31), 1: _mult(1), 2: _shift(1, -8, 0)},
                **_I16,
                shift_lo=-8,
                shift_hi=0,
                acc_bits=31,
            ),
            sample(
                _T(I32, (3, 6)),
                _T(I32, (6,)),
                _T(I32, (6,)),
                values={0: _acc((3, 6), 12), 1: _mult(6), 2: _shift(6, -3, 4)},
                **_U8,
                shift_lo=-3,
                shift_hi=4,
                acc_bits=16,
            ),
            sample(
                _T(I32, (3, 6)),
                _T(I32, (6,)),
                _T(I32, (6,)),
                values={0: _acc((3, 6), 16), 1: _mult(6), 2: _shift(6, -9, -3)},
                **_I8,
                shift_lo=-9,
                shift_hi=-3,
                acc_bits=29,
                spare=13,
            ),
            sample(
                _T(I32, (3, 6)),
                _T(I32, (6,)),
                _T(I32, (6,)),
                values={0: _acc((3, 6), 24), 1: _mult(6), 2: _shift(6, -15, 2)},
                **_I8,
                shift_lo=-15,
                shift_hi=2,
                acc_bits=28,
                spare=4,
                halves="up",
            ),
            *(
                sample(
                    _T(I32, (3, 6)),
                    _T(I32, (6,)),
                    _T(I32, (6,)),
                    values={0: _acc((3, 6), 20), 1: _mult(6), 2: _shift(6, 8, 16)},
                    out="i8",
                    zp=zp,
                    lo=-128,
                    hi=127,
                    shift_lo=-9,
                    shift_hi=-1,
                    acc_bits=20,
                    high=8,
                )
                for zp in (-128, 5)
            ),
            sample(
                _T(I64, (1, 3, 2, 6)),
                _T(I32, (6,)),
                _T(I32, (6,)),
                values={0: _acc((1, 3, 2, 6), 40), 1: _mult(6), 2: _shift(6, -27, -20)},
                **_I16,
                shift_lo=-27,
                shift_hi=-20,
                acc_bits=40,
            ),
        ),
        kind=Elementwise(monotone=True),
    )
)
define(
    OpDef(
        "rescale",
        ("x",),
        _rescale_infer,
        _rescale_ref,
        map_elements(("x",), _rescale),
        samples=(
            sample(_T(I8, (1, _N, 3)), **_U8, in_zp=5, mult=1 << 30, shift=1),
            sample(_T(U8, (7,)), **_I8, in_zp=128, mult=1518500250, shift=0),
            sample(_T(I16, (2, _N)), **_I16, in_zp=0, mult=1340353550, shift=-3),
            sample(_T(I8, (2, 5)), **_I16, in_zp=-3, mult=1340353550, shift=6),
        ),
        kind=Elementwise(monotone=True),
    )
)
