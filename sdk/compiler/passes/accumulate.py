"""Pools over a whole image, in two steps that can take its rows one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sdk.compiler.ir.graph import Call, Node
from sdk.compiler.ir.module import Module
from sdk.compiler.ops.pool_rows import gathered_type
from sdk.compiler.ops.registry import kind_of
from sdk.compiler.ops.traits import OPAQUE, Combine, Reduction
from sdk.compiler.passes.edit import GraphEdit, edit_graphs

__all__ = ["Accumulate"]

# how the rows of a pool are gathered; a mean is divided afterwards
_GATHERED: Final = {Combine.MEAN: "sum", Combine.SUM: "sum", Combine.MAX: "max"}


@dataclass(frozen=True)
class Accumulate:
    """``avg_pool2d(x)`` with one window, the image, is ``pool_result(pool_rows(x))``, and ``reduce_sum(x)`` over it is
    ``pool_rows(x)``: whoever makes the image need not keep its rows."""

    name = "accumulate"

    def run(self, module: Module) -> Module:
        """The module with the pools over whole images of several rows in two steps; itself when it has none."""
        return edit_graphs(module, _rule)


def _rule(edit: GraphEdit, node: Node) -> bool:
    kind = kind_of(node) if isinstance(node, Call) else OPAQUE
    if not isinstance(node, Call) or not isinstance(kind, Reduction):
        return False
    image = node.args[0]
    if edit.uses[image.name] == 1 and edit.made_by(image, "transpose"):
        return False  # a pool reads an image that is only turned where it lies
    if kind.windowed:
        return kind.combine in _GATHERED and _pool(edit, node, kind.combine)
    return kind.combine is Combine.SUM and _sum(edit, node)


def _sum(edit: GraphEdit, node: Call) -> bool:
    """The sum over an image is made as that of a pool; of integers, as sums of floats depend on their order."""
    x = node.args[0].type
    if x.dtype.is_float or x.rank != 4 or x.shape[0] != 1 or node.attr("axes") != (1, 2) or x.shape[1] == 1:
        return False
    offset = dict(node.attrs).get("x_offset", 0)
    if node.outs[0].type.dtype != gathered_type(x.dtype, "sum"):
        return False
    edit.into(node, "pool_rows", node.args, by="sum", x_offset=offset)
    return True


def _pool(edit: GraphEdit, node: Call, combine: Combine) -> bool:
    given: dict[str, Any] = dict(node.attrs)
    batch, *image, _ = node.args[0].type.shape
    kernel: tuple[int, ...] = given["kernel"]
    if batch != 1 or len(kernel) != 2 or image != list(kernel) or kernel[0] < 2 or any(given["pad"]):
        return False
    if any(step != 1 for step in given.get("dilation") or ()):
        return False
    by = _GATHERED[combine]
    kind = node.args[0].type.dtype
    limits = {k: given[k] for k in ("x_offset", "lo", "hi") if given.get(k) is not None}
    count = kernel[0] * kernel[1] if combine is Combine.MEAN else 1
    if count == 1 and not limits and gathered_type(kind, by) == kind:
        edit.into(node, "pool_rows", node.args, by=by)
        return True
    rows = edit.call("pool_rows", node.args, node, f"{node.outs[0].name}_rows", by=by)
    edit.into(node, "pool_result", (rows,), count=count, out=str(kind), **limits)
    return True
