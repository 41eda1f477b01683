"""Finds softmax, normalisations and activations in the small ops that exporters break them into."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from sdk.compiler.ir.graph import Call, Node, Value
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import TensorType
from sdk.compiler.passes.edit import GraphEdit, edit_graphs
from sdk.compiler.passes.probe import find_curve
from sdk.compiler.sym import product

__all__ = ["Recognize"]

_NORMS = ("layer_norm", "rms_norm")


@dataclass(frozen=True)
class Recognize:
    """The last op of a pattern becomes one call of an op; what only the pattern used is left for ``cleanup``.

    Rows are the last axis. ``softmax``, ``log_softmax``, ``layer_norm``, ``rms_norm`` by their structure, functions
    of one value (``gelu``, ``silu``, ``mish`` …) by their values.
    """

    name = "recognize"

    def run(self, module: Module) -> Module:
        """The module with every pattern as one call."""
        return edit_graphs(module, _rule)


def _rule(edit: GraphEdit, node: Node) -> bool:
    if not isinstance(node, Call) or node.kind != "op" or len(node.outs) != 1 or not node.out.type.dtype.is_float:
        return False
    return any(rule(edit, node) for rule in _RULES.get(node.callee, ()))


# --- values ----------------------------------------------------------------------------------------------------


def _alike(edit: GraphEdit, a: Value, b: Value, depth: int = 4) -> bool:
    """Whether two values are computed alike."""
    if a == b:
        return True
    first, second = edit.made_by(a), edit.made_by(b)
    if first is None or second is None or depth == 0 or len(first.outs) != 1:
        return False
    if (first.callee, first.attrs, len(first.args)) != (second.callee, second.attrs, len(second.args)):
        return False
    return all(_alike(edit, x, y, depth - 1) for x, y in zip(first.args, second.args, strict=True))


def _swapped(call: Call) -> Iterator[tuple[Value, Value]]:
    """The arguments of a commutative op, both ways."""
    a, b = call.args
    yield a, b
    yield b, a


def _over_row(edit: GraphEdit, value: Value, op: str) -> Value | None:
    """What ``value`` is a reduction of the rows of."""
    call = edit.made_by(value, op)
    if call is None or dict(call.attrs)["axes"] != (call.args[0].type.rank - 1,):
        return None
    return call.args[0]


def _square(edit: GraphEdit, value: Value) -> Value | None:
    """What ``value`` is the square of."""
    call = edit.made_by(value, "mul", "pow")
    if call is None:
        return None
    a, b = call.args
    if call.callee == "pow":
        return a if edit.number(b) == 2 else None
    return a if _alike(edit, a, b) else None


def _centred(edit: GraphEdit, value: Value) -> Value | None:
    """x where ``value`` is x less the mean of its row."""
    call = edit.made_by(value, "sub")
    mean = _over_row(edit, call.args[1], "reduce_mean") if call is not None else None
    if call is None or mean is None:
        return None
    return call.args[0] if _alike(edit, mean, call.args[0]) else None


# --- normalisations --------------------------------------------------------------------------------------------


def _by_root(edit: GraphEdit, node: Call) -> Iterator[tuple[Value, Value]]:
    """(n, v) where ``node`` is n / sqrt(v), however that is written."""
    if node.callee == "div":
        root = edit.made_by(node.args[1], "sqrt")
        if root is not None:
            yield node.args[0], root.args[0]
        return
    for n, share in _swapped(node):
        inverse = edit.made_by(share, "rsqrt", "reciprocal", "div")
        if inverse is None:
            continue
        if inverse.callee == "rsqrt":
            yield n, inverse.args[0]
            continue
        if inverse.callee == "div" and edit.number(inverse.args[0]) != 1:
            continue
        root = edit.made_by(inverse.args[-1], "sqrt")
        if root is not None:
            yield n, root.args[0]


def _norm(edit: GraphEdit, node: Call) -> bool:
    """rewrite: ``n / sqrt(mean(n * n) + epsilon)`` --> ``layer_norm(x)`` for n = x - mean(x), else ``rms_norm(n)``."""
    for n, inside in _by_root(edit, node):
        total = edit.made_by(inside, "add")
        for variance, epsilon in _swapped(total) if total is not None else ():
            small = edit.number(epsilon)
            squares = _over_row(edit, variance, "reduce_mean")
            base = _square(edit, squares) if squares is not None else None
            if small is None or base is None or not _alike(edit, base, n) or n.type != node.out.type:
                continue
            x = _centred(edit, n)
            kind = node.out.type
            if x is None:
                edit.into(node, "rms_norm", (n, _line(edit, 1, kind)), epsilon=small)
            else:
                edit.into(node, "layer_norm", (x, _line(edit, 1, kind), _line(edit, 0, kind)), epsilon=small)
            return True
    return False


def _line(edit: GraphEdit, value: int, like: TensorType) -> Value:
    return edit.const("ones" if value else "zeros", np.full(1, value, like.dtype.numpy), None, like)


def _as_line(edit: GraphEdit, node: Call, value: Value) -> Value | None:
    """``value`` as one number per element of a row, when it is that under axes of extent 1."""
    row = node.out.type.shape[-1]
    shape = value.type.shape
    if not shape or len(shape) > node.out.type.rank or shape[-1] != row or product(shape) != row:
        return None
    if len(shape) == 1:
        return value
    return edit.call("reshape", (value,), node, f"{value.name}_line", shape=(row,))


def _take_in(place: int, neutral: int) -> Callable[[GraphEdit, Call], bool]:
    """rewrite: ``norm(x) op line`` --> ``norm(x, line)`` where the norm has none yet."""

    def rule(edit: GraphEdit, node: Call) -> bool:
        for normed, other in _swapped(node):
            norm = edit.made_by(normed, *_NORMS)
            if norm is None or place >= len(norm.args) or edit.uses[normed.name] != 1:
                continue
            if edit.number(norm.args[place]) != neutral or norm.args[place].type.shape != (1,):
                continue
            line = _as_line(edit, node, other) if normed.type == node.out.type else None
            if line is not None:
                args = [*norm.args[:place], line, *norm.args[place + 1 :]]
                edit.into(node, norm.callee, args, **dict(norm.attrs))
                return True
        return False

    return rule


# --- softmax ---------------------------------------------------------------------------------------------------


def _shifted(edit: GraphEdit, value: Value) -> Value | None:
    """x where ``value`` is x less the largest of its row."""
    call = edit.made_by(value, "sub")
    top = _over_row(edit, call.args[1], "reduce_max") if call is not None else None
    return top if call is not None and top is not None and _alike(edit, top, call.args[0]) else None


def _softmax(edit: GraphEdit, node: Call) -> bool:
    """rewrite: ``exp(t) / sum(exp(t))`` --> ``softmax(x)`` for t = x - max(x), else ``softmax(t)``."""
    e = edit.made_by(node.args[0], "exp")
    whole = _over_row(edit, node.args[1], "reduce_sum")
    if e is None or whole is None or not _alike(edit, whole, node.args[0]):
        return False
    t = e.args[0]
    edit.into(node, "softmax", (_shifted(edit, t) or t,))
    return True


def _log_softmax(edit: GraphEdit, node: Call) -> bool:
    """rewrite: ``t - log(sum(exp(t)))`` --> ``log_softmax(x)`` for t = x - max(x), else ``log_softmax(t)``."""
    t, logarithm = node.args[0], edit.made_by(node.args[1], "log")
    whole = _over_row(edit, logarithm.args[0], "reduce_sum") if logarithm is not None else None
    e = edit.made_by(whole, "exp") if whole is not None else None
    if e is None or not _alike(edit, e.args[0], t):
        return False
    edit.into(node, "log_softmax", (_shifted(edit, t) or t,))
    return True


def _log_of_softmax(edit: GraphEdit, node: Call) -> bool:
    """rewrite: ``log(softmax(x))`` --> ``log_softmax(x)``, which keeps small probabilities apart."""
    inner = edit.made_by(node.args[0], "softmax")
    if inner is None:
        return False
    edit.into(node, "log_softmax", inner.args)
    return True


# --- functions of one value ------------------------------------------------------------------------------------


def _curve(edit: GraphEdit, node: Call) -> bool:
    found = find_curve(edit, node)
    if found is None:
        return False
    edit.into(node, found.op, (found.x,), **found.given)
    return True


Rule = Callable[[GraphEdit, Call], bool]
_RULES: dict[str, tuple[Rule, ...]] = {
    "add": (_take_in(2, 0), _curve),
    "div": (_norm, _softmax, _curve),
    "log": (_log_of_softmax, _curve),
    "mul": (_norm, _take_in(1, 1), _curve),
    "reciprocal": (_curve,),
    "sub": (_log_softmax,),
}
