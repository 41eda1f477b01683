"""Arithmetic on sizes: what ops do to integer tensors whose elements are dims, some of them no numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.types import dtype
from sdk.compiler.ops import get_op
from sdk.compiler.sym import dmax, dmin, floordiv, prove_ge
from sdk.frontends.builder import SYMBOLIC_LIMIT, Contents, contents_of

__all__ = ["sizes_of"]

Array = NDArray[Any]


def _moved(op: str) -> Callable[..., Any]:
    """Ops that only move elements do so whatever these are."""
    return lambda *arrays, **given: get_op(op).reference(*arrays, **given)


def _each(rule: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda a, b, **_: np.frompyfunc(rule, 2, 1)(a, b)


def _quotient(a: Any, b: Any) -> Any:
    """A quotient cut off, of sizes that are surely not negative by one that is surely not 0."""
    if prove_ge(a, 0) is not True or prove_ge(b, 1) is not True:
        raise ValueError
    return floordiv(a, b)


_RULES: Final[Mapping[str, Callable[..., Any]]] = {
    **{op: _moved(op) for op in ("broadcast_to", "concat", "reshape", "slice", "transpose")},
    "add": _each(lambda a, b: a + b),
    "sub": _each(lambda a, b: a - b),
    "mul": _each(lambda a, b: a * b),
    "div": _each(_quotient),
    "maximum": _each(dmax),
    "minimum": _each(dmin),
    "cast": lambda x, **_: x,
    "gather": lambda x, at, axis: np.take(x, at.astype(np.int64), axis=axis),
    "reduce_prod": lambda x, axes: np.prod(x, axis=tuple(axes), keepdims=True),
    "reduce_sum": lambda x, axes: np.sum(x, axis=tuple(axes), keepdims=True),
}


def sizes_of(op: str, known: Sequence[Contents | None], given: Mapping[str, Any]) -> Contents | None:
    """What ``op`` makes of these contents; None where that is no tensor of integers, numbers and dims, or where one is
    only known at run time."""
    kinds = [k.dtype for k in known if k is not None]
    if op not in _RULES or len(kinds) < len(known) or any(k.kind != "i" for k in kinds):
        return None
    if op == "cast" and given["to"] not in ("i32", "i64"):
        return None
    if any(k is not None and k.array.size > SYMBOLIC_LIMIT for k in known):
        return None
    try:
        found = np.asarray(_RULES[op](*(k.array.astype(np.object_) for k in known if k is not None), **given), object)
    except (TypeError, ValueError, IndexError):
        return None  # no size: it is computed at run time
    kind = dtype(given["to"]) if op == "cast" else kinds[0]
    return contents_of(found.reshape(-1).tolist(), kind, found.shape)
