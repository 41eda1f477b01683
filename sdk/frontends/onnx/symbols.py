"""Arithmetic on sizes: nodes whose inputs are all known at import, some as symbolic dims, become dims again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import BOOL, DType
from sdk.compiler.sym import Dim, Expr, bounds, ceildiv, dmax, dmin, floordiv, mod, prove_eq, prove_ge, prove_lt
from sdk.frontends.builder import SYMBOLIC_LIMIT, Contents, Ratio, contents_of
from sdk.frontends.onnx.context import OnnxNode
from sdk.frontends.onnx.reader import element_type

__all__ = ["fold_sizes"]

Array = NDArray[Any]
EXACT = 1 << 24  # integers below are exact in 32-bit floats, and so are floors of their quotients
MAX_DENOMINATOR = 1 << 10


class _Unknown(Exception):
    """The result depends on values of symbols in a way that is no dim."""


def fold_sizes(node: OnnxNode) -> Value | None:
    """The node's result as contents known at import, or None when it is not arithmetic on known sizes."""
    rule = _RULES.get(node.op)
    if rule is None or not node.count:
        return None
    given = [node.contents(k) for k in range(node.count)]
    if any(c is None and node.given_input(k) for k, c in enumerate(given)):
        return None
    known = [c for c in given if c is not None]
    if any(c.array.size > SYMBOLIC_LIMIT for c in known):
        return None
    if all(c.numbers is not None for c in known) and any(c.dtype.is_float for c in known):
        return None
    try:
        found = rule(node, [_objects(c) if c is not None else None for c in given])
    except (_Unknown, IndexError, ValueError, ZeroDivisionError, OverflowError):
        return None  # the converter says what is wrong, or computes it at run time
    if found is None or found.array.size > SYMBOLIC_LIMIT:
        return None
    return node.known(found)


@dataclass(frozen=True)
class _Sizes:
    """An operand: its elements as Python objects."""

    dtype: DType
    array: Array


def _objects(contents: Contents) -> _Sizes:
    return _Sizes(contents.dtype, contents.array.astype(np.object_))


Given = Sequence[_Sizes | None]
Rule = Callable[[OnnxNode, Given], Contents | None]


def _first(given: Given, k: int = 0) -> _Sizes:
    found = given[k] if k < len(given) else None
    if found is None:
        raise _Unknown
    return found


def _numbers(given: Given, k: int) -> tuple[int, ...] | None:
    """Operand ``k`` as plain integers; None when it is left out."""
    found = given[k] if k < len(given) else None
    if found is None:
        return None
    flat = found.array.reshape(-1).tolist()
    if not all(isinstance(v, int) for v in flat):
        raise _Unknown
    return tuple(flat)


def _make(array: Any, dtype: DType) -> Contents:
    array = np.asarray(array, dtype=np.object_)
    return contents_of(array.reshape(-1).tolist(), dtype, array.shape)


# -- elements -----------------------------------------------------------------------------------------------------


def _dim(value: Any) -> Dim:
    if isinstance(value, (bool, int)):
        return int(value)
    if isinstance(value, Expr):
        return value
    raise _Unknown


def _ratio(value: Any) -> Ratio:
    """A size or a number as an exact quotient."""
    if isinstance(value, Ratio):
        return value
    if isinstance(value, float):
        exact = Fraction(value)
        if exact.denominator > MAX_DENOMINATOR:
            raise _Unknown
        return Ratio(exact.numerator, exact.denominator)
    return Ratio(_dim(value), 1)


def _exact(ratio: Ratio) -> Ratio:
    """The quotient, if floats hold it (or its floor) without error."""
    lo, hi = bounds(ratio.num)
    if lo is None or hi is None or max(-lo, hi) >= EXACT or ratio.den >= EXACT:
        raise _Unknown
    return ratio


def _fractional(a: Any, b: Any) -> bool:
    return isinstance(a, (float, Ratio)) or isinstance(b, (float, Ratio))


def _add(a: Any, b: Any) -> Any:
    if _fractional(a, b):
        x, y = _ratio(a), _ratio(b)
        return _exact(Ratio(x.num * y.den + y.num * x.den, x.den * y.den))
    return _dim(a) + _dim(b)


def _sub(a: Any, b: Any) -> Any:
    if _fractional(a, b):
        y = _ratio(b)
        return _add(a, Ratio(-y.num, y.den))
    return _dim(a) - _dim(b)


def _mul(a: Any, b: Any) -> Any:
    if _fractional(a, b):
        x, y = _ratio(a), _ratio(b)
        return _exact(Ratio(x.num * y.num, x.den * y.den))
    return _dim(a) * _dim(b)


def _nonnegative(a: Dim) -> Dim:
    if prove_ge(a, 0) is not True:
        raise _Unknown
    return a


def _positive(a: Dim) -> Dim:
    if prove_ge(a, 1) is not True:
        raise _Unknown
    return a


def _div(a: Any, b: Any) -> Any:
    """Quotient of floats; of integers rounded to zero, where the signs are known."""
    if _fractional(a, b):
        x, y = _ratio(a), _ratio(b)
        if not isinstance(y.num, int) or y.num <= 0:
            raise _Unknown
        return _exact(Ratio(x.num * y.den, x.den * y.num))
    top, bottom = _dim(a), _dim(b)
    if isinstance(top, int) and isinstance(bottom, int):
        return abs(top) // abs(bottom) * (1 if (top < 0) == (bottom < 0) else -1)
    return floordiv(_nonnegative(top), _positive(bottom))


def _mod(a: Any, b: Any) -> Any:
    return mod(_dim(a), _positive(_dim(b)))


def _min(a: Any, b: Any) -> Any:
    return dmin(_dim(a), _dim(b))


def _max(a: Any, b: Any) -> Any:
    return dmax(_dim(a), _dim(b))


def _told(answer: bool | None) -> bool:
    if answer is None:
        raise _Unknown
    return answer


def _compare(proof: Callable[[Dim, Dim], bool | None]) -> Callable[[Any, Any], bool]:
    def one(a: Any, b: Any) -> bool:
        return _told(_both_ways(proof, _dim(a), _dim(b)))

    return one


def _both_ways(proof: Callable[[Dim, Dim], bool | None], a: Dim, b: Dim) -> bool | None:
    """True or False where it holds for every value of the symbols, or for none."""
    if proof is prove_eq:
        if prove_eq(a, b) is True:
            return True
        return False if prove_lt(a, b) is True or prove_lt(b, a) is True else None
    if proof is prove_lt:
        return True if prove_lt(a, b) is True else (False if prove_ge(a, b) is True else None)
    return True if prove_ge(a, b) is True else (False if prove_lt(a, b) is True else None)


def _elementwise(fn: Callable[..., Any], out: DType | None = None) -> Rule:
    def rule(_: OnnxNode, given: Given) -> Contents:
        operands = [_first(given, k) for k in range(len(given))]
        whole = np.broadcast_arrays(*(o.array for o in operands))
        if len(whole) == 1:
            flat = [fn(v) for v in whole[0].reshape(-1).tolist()]
        else:
            flat = [_fold(fn, values) for values in zip(*(w.reshape(-1).tolist() for w in whole), strict=True)]
        return contents_of(flat, out or operands[0].dtype, whole[0].shape)

    return rule


def _fold(fn: Callable[..., Any], values: Sequence[Any]) -> Any:
    result = values[0]
    for value in values[1:]:
        result = fn(result, value)
    return result


def _floor(value: Any) -> Any:
    ratio = _ratio(value)
    return Ratio(floordiv(ratio.num, ratio.den), 1)


def _ceil(value: Any) -> Any:
    ratio = _ratio(value)
    return Ratio(ceildiv(ratio.num, ratio.den), 1)


def _flip(value: Any) -> bool:
    return not value


# -- whole tensors ------------------------------------------------------------------------------------------------


def _cast(node: OnnxNode, given: Given) -> Contents | None:
    x = _first(given)
    kind = element_type(int(node.int("to", 0))) if node.op == "Cast" else _first(given, 1).dtype
    if kind is None:
        return None
    if kind.is_float:
        if kind.bits < 32:
            return None
        return contents_of([_exact(_ratio(v)) for v in x.array.reshape(-1).tolist()], kind, x.array.shape)
    return contents_of([_integer(v, kind) for v in x.array.reshape(-1).tolist()], kind, x.array.shape)


def _integer(value: Any, kind: DType) -> Dim:
    """A size or an exact quotient as an integer of ``kind``, rounded to zero."""
    if isinstance(value, float):
        return int(value)
    ratio = _ratio(value)
    found = ratio.num if ratio.den == 1 else floordiv(_nonnegative(ratio.num), ratio.den)
    if kind == BOOL:
        return int(not _told(_both_ways(prove_eq, found, 0)))
    lo, hi = bounds(found)
    if lo is None or hi is None or lo < kind.limits[0] or hi > kind.limits[1]:
        raise _Unknown
    return found


def _gather(node: OnnxNode, given: Given) -> Contents:
    x, at = _first(given), _first(given, 1)
    _numbers(given, 1)
    axis = node.axis(node.int("axis", 0), x.array.ndim)
    return _make(np.take(x.array, at.array.astype(np.int64), axis=axis), x.dtype)


def _concat(node: OnnxNode, given: Given) -> Contents:
    parts = [_first(given, k) for k in range(len(given))]
    return _make(np.concatenate([p.array for p in parts], axis=node.int("axis", 0)), parts[0].dtype)


def _slice(node: OnnxNode, given: Given) -> Contents:
    x = _first(given)
    if node.opset < 10:
        starts, ends, axes = node.ints("starts", ()), node.ints("ends", ()), node.ints("axes", None)
        steps = None
    else:
        starts, ends, axes, steps = (_numbers(given, k) for k in (1, 2, 3, 4))
    if starts is None or ends is None:
        raise _Unknown
    where: list[slice] = [slice(None)] * x.array.ndim
    chosen = range(len(starts)) if axes is None else axes
    for axis, lo, hi, step in zip(chosen, starts, ends, steps or [1] * len(starts), strict=True):
        size = x.array.shape[node.axis(axis, x.array.ndim)]
        where[axis] = slice(lo, None if step < 0 and hi < -size else hi, step)
    return _make(x.array[tuple(where)], x.dtype)


def _axes(node: OnnxNode, given: Given, since: int) -> tuple[int, ...] | None:
    if node.opset >= since:
        return _numbers(given, 1)
    found: tuple[int, ...] | None = node.ints("axes", None)
    return found


def _squeeze(node: OnnxNode, given: Given) -> Contents:
    x = _first(given)
    return _make(np.squeeze(x.array, axis=_axes(node, given, 13)), x.dtype)


def _unsqueeze(node: OnnxNode, given: Given) -> Contents:
    x = _first(given)
    return _make(np.expand_dims(x.array, _axes(node, given, 13) or ()), x.dtype)


def _reshape(node: OnnxNode, given: Given) -> Contents:
    x, shape = _first(given), _numbers(given, 1)
    if shape is None:
        raise _Unknown
    wanted = [x.array.shape[k] if d == 0 and not node.int("allowzero", 0) else d for k, d in enumerate(shape)]
    return _make(x.array.reshape(wanted), x.dtype)


def _flatten(node: OnnxNode, given: Given) -> Contents:
    x = _first(given)
    axis = node.int("axis", 1) % (x.array.ndim or 1)
    return _make(x.array.reshape(int(np.prod(x.array.shape[:axis], dtype=np.int64)), -1), x.dtype)


def _expand(_: OnnxNode, given: Given) -> Contents:
    x, shape = _first(given), _numbers(given, 1)
    if shape is None or int(np.prod(shape, dtype=object)) > SYMBOLIC_LIMIT:
        raise _Unknown
    return _make(np.broadcast_to(x.array, np.broadcast_shapes(x.array.shape, shape)), x.dtype)


def _tile(_: OnnxNode, given: Given) -> Contents:
    x, counts = _first(given), _numbers(given, 1)
    if counts is None or int(np.prod(counts, dtype=object)) * x.array.size > SYMBOLIC_LIMIT:
        raise _Unknown
    return _make(np.tile(x.array, counts), x.dtype)


def _range(_: OnnxNode, given: Given) -> Contents:
    start, limit, step = (_numbers(given, k) for k in (0, 1, 2))
    if start is None or limit is None or step is None:
        raise _Unknown
    found = range(start[0], limit[0], step[0])
    if len(found) > SYMBOLIC_LIMIT:
        raise _Unknown
    return contents_of(list(found), _first(given).dtype, (len(found),))


def _where(_: OnnxNode, given: Given) -> Contents:
    cond, a, b = _first(given), _first(given, 1), _first(given, 2)
    _numbers(given, 0)
    return _make(np.where(cond.array.astype(np.bool_), a.array, b.array), a.dtype)


def _reduce(fn: Callable[[Any, Any], Any], start: Any, since: int) -> Rule:
    def rule(node: OnnxNode, given: Given) -> Contents | None:
        x, axes = _first(given), _axes(node, given, since)
        if x.array.ndim != 1 or ((axes is None or not axes) and node.int("noop_with_empty_axes", 0)):
            return None
        values = x.array.tolist()
        if start is None and not values:
            return None
        total = _fold(fn, values if start is None else [start, *values])
        return contents_of([total], x.dtype, (1,) if node.int("keepdims", 1) else ())

    return rule


def _negate(value: Any) -> Any:
    return _sub(0, value)


def _absolute(value: Any) -> Any:
    return _nonnegative(_dim(value))


_RULES: Final[dict[str, Rule]] = {
    "Abs": _elementwise(_absolute),
    "Add": _elementwise(_add),
    "And": _elementwise(lambda a, b: bool(a) and bool(b)),
    "Cast": _cast,
    "CastLike": _cast,
    "Ceil": _elementwise(_ceil),
    "Concat": _concat,
    "Div": _elementwise(_div),
    "Equal": _elementwise(_compare(prove_eq), BOOL),
    "Expand": _expand,
    "Flatten": _flatten,
    "Floor": _elementwise(_floor),
    "Gather": _gather,
    "Greater": _elementwise(lambda a, b: _compare(prove_lt)(b, a), BOOL),
    "GreaterOrEqual": _elementwise(_compare(prove_ge), BOOL),
    "Less": _elementwise(_compare(prove_lt), BOOL),
    "LessOrEqual": _elementwise(lambda a, b: _compare(prove_ge)(b, a), BOOL),
    "Max": _elementwise(_max),
    "Min": _elementwise(_min),
    "Mod": _elementwise(_mod),
    "Mul": _elementwise(_mul),
    "Neg": _elementwise(_negate),
    "Not": _elementwise(_flip),
    "Or": _elementwise(lambda a, b: bool(a) or bool(b)),
    "Range": _range,
    "ReduceMax": _reduce(_max, None, 18),
    "ReduceMin": _reduce(_min, None, 18),
    "ReduceProd": _reduce(_mul, 1, 18),
    "ReduceSum": _reduce(_add, 0, 13),
    "Reshape": _reshape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Sub": _elementwise(_sub),
    "Tile": _tile,
    "Transpose": lambda node, given: _make(
        np.transpose(_first(given).array, node.ints("perm", None)), _first(given).dtype
    ),
    "Unsqueeze": _unsqueeze,
    "Where": _where,
}
