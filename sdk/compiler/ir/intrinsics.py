"""The table of value operations: arity, result type, cost and exact meaning in numpy, lane by lane.

Fixed-point rows follow gemmlowp / TensorFlow Lite: ``srdhm`` is SaturatingRoundingDoublingHighMul and ``rdbpot``
RoundingDivideByPOT. A backend declares instructions for it; nothing else in the compiler knows an operation by name
except the rules that introduce it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.loops import Idx, Imm, Op, ValueExpr
from sdk.compiler.ir.types import BOOL, I32, DType
from sdk.compiler.sym import Dim
from sdk.errors import BuildError

__all__ = ["INTRINSICS", "Cost", "Intrinsic", "apply", "cast", "has_meaning", "idx", "imm", "op"]

Array = NDArray[Any]


class Cost(IntEnum):
    """What an operation takes, in additions: it only moves what there is; it adds, compares or converts; it divides,
    takes a root or rescales; it is an exponential or another function of that price."""

    FREE = 0
    CHEAP = 1
    MEDIUM = 8
    DEAR = 20


FREE, CHEAP, MEDIUM, DEAR = Cost


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """One operation. ``result`` is "same" (as the first argument), "bool" or "given" (stated where it is used);
    ``fn(args, dtype)`` computes it on arrays whose last axis holds the lanes (one for scalars)."""

    name: str
    arity: int
    result: str
    cost: Cost
    fn: Callable[[list[Array], DType], Array]


def _wrap(fn: Callable[..., Array]) -> Callable[[list[Array], DType], Array]:
    """Computes integers in 64 bits of their signedness and wraps to the result type; floats in their own type."""

    def run(args: list[Array], dtype: DType) -> Array:
        if dtype.is_float:
            return np.asarray(fn(*args)).astype(dtype.numpy, copy=False)
        wide = np.uint64 if dtype.kind == "u" and dtype.bits == 64 else np.int64
        return np.asarray(fn(*(a.astype(wide) for a in args))).astype(dtype.numpy)

    return run


def _plain(fn: Callable[..., Array]) -> Callable[[list[Array], DType], Array]:
    return lambda args, dtype: np.asarray(fn(*args)).astype(dtype.numpy, copy=False)


def _tdiv(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    quotient = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -quotient, quotient)


def _real(fn: Callable[..., Array]) -> Callable[[list[Array], DType], Array]:
    """A function of real numbers: computed in double precision, then rounded."""

    def run(args: list[Array], dtype: DType) -> Array:
        return np.asarray(fn(*(a.astype(np.float64) for a in args))).astype(dtype.numpy)

    return run


def _erf(x: Array) -> Array:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x), dtype=np.float64)


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, small, 1.0) / (1.0 + small))


def _fmod(a: Array, b: Array) -> Array:
    """What is left of a after whole steps of b, with the sign of a; integers by 0 leave 0."""
    return np.asarray(np.fmod(a, b))


def _cast(args: list[Array], dtype: DType) -> Array:
    """Integers wrap; a float becomes the nearest integer towards zero that the type holds, NaN 0."""
    value = args[0]
    if value.dtype.kind != "f" or dtype.kind not in "iu":
        return value.astype(dtype.numpy)
    lo, hi = dtype.limits
    wide = value.astype(np.float64)
    inside = (wide > lo - 1) & (wide < hi + 1)
    whole = np.where(inside, value, 0).astype(dtype.numpy)
    whole = np.where(wide >= hi, np.array(hi, dtype.numpy), whole)
    return np.asarray(np.where(wide <= lo, np.array(lo, dtype.numpy), whole))


def _bits(args: list[Array], dtype: DType) -> Array:
    """The same bytes as another type of as many."""
    return np.ascontiguousarray(args[0]).view(dtype.numpy)


def srdhm(a: Array, b: Array) -> Array:
    """round(a*b / 2**31), ties to plus infinity, saturated; int32 in and out."""
    wide = a.astype(np.int64) * b.astype(np.int64)
    return np.asarray(np.minimum((wide + (1 << 30)) >> 31, (1 << 31) - 1)).astype(np.int32)


def _mac_high(args: list[Array], _: DType) -> Array:
    a, b, c = (x.astype(np.int64) for x in args)
    return np.asarray(((a * b) >> 32) + c).astype(np.int32)


def rdbpot(x: Array, e: Array) -> Array:
    """x / 2**e rounded to nearest, ties away from zero; int32, 0 <= e <= 31."""
    wide, shift = x.astype(np.int64), e.astype(np.int64)
    mask = (np.int64(1) << shift) - 1
    threshold = (mask >> 1) + (wide < 0)
    return np.asarray((wide >> shift) + ((wide & mask) > threshold)).astype(np.int32)


def _mulq64(args: list[Array], dtype: DType) -> Array:
    """TFLite's MultiplyByQuantizedMultiplier(int64 x, int32 multiplier, shift): 16-bit reduced multiplier."""
    x, mult, shift = (a.astype(np.int64) for a in args)
    reduced = np.where(mult < 0x7FFF0000, (mult + (1 << 15)) >> 16, 0x7FFF)
    total = 15 - shift
    return np.asarray((x * reduced + (np.int64(1) << (total - 1))) >> total).astype(np.int32)


def _fma(args: list[Array], dtype: DType) -> Array:
    """a*b + c, rounded once but for the rounding of doubles."""
    a, b, c = (x.astype(np.float64) for x in args)
    return np.asarray(a * b + c).astype(dtype.numpy)


def _add_halves(args: list[Array], dtype: DType) -> Array:
    """A sum b added to the lower word of a, and b / 2**16 to nearest, halves up, to its upper one; no carry between."""
    a, b = args
    low = (a + b) & 0xFFFFFFFF
    high = (a >> 32) + ((b + (1 << 15)) >> 16)
    return np.asarray(high << 32 | low)


def _clz(a: Array) -> Array:
    value = a.astype(np.int64) & 0xFFFFFFFF
    bits = np.zeros(value.shape, dtype=np.int64)
    for k in range(32):
        bits = np.where(value >> k > 0, k + 1, bits)
    return np.asarray(32 - bits)


def _dot(args: list[Array], dtype: DType) -> Array:
    """acc[l] + sum over the consecutive lanes of group l of a*b."""
    acc, a, b = (x.astype(np.int64) for x in args)
    products = a * b
    groups = products.reshape(*products.shape[:-1], dtype.lanes, -1)
    return np.asarray(acc + groups.sum(axis=-1)).astype(dtype.numpy)


def _dot_lane(args: list[Array], dtype: DType) -> Array:
    """acc[l] + sum over j of a[lane*n + j] * b[l*n + j], n products to a sum."""
    acc, a, b, lane = args
    n, k = b.shape[-1] // dtype.lanes, int(lane.reshape(-1)[0])
    return _dot([acc, np.tile(a[..., k * n : k * n + n], dtype.lanes), b], dtype)


def _dot_2x2(args: list[Array], dtype: DType) -> Array:
    """acc[2*i + j] + sum over k of a[n*i + k] * b[n*j + k], the halves of a and b being rows of n."""
    acc, a, b = (x.astype(np.int64) for x in args)
    rows, columns = (x.reshape(*x.shape[:-1], 2, -1) for x in (a, b))
    sums = np.einsum("...ik,...jk->...ij", rows, columns)
    return np.asarray(acc + sums.reshape(acc.shape)).astype(dtype.numpy)


def _mac_lane(args: list[Array], dtype: DType) -> Array:
    """acc + a[lane]*b[lane]."""
    acc, a, b, lane = (x.astype(np.int64) for x in args)
    k = int(lane.reshape(-1)[0])
    return np.asarray(acc + a[..., k : k + 1] * b[..., k : k + 1]).astype(dtype.numpy)


def _mac_pair(args: list[Array], dtype: DType) -> Array:
    """acc + a[i]*b[j]."""
    acc, a, b, i, j = (x.astype(np.int64) for x in args)
    m, n = int(i.reshape(-1)[0]), int(j.reshape(-1)[0])
    return np.asarray(acc + a[..., m : m + 1] * b[..., n : n + 1]).astype(dtype.numpy)


def _broadcast(args: list[Array], dtype: DType) -> Array:
    """Repeats the argument (one lane or a group of lanes) over the lanes of the result."""
    return np.tile(args[0], dtype.lanes // args[0].shape[-1])


_REAL_FUNCTIONS: Final[dict[str, Callable[..., Array]]] = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "erf": _erf,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}


def _first(args: list[Array], dtype: DType) -> Array:
    """Which lanes are among the first so many."""
    return np.asarray(np.arange(dtype.lanes) < args[0])


def _zip(start: int) -> Callable[[list[Array], DType], Array]:
    """The lanes of one half of the first argument and of the second in turn."""

    def run(args: list[Array], dtype: DType) -> Array:
        half = dtype.lanes // 2
        a, b = (np.broadcast_to(x, (*x.shape[:-1], dtype.lanes))[..., start * half :][..., :half] for x in args)
        return np.stack(np.broadcast_arrays(a, b), axis=-1).reshape(*a.shape[:-1], dtype.lanes)

    return run


def _every_other(start: int) -> Callable[[list[Array], DType], Array]:
    """Every second lane from ``start`` on, as a wider type."""
    return lambda args, dtype: args[0][..., start::2].astype(dtype.numpy)


def _fold(fn: Callable[..., Array]) -> Callable[[list[Array], DType], Array]:
    """All lanes joined in one, by halves."""

    def run(args: list[Array], dtype: DType) -> Array:
        value = args[0]
        while value.shape[-1] > 1:
            half = value.shape[-1] // 2
            value = fn(value[..., :half], value[..., half:])
        return np.asarray(value).astype(dtype.numpy)

    return run


def _rows(*rows: tuple[str, int, str, Cost, Callable[[list[Array], DType], Array]]) -> dict[str, Intrinsic]:
    return {row[0]: Intrinsic(*row) for row in rows}


INTRINSICS: Final = _rows(
    # integers wrap, as arrays of their type do
    ("add", 2, "same", CHEAP, _plain(lambda a, b: a + b)),
    ("sub", 2, "same", CHEAP, _plain(lambda a, b: a - b)),
    ("mul", 2, "same", CHEAP, _plain(lambda a, b: a * b)),
    ("tdiv", 2, "same", MEDIUM, _wrap(_tdiv)),  # quotient truncated towards zero, as C
    ("neg", 1, "same", CHEAP, _plain(np.negative)),
    ("min", 2, "same", CHEAP, _plain(np.minimum)),
    ("max", 2, "same", CHEAP, _plain(np.maximum)),
    ("shl", 2, "same", CHEAP, _wrap(lambda a, b: a << b)),
    ("shr", 2, "same", CHEAP, _wrap(lambda a, b: a >> b)),  # arithmetic
    ("and", 2, "same", CHEAP, _plain(lambda a, b: a & b)),
    ("or", 2, "same", CHEAP, _plain(lambda a, b: a | b)),
    ("xor", 2, "same", CHEAP, _plain(lambda a, b: a ^ b)),
    ("lt", 2, "bool", CHEAP, _plain(np.less)),
    ("le", 2, "bool", CHEAP, _plain(np.less_equal)),
    ("gt", 2, "bool", CHEAP, _plain(np.greater)),
    ("ge", 2, "bool", CHEAP, _plain(np.greater_equal)),
    ("eq", 2, "bool", CHEAP, _plain(np.equal)),
    ("ne", 2, "bool", CHEAP, _plain(np.not_equal)),
    ("not", 1, "same", CHEAP, _plain(np.logical_not)),
    ("isnan", 1, "bool", CHEAP, _plain(np.isnan)),
    ("isinf", 1, "bool", CHEAP, _plain(np.isinf)),
    ("fma", 3, "same", CHEAP, _fma),  # a*b + c
    ("select", 3, "given", FREE, _plain(np.where)),
    ("cast", 1, "given", CHEAP, _cast),
    ("bits", 1, "given", FREE, _bits),
    ("broadcast", 1, "given", FREE, _broadcast),
    ("first", 1, "given", CHEAP, _first),
    ("zip_lo", 2, "same", CHEAP, _zip(0)),
    ("zip_hi", 2, "same", CHEAP, _zip(1)),
    ("evens", 1, "given", CHEAP, _every_other(0)),
    ("odds", 1, "given", CHEAP, _every_other(1)),
    ("fold_add", 1, "given", CHEAP, _fold(np.add)),
    ("fold_mul", 1, "given", CHEAP, _fold(np.multiply)),
    ("fold_min", 1, "given", CHEAP, _fold(np.minimum)),
    ("fold_max", 1, "given", CHEAP, _fold(np.maximum)),
    ("abs", 1, "same", CHEAP, _wrap(np.abs)),
    ("fmod", 2, "same", MEDIUM, _plain(_fmod)),
    ("floor", 1, "same", CHEAP, _plain(np.floor)),
    ("ceil", 1, "same", CHEAP, _plain(np.ceil)),
    ("trunc", 1, "same", CHEAP, _plain(np.trunc)),
    ("round", 1, "same", CHEAP, _plain(np.rint)),  # halves to even
    ("sqrt", 1, "same", MEDIUM, _real(np.sqrt)),
    ("rsqrt", 1, "same", MEDIUM, _real(lambda x: 1.0 / np.sqrt(x))),
    *((name, 1, "same", DEAR, _real(fn)) for name, fn in _REAL_FUNCTIONS.items()),
    ("pow", 2, "same", DEAR, _real(np.power)),
    ("clz", 1, "same", CHEAP, _wrap(_clz)),
    ("srdhm", 2, "same", MEDIUM, lambda args, _: srdhm(*args)),
    ("srdhm30", 2, "same", MEDIUM, lambda args, _: srdhm(*args)),  # srdhm where |a| < 2**30 is proved
    ("rdbpot", 2, "same", MEDIUM, lambda args, _: rdbpot(*args)),
    ("rdbpot1", 2, "same", MEDIUM, lambda args, _: rdbpot(*args)),  # rdbpot where e >= 1 is proved
    ("rdbpot22", 2, "same", MEDIUM, lambda args, _: rdbpot(*args)),  # rdbpot where 1 <= e <= 22 is proved
    ("mac_high", 3, "same", MEDIUM, _mac_high),  # c + the high word of a*b, which do not leave 32 bits together
    ("mulq64", 3, "given", MEDIUM, _mulq64),
    ("settled", 1, "same", FREE, _plain(lambda a: a)),  # computed before C compilers read what statements after it read
    ("add_halves", 2, "same", CHEAP, _add_halves),
    ("dot", 3, "same", CHEAP, _dot),
    ("dot_small", 3, "same", CHEAP, _dot),  # dot where the sums of groups, and with acc, are in its type
    ("dot_narrow", 3, "same", CHEAP, _dot),  # dot where the last factor is never the least of its type
    ("dot_2x2", 3, "same", CHEAP, _dot_2x2),
    ("dot_lane", 4, "same", CHEAP, _dot_lane),
    ("mac_lane", 4, "same", CHEAP, _mac_lane),
    ("mac_pair", 5, "same", CHEAP, _mac_pair),
)


def _within(lo: int, hi: int) -> Callable[[list[Array], DType], bool]:
    """Whether the last argument lies in lo..hi, both included."""
    return lambda args, dtype: bool(((args[-1] >= lo) & (args[-1] <= hi)).all())


def _shifts(args: list[Array], dtype: DType) -> bool:
    return _within(0, dtype.bits - 1)(args, dtype)


def _high_fits(args: list[Array], dtype: DType) -> bool:
    a, b, c = (x.astype(np.int64) for x in args)
    return bool((np.abs(((a * b) >> 32) + c) < 1 << 31).all())


def _sums_fit(args: list[Array], dtype: DType) -> bool:
    acc, a, b = (x.astype(np.int64) for x in args)
    products = a * b
    sums = products.reshape(*products.shape[:-1], dtype.lanes, -1).sum(axis=-1)
    lo, hi = dtype.limits
    return all(bool(((value >= lo) & (value <= hi)).all()) for value in (sums, sums + acc))


# What is known of the arguments wherever an operation stands; for others it has no meaning.
_KNOWN: Final[dict[str, Callable[[list[Array], DType], bool]]] = {
    "shl": _shifts,
    "shr": _shifts,
    "srdhm30": lambda args, _: bool((np.abs(args[0].astype(np.int64)) < 1 << 30).all()),
    "rdbpot": _within(0, 31),
    "rdbpot1": _within(1, 31),
    "rdbpot22": _within(1, 22),
    "mac_high": _high_fits,
    "dot_small": _sums_fit,
    "dot_narrow": lambda args, _: bool((args[2] != np.iinfo(args[2].dtype).min).all()),
    "add_halves": _within(-(1 << 31), (1 << 31) - (1 << 15) - 1),
}


def has_meaning(name: str, args: list[Array], dtype: DType) -> bool:
    """Whether the arguments are among those that ``name`` is defined for."""
    return name not in _KNOWN or _KNOWN[name](args, dtype)


def apply(name: str, args: list[Array], dtype: DType) -> Array:
    """What ``name`` computes on numpy arrays; never a warning."""
    with np.errstate(all="ignore"):
        return INTRINSICS[name].fn(args, dtype)


def op(name: str, *args: ValueExpr, dtype: DType | None = None) -> Op:
    """An operation with its result type from the table.

    Raises:
        BuildError: unknown name, wrong number of arguments, or a result type that the table wants stated.
    """
    row = INTRINSICS.get(name)
    if row is None or len(args) != row.arity:
        raise BuildError(f"operation {name} with {len(args)} arguments is not in the intrinsic table")
    first = args[0].dtype
    if row.result == "given" and dtype is None:
        raise BuildError(f"operation {name} needs its result type stated")
    return Op(name, args, dtype or (BOOL.with_lanes(first.lanes) if row.result == "bool" else first))


def cast(value: ValueExpr, dtype: DType) -> ValueExpr:
    """``value`` converted to ``dtype`` (wrapping); itself when it has that type."""
    if value.dtype == dtype:
        return value
    if isinstance(value, Imm) and dtype.lanes == 1 and not dtype.is_float and isinstance(value.value, int):
        lo, hi = dtype.limits
        if lo <= value.value <= hi:
            return Imm(value.value, dtype)
    return Op("cast", (value,), dtype)


def imm(value: int | float, dtype: DType = I32) -> Imm:
    """A literal."""
    return Imm(value, dtype)


def idx(dim: Dim) -> ValueExpr:
    """An index expression as an i32 value."""
    return Imm(dim, I32) if isinstance(dim, int) else Idx(dim, I32)
