"""One canonical form for each computation: fewer kinds of kernels, chains of byte functions as one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sdk.compiler.ir.graph import Attr, Call, Node, Value
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import I8, U8, DType, TensorType
from sdk.compiler.ops.registry import get_op, kind_of
from sdk.compiler.ops.traits import Elementwise, SumOfProducts
from sdk.compiler.passes.edit import Array, GraphEdit, edit_graphs
from sdk.compiler.passes.transposed import as_convolution
from sdk.compiler.sym import Dim, product

__all__ = ["Canonicalize"]


@dataclass(frozen=True)
class Canonicalize:
    """Rewrites ops into simpler ones with the same bits.

    A 1x1 convolution stays one: its nest is a contraction already, and keeps the rows that streaming needs.
    """

    name = "canonicalize"

    def run(self, module: Module) -> Module:
        """The module with every rule applied until none does."""
        while (new := edit_graphs(module, self._rule)) is not module:
            module = new
        return module

    def _rule(self, edit: GraphEdit, node: Node) -> bool:
        if not isinstance(node, Call) or node.kind != "op":
            return False
        return any(rule(edit, node) for rule in _RULES.get(node.callee, ())) or _sink(edit, node)


def _depthwise(edit: GraphEdit, node: Call) -> bool:
    """rewrite: ``depthwise_conv2d(x[.., 1], w[kh, kw, o])`` --> ``conv2d(x, w'[o, kh, kw, 1])``."""
    data = edit.data(node.args[1])
    if data is None or node.args[0].type.shape[3] != 1:
        return False
    w = node.args[1]
    moved = edit.const(f"{w.name}_ohwi", np.moveaxis(data, 2, 0)[..., None], w.type.quant, w.type)
    given = {k: v for k, v in node.attrs if k != "multiplier"}
    edit.into(node, "conv2d", (node.args[0], moved, node.args[2]), **given)
    return True


def _dense_rank(edit: GraphEdit, node: Call) -> bool:
    """rewrite: ``dense(x[a, b, k])`` --> ``view(dense(view(x)[a*b, k]))``."""
    x, w, b = node.args
    if x.type.rank <= 2:
        return False
    rows = (product(x.type.shape[:-1]), x.type.shape[-1])
    return _as_matrix(edit, node, rows, w, b, **dict(node.attrs))


def _as_matrix(edit: GraphEdit, node: Call, rows: tuple[Dim, ...], w: Value, b: Value, **given: Attr) -> bool:
    """Puts ``view(dense(view(x)))`` in the place of ``node``, unless an extent is not a number."""
    shape = node.out.type.shape
    if not all(isinstance(d, int) for d in (*rows, *shape)):
        return False
    flat = _view(edit, node, node.args[0], rows)
    total = edit.call("dense", (flat, w, b), node, f"{node.out.name}_rows", **given)
    edit.into(node, "reshape", (total,), shape=_ints(shape))
    return True


def _ints(shape: tuple[Dim, ...]) -> tuple[int, ...]:
    return tuple(d for d in shape if isinstance(d, int))


def _view(edit: GraphEdit, node: Call, value: Value, shape: tuple[Dim, ...]) -> Value:
    return edit.call("reshape", (value,), node, f"{value.name}_rows", shape=_ints(shape))


def _reshape(edit: GraphEdit, node: Call) -> bool:
    """rewrite: ``view(view(x))`` --> ``view(x)``, and ``view(x)`` of its own type --> ``x``."""
    inner = edit.made_by(node.args[0], "reshape")
    source = inner.args[0] if inner is not None else node.args[0]
    if source.type == node.out.type and node.out.name not in edit.results:
        edit.replace(node.out, source)
        return True
    shape = node.out.type.shape
    if inner is None or not all(isinstance(d, int) for d in shape):
        return False
    edit.into(node, "reshape", (source,), shape=_ints(shape))
    return True


def _sink(edit: GraphEdit, node: Call) -> bool:
    """rewrite: ``f(view(sum))`` --> ``view(f(sum))`` for an elementwise ``f``, so that it can be fused into what feeds
    it. What else it reads is a table, or of the last axis, which the view keeps."""
    op = get_op(node.callee)
    view = edit.made_by(node.args[0], "reshape") if isinstance(op.kind, Elementwise) else None
    if view is None or edit.uses[view.out.name] != 1 or any(v.type.rank > 1 for v in op.sources(node.args)[1:]):
        return False
    source = view.args[0]
    maker = edit.made_by(source)
    if maker is None or not isinstance(kind_of(maker), Elementwise | SumOfProducts):
        return False
    shape = node.out.type.shape
    if view.out.type.shape != shape or source.type.shape[-1:] != shape[-1:]:
        return False
    if not all(isinstance(d, int) for d in shape):
        return False
    out = Value(edit.fresh(f"{node.out.name}_rows"), replace(node.out.type, shape=source.type.shape))
    edit.keep(replace(node, outs=(out,), args=(source, *node.args[1:])))
    edit.into(node, "reshape", (out,), shape=_ints(shape))
    return True


def _bytes(kind: DType) -> Array:
    """Every value of a type of 8 bits, lowest first."""
    lo, hi = kind.limits
    return np.arange(lo, hi + 1).astype(kind.numpy)


def _table(edit: GraphEdit, node: Call) -> Array | None:
    """What an op gives for each of the 256 values of its input; None where it is not such an op."""
    if node.args[0].type.dtype not in (I8, U8):
        return None
    rest = [edit.data(v) for v in node.args[1:]]
    if any(a is None for a in rest):
        return None
    found: Array = get_op(node.callee).reference(_bytes(node.args[0].type.dtype), *rest, **dict(node.attrs))
    return found


def _compose(edit: GraphEdit, node: Call) -> bool:
    """rewrite: ``g(f(x))`` --> ``lookup(x, g(f(every byte)))`` where one of f and g is a table already."""
    inner = edit.made_by(node.args[0], "lookup", "rescale")
    if inner is None or edit.uses[inner.out.name] != 1 or "lookup" not in (inner.callee, node.callee):
        return False
    first, second = _table(edit, inner), _table(edit, node)
    if first is None or second is None:
        return False
    entries = second[first.astype(np.int64) - inner.out.type.dtype.limits[0]]
    table = edit.const(f"{node.out.name}_table", entries, None, TensorType(node.out.type.dtype, (256,)))
    edit.into(node, "lookup", (inner.args[0], table))
    return True


Rule = Callable[[GraphEdit, Call], bool]
_RULES: dict[str, tuple[Rule, ...]] = {
    "conv_transpose2d": (as_convolution,),
    "depthwise_conv2d": (_depthwise,),
    "dense": (_dense_rank,),
    "reshape": (_reshape,),
    "lookup": (_compose,),
    "rescale": (_compose,),
}
