"""Which known function a chain of elementwise ops computes: found by values, so that no way of writing it is missed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr, Call, Value
from sdk.compiler.ops.registry import get_op, kind_of
from sdk.compiler.ops.traits import Elementwise
from sdk.compiler.passes.edit import GraphEdit

__all__ = ["Curve", "find_curve"]

Array = NDArray[Any]
# One of these is in each function we look for: other chains are not worth trying.
_TELLING: Final = frozenset({"erf", "tanh", "sigmoid", "exp", "softplus", "hard_sigmoid", "clip", "relu", "minimum"})
_MAX_CALLS: Final = 14  # from the last call of a chain back to its source
_MAX_ENTERED: Final = 2 * _MAX_CALLS  # in all branches of it
_GRID: Final = np.concatenate([np.linspace(-12, 12, 96), [-40.0, -20.0, 20.0, 40.0, 1e-3, -1e-3]])


@dataclass(frozen=True)
class Curve:
    """``op(x, **given)``."""

    op: str
    x: Value
    given: Mapping[str, Attr]


_KNOWN: Final[tuple[tuple[str, Mapping[str, Attr]], ...]] = (
    ("gelu", {"tanh": False}),
    ("gelu", {"tanh": True}),
    ("silu", {"alpha": 1.0}),
    ("mish", {}),
    ("softplus", {}),
    ("sigmoid", {}),
    ("hard_swish", {}),
)


def find_curve(edit: GraphEdit, root: Call) -> Curve | None:
    """The known function of one value that ``root`` ends, if its chain of ops computes one.

    The chain is tried on numbers in double precision; equal within what constants in single precision allow, on
    points dense where these functions bend and far out where they are straight, is taken as the same function.
    """
    for x in _sources(edit, root):
        calls = _chain(edit, root, x)
        if calls is None or len(calls) < 2 or not _TELLING & {c.callee for c in calls}:
            continue
        with np.errstate(all="ignore"):
            found = _name(_evaluate(edit, calls, x, root))
        if found is not None:
            return Curve(found[0], x, found[1])
    return None


def _on_numbers(call: Call) -> bool:
    """Whether a call computes reals of reals, element by element: then it does so in double precision as well."""
    kind = kind_of(call)
    computes = isinstance(kind, Elementwise) and not kind.tables and not kind.bitwise
    return computes and all(v.type.dtype == call.out.type.dtype and v.type.dtype.is_float for v in call.args)


def _sources(edit: GraphEdit, root: Call) -> list[Value]:
    """Values of the shape of the result that it may be a function of, nearest first."""
    seen: dict[str, Value] = {}
    front = [root]
    for _ in range(_MAX_CALLS):
        following: list[Call] = []
        for call in front:
            for arg in call.args:
                if arg.const or arg.name in seen or arg.type != root.out.type:
                    continue
                seen[arg.name] = arg
                maker = edit.made_by(arg)
                if maker is not None and _on_numbers(maker):
                    following.append(maker)
        front = following
    return list(seen.values())


def _chain(edit: GraphEdit, root: Call, x: Value) -> list[Call] | None:
    """The calls between ``x`` and ``root``, in order, when nothing else goes in but scalar constants."""
    order: dict[str, Call] = {}
    entered: set[str] = set()  # counted on the way in: a chain as long as the model must not be followed to its end

    def visit(value: Value) -> bool:
        if value.name == x.name or value.name in order or edit.number(value) is not None:
            return True
        call = edit.made_by(value)
        if call is None or not _on_numbers(call) or len(entered) >= _MAX_ENTERED:
            return False
        entered.add(value.name)
        if not all(map(visit, call.args)):
            return False
        order[value.name] = call
        return True

    if not all(map(visit, root.args)):
        return None
    return [*order.values(), root]


def _evaluate(edit: GraphEdit, calls: list[Call], x: Value, root: Call) -> Callable[[Array], Array]:
    def run(points: Array) -> Array:
        values = {x.name: points}

        def value(v: Value) -> Array:
            number = edit.number(v)
            return values[v.name] if number is None else np.asarray(number)

        for call in calls:
            values[call.out.name] = get_op(call.callee).reference(*map(value, call.args), **dict(call.attrs))
        return np.asarray(values[root.out.name])

    return run


def _name(fn: Callable[[Array], Array]) -> tuple[str, Mapping[str, Attr]] | None:
    got = fn(_GRID)
    for op, given in (*_KNOWN, *_swish(fn)):
        wanted = get_op(op).reference(_GRID, **given)
        if np.allclose(got, wanted, rtol=1e-5, atol=2e-6):
            return op, given
    return None


def _swish(fn: Callable[[Array], Array]) -> list[tuple[str, Mapping[str, Attr]]]:
    """x * sigmoid(alpha * x) with the ``alpha`` that its value at 1 means."""
    at_one = float(fn(np.ones(1)).reshape(-1)[0])
    if not 0 < at_one < 1:
        return []
    return [("silu", {"alpha": float(np.float32(math.log(at_one / (1 - at_one))))})]
