"""Movements of data that need not happen: views of views, transposes of transposes, parts that are the whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sdk.compiler.ir.graph import Attr, Call, Node, Value
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import TensorType
from sdk.compiler.ops.registry import infer, kind_of
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.ops.traits import Elementwise
from sdk.compiler.passes.edit import GraphEdit, edit_graphs
from sdk.compiler.sym import Dim, prove_eq
from sdk.errors import BuildError

__all__ = ["SimplifyGraph"]


@dataclass(frozen=True)
class SimplifyGraph:
    """Drops calls that change nothing, joins movements that follow one another, and lets a matrix product read a
    transposed operand as it lies. A value that an entry returns keeps the call that makes it."""

    name = "simplify-graph"

    def run(self, module: Module) -> Module:
        """The module with every rule applied until none does."""
        while (new := edit_graphs(module, _rule)) is not module:
            module = new
        return module


def _rule(edit: GraphEdit, node: Node) -> bool:
    if not isinstance(node, Call) or node.kind != "op":
        return False
    if any(rule(edit, node) for rule in _RULES.get(node.callee, ())):
        return True
    return isinstance(kind_of(node), Elementwise) and _broadcast(edit, node)


def _same_type(a: TensorType, b: TensorType) -> bool:
    same = a.dtype == b.dtype and a.quant == b.quant and a.rank == b.rank
    return same and all(map(same_extent, a.shape, b.shape))


def _drop(edit: GraphEdit, node: Call) -> bool:
    """``x`` in the place of the result, where it is no result of the graph."""
    if node.out.name in edit.results:
        return False
    edit.replace(node.out, node.args[0])
    return True


def _identity(edit: GraphEdit, node: Call) -> bool:
    """rewrite: ``reshape(x)``, ``broadcast_to(x)``, ``cast(x)`` of its own type --> ``x``."""
    return _same_type(node.args[0].type, node.out.type) and _drop(edit, node)


def _view(edit: GraphEdit, node: Call, source: Value) -> bool:
    """A view of ``source`` in the place of ``node``; not with an extent of 0, which a reshape reads otherwise."""
    shape = node.out.type.shape
    if any(isinstance(d, int) and d == 0 for d in shape):
        return False
    edit.into(node, "reshape", (source,), shape=shape)
    return True


def _reshape(edit: GraphEdit, node: Call) -> bool:
    """rewrite: ``reshape(reshape(x))`` --> ``reshape(x)``."""
    inner = edit.made_by(node.args[0], "reshape")
    return inner is not None and _view(edit, node, inner.args[0])


def _transpose(edit: GraphEdit, node: Call) -> bool:
    """rewrite: ``transpose(transpose(x))`` --> ``transpose(x)``; one that changes no order of elements --> a view."""
    perm: Any = node.attr("perm")
    x = node.args[0]
    if list(perm) == list(range(len(perm))):
        return _drop(edit, node)
    inner = edit.made_by(x, "transpose")
    if inner is not None:
        first: Any = inner.attr("perm")
        edit.into(node, "transpose", inner.args, perm=tuple(first[k] for k in perm))
        return True
    long = [k for k in perm if prove_eq(x.type.shape[k], 1) is not True]
    return long == sorted(long) and _view(edit, node, x)


def _slice(edit: GraphEdit, node: Call) -> bool:
    """rewrite: a slice that takes all --> ``x``; ``slice(slice(x))`` --> ``slice(x)``."""
    begin, strides = _dims(node, "begin"), _dims(node, "strides")
    from_start = all(same_extent(b, 0) for b in begin) and all(s == 1 for s in strides)
    if from_start and _same_type(node.args[0].type, node.out.type):
        return _drop(edit, node)
    inner = edit.made_by(node.args[0], "slice")
    if inner is None:
        return False
    start = tuple(a + s * b for a, s, b in zip(_dims(inner, "begin"), _dims(inner, "strides"), begin, strict=True))
    step: Any = tuple(a * b for a, b in zip(_dims(inner, "strides"), strides, strict=True))
    edit.into(node, "slice", inner.args, begin=start, size=node.out.type.shape, strides=step)
    return True


def _dims(node: Call, name: str) -> tuple[Dim, ...]:
    found: Any = node.attr(name)
    return tuple(found)


def _concat(edit: GraphEdit, node: Call) -> bool:
    """rewrite: ``concat(x)`` --> ``x``; operands known to be empty go."""
    axis: Any = node.attr("axis")
    if len(node.args) == 1:
        return _drop(edit, node)
    filled = [a for a in node.args if prove_eq(a.type.shape[axis], 0) is not True]
    if 0 < len(filled) < len(node.args):
        edit.into(node, "concat", filled, axis=axis)
        return True
    return False


def _pad(edit: GraphEdit, node: Call) -> bool:
    """rewrite: a border of nothing --> ``x``."""
    pads: Any = node.attr("pads")
    return all(isinstance(p, int) and p == 0 for pair in pads for p in pair) and _drop(edit, node)


def _broadcast(edit: GraphEdit, node: Call) -> bool:
    """rewrite: ``f(broadcast_to(x), y)`` --> ``f(x, y)`` for f that broadcasts by itself, where the result keeps its
    shape."""
    for k, value in enumerate(node.args):
        inner = edit.made_by(value, "broadcast_to")
        if inner is None:
            continue
        args = (*node.args[:k], inner.args[0], *node.args[k + 1 :])
        if _gives(node, args):
            edit.keep(replace(node, args=args))
            return True
    return False


def _gives(node: Call, args: tuple[Value, ...]) -> bool:
    """Whether the op gives the same types on other arguments."""
    try:
        found = infer(node.callee, [a.type for a in args], node.attrs)
    except BuildError:
        return False
    return all(map(_same_type, found, (o.type for o in node.outs)))


def _matmul(edit: GraphEdit, node: Call) -> bool:
    """rewrite: ``matmul(a, transpose(b))`` --> ``matmul(a, b) {trans_b}``: rows that are read along stay rows.

    A transpose that moves other axes too keeps doing so, but leaves the last one, which is fast.
    """
    for k, flag in enumerate(("trans_a", "trans_b")):
        inner = edit.made_by(node.args[k], "transpose")
        if inner is None:
            continue
        perm: Any = inner.attr("perm")
        rank = len(perm)
        if perm[-2] != rank - 1 or (edit.uses[inner.out.name] != 1 and sorted(perm[:-2]) != list(perm[:-2])):
            continue
        kept = (*perm[:-2], perm[-1], perm[-2])
        source = inner.args[0]
        if list(kept) != list(range(rank)):
            source = edit.call("transpose", (source,), inner, f"{inner.out.name}_rows", perm=kept)
        given: dict[str, Attr] = {name: value for name, value in node.attrs if name != flag}
        if not dict(node.attrs).get(flag, False):
            given[flag] = True
        args = (source, node.args[1]) if k == 0 else (node.args[0], source)
        edit.into(node, "matmul", args, **given)
        return True
    return False


Rule = Callable[[GraphEdit, Call], bool]
_RULES: dict[str, tuple[Rule, ...]] = {
    "broadcast_to": (_identity,),
    "cast": (_identity,),
    "concat": (_concat,),
    "matmul": (_matmul,),
    "pad": (_pad,),
    "reshape": (_identity, _reshape),
    "slice": (_slice,),
    "transpose": (_transpose,),
}
