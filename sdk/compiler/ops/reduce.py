"""Reductions over axes, which stay as axes of extent 1: sums, products, means, extremes.

``reduce_sum`` of i8 or i16 is their sum as i32, each raised by ``x_offset`` first: what a quantised mean is made of.
Means of integers are of their exact sum, rounded to zero; half floats are summed in single precision. NaN spreads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import cast, op
from sdk.compiler.ir.loops import Alloc, Buffer, Load, Loops, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import BOOL, F16, F32, F64, I8, I16, I32, I64, U8, DType, TensorType
from sdk.compiler.ops.build import function, loop, nest, param, variable
from sdk.compiler.ops.conv import shifted
from sdk.compiler.ops.numerics import compute_type, count, number, single, widened
from sdk.compiler.ops.registry import OpDef, Sample, define, sample
from sdk.compiler.ops.traits import AxisRole, Combine, Reduction
from sdk.compiler.sym import Dim, Var, dmax, max_value, product
from sdk.errors import BuildError

__all__ = ["RULES", "Rule"]

Array = NDArray[Any]
BYTES_IN_32_BITS: Final = 1 << 23  # whose sum 32 bits hold


@dataclass(frozen=True)
class Rule:
    """A reduction: where it starts in a type, the operation that takes one more element, its numpy, its types."""

    start: Callable[[DType], float]
    step: Callable[[DType], str]
    fold: Callable[..., Array]
    kinds: str
    combine: Combine


def _minimum(kind: DType) -> float:
    return -math.inf if kind.is_float else kind.limits[0]


def _maximum(kind: DType) -> float:
    return math.inf if kind.is_float else kind.limits[1]


def _zero(kind: DType) -> float:
    return 0


RULES: Mapping[str, Rule] = {
    "reduce_sum": Rule(_zero, lambda kind: "add", np.add.reduce, "fiu", Combine.SUM),
    "reduce_mean": Rule(_zero, lambda kind: "add", np.add.reduce, "fiu", Combine.MEAN),
    "reduce_prod": Rule(lambda kind: 1, lambda kind: "mul", np.multiply.reduce, "fiu", Combine.PRODUCT),
    "reduce_max": Rule(_minimum, lambda kind: "or" if kind == BOOL else "max", np.maximum.reduce, "fiub", Combine.MAX),
    "reduce_min": Rule(_maximum, lambda kind: "and" if kind == BOOL else "min", np.minimum.reduce, "fiub", Combine.MIN),
}


def _sum_type(name: str, kind: DType) -> DType:
    """The element type of the result."""
    return I32 if name == "reduce_sum" and kind in (I8, I16) else kind


def _infer(name: str) -> Callable[..., TensorType]:
    def infer(x: TensorType, *, axes: Any, x_offset: int = 0) -> TensorType:
        if sorted(set(axes)) != list(axes) or any(not 0 <= k < x.rank for k in axes):
            raise BuildError(f"{name} wants ascending axes of a tensor of rank {x.rank}, got {axes}")
        if x.dtype.kind not in RULES[name].kinds or (x_offset and x.dtype not in (I8, I16)):
            raise BuildError(f"{name} is not defined on {x.dtype}" + (" with an offset" if x_offset else ""))
        shape = tuple(1 if k in axes else d for k, d in enumerate(x.shape))
        return TensorType(_sum_type(name, x.dtype), shape)

    return infer


def _reference(name: str) -> Callable[..., Array]:
    rule = RULES[name]

    def run(x: Array, *, axes: Any, x_offset: int = 0) -> Array:
        kind = DType({"b": "b", "f": "f", "i": "i", "u": "u"}[x.dtype.kind], 1 if x.dtype == bool else x.itemsize * 8)
        start = np.asarray(rule.start(kind), x.dtype) if kind.is_float or rule.kinds == "fiub" else None
        wide = x if start is not None else x.astype(np.int64 if kind.kind == "i" else np.uint64) + x_offset
        found = rule.fold(wide, axis=tuple(axes), keepdims=True, **({"initial": start} if start is not None else {}))
        if rule.combine is Combine.MEAN:
            size = math.prod(x.shape[k] for k in axes)
            found = found / x.dtype.type(size) if kind.is_float else _truncated(found, size)
        return np.asarray(found).astype(_sum_type(name, kind).numpy)

    return run


def _total_type(name: str, kind: DType, size: Dim) -> DType:
    """The type of the accumulator of ``size`` elements: of a mean of integers one that holds their exact sum."""
    if RULES[name].combine is not Combine.MEAN or kind.is_float:
        return compute_type(kind)
    most = max_value(size)
    narrow = kind.bits == 8 and most is not None and most <= BYTES_IN_32_BITS
    return DType(kind.kind, 32 if narrow else 64)


def _truncated(total: Array, size: int) -> Array:
    return np.asarray(np.sign(total) * (np.abs(total) // max(size, 1)))


def _loops(name: str) -> Callable[..., Loops]:
    rule = RULES[name]

    def build(
        fn: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]
    ) -> Loops:
        """Every result { acc = start; reduced axes { acc = step(acc, x) } o = acc }; reduced axes are kept as 1."""
        x, out, over = types[0], outs[0], nest(outs[0].shape)
        size = product(tuple(x.shape[k] for k in given["axes"]))
        kind = _total_type(name, out.dtype, size)
        inner = {k: variable(f"r{k}", x.shape[k]) for k in given["axes"]}
        source: list[Dim] = [inner[k].expr if k in inner else i for k, i in enumerate(over.index)]
        acc = Load("acc", (), kind)
        element: ValueExpr = Load("x", tuple(source), x.dtype)
        offset = given.get("x_offset", 0)
        term = shifted(element, offset, kind) if kind == I32 else cast(widened(element), kind)
        step: Stmt = Store("acc", (), op(rule.step(kind), acc, term))
        for k, var in reversed(inner.items()):
            step = loop(var, x.shape[k], step)
        # no integer is divided by 0 where an axis may be empty
        parts = count(size if kind.is_float else dmax(size, 1), kind)
        result = op("tdiv", acc, parts) if rule.combine is Combine.MEAN else acc
        body = over.around(
            Alloc(Buffer("acc", kind, (), "register")),
            Store("acc", (), number(rule.start(kind), kind)),
            step,
            Store("o", over.index, cast(result, out.dtype)),
        )
        return function(fn, [param("x", x), param("o", out, "write")], [body], over.rows)

    return build


_T = TensorType
_N: Dim = Var("n", 1, 6).expr
_OFFSETS = (
    sample(_T(I8, (1, 5, 4, 3)), axes=(1, 2), x_offset=128),
    sample(_T(I8, (_N, 4)), axes=(1,), x_offset=0),
    sample(_T(I16, (2, _N, 3)), axes=(0, 1), x_offset=0),
)


def _small(rng: np.random.Generator) -> Array:
    return rng.integers(0, 4, (3, 4))


def _large(kind: DType, rng: np.random.Generator) -> Array:
    """A row near each end of an integer type."""
    lo, hi = kind.limits
    return np.stack([rng.integers(lo, lo // 2 + 1, 700), rng.integers(hi // 2, hi, 700)])


def _with_nan(rng: np.random.Generator) -> Array:
    return np.where(rng.random((5, 6)) < 0.1, np.nan, rng.standard_normal((5, 6)))


_FLOATS = (
    sample(_T(F32, (_N, 5)), axes=(1,)),
    sample(_T(F32, (2, _N, 4)), axes=(0, 2)),
    sample(_T(F32, (3, _N)), axes=(1,)),
    sample(_T(F32, (_N, 4)), axes=(0,)),
    sample(_T(F32, (2, 3)), axes=()),
    sample(_T(F32, (5, 6)), axes=(1,), values={0: _with_nan}),
    sample(_T(F16, (4, 9)), axes=(1,)),
    sample(_T(F64, (4, 9)), axes=(0, 1)),
    *(sample(_T(k, (3, 4)), axes=(1,), values={0: _small}) for k in (I32, I64, U8)),
)


_SUMS_BEYOND_THEIR_TYPE = tuple(
    sample(_T(kind, (2, 700)), axes=(1,), values={0: partial(_large, kind)}) for kind in (I8, U8, I16, I32)
)


def _samples(name: str) -> tuple[Sample, ...]:
    if name == "reduce_sum":
        return (*_OFFSETS, *_FLOATS)
    if name == "reduce_mean":
        return (*_FLOATS, *_SUMS_BEYOND_THEIR_TYPE)
    return (*_FLOATS, sample(_T(BOOL, (_N, 3)), axes=(1,))) if "b" in RULES[name].kinds else _FLOATS


for _name, _rule in RULES.items():
    define(
        OpDef(
            _name,
            ("x",),
            _infer(_name),
            single(_reference(_name)),
            _loops(_name),
            _samples(_name),
            kind=Reduction(_rule.combine),
            axes={"axes": AxisRole.SOME},
        )
    )
