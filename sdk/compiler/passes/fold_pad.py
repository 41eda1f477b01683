"""Explicit padding becomes the padding of the window op that alone would see it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sdk.compiler.ir.graph import Attr, Call, Node
from sdk.compiler.ir.module import Module
from sdk.compiler.ops.registry import kind_of
from sdk.compiler.ops.traits import Combine, Reduction, SumOfProducts
from sdk.compiler.passes.edit import GraphEdit, edit_graphs

__all__ = ["FoldPad"]


@dataclass(frozen=True)
class FoldPad:
    """``conv2d(pad(x))`` is ``conv2d(x)`` with more padding where both read the same value outside the image; likewise
    any sum of products over windows, and maximum pools.

    An average pool counts only what is inside, so its padding is another thing; a maximum pool reads the
    lowest value outside.
    """

    name = "fold-pad"

    def run(self, module: Module) -> Module:
        """The module with explicit padding merged into its consumers."""
        return edit_graphs(module, _rule)


def _rule(edit: GraphEdit, node: Node) -> bool:
    if not isinstance(node, Call) or node.kind != "op":
        return False
    pad = edit.made_by(node.args[0], "pad") if node.args else None
    if pad is None:
        return False
    given: dict[str, Any] = dict(node.attrs)
    pads: Any = pad.attr("pads")
    if dict(pad.attrs).get("mode", "constant") != "constant" or not all(isinstance(n, int) for p in pads for n in p):
        return False
    if min(min(p) for p in pads) < 0 or any(pads[0]) or any(pads[-1]):
        return False
    outside = _outside(node, given, pad.attr("value"))
    if outside is None:
        return False
    more = (*(before for before, _ in pads[1:-1]), *(after for _, after in pads[1:-1]))
    given["pad"] = tuple(a + b for a, b in zip(given["pad"], more, strict=True))
    edit.into(node, node.callee, (pad.args[0], *node.args[1:]), **(given | outside))
    return True


def _outside(node: Call, given: dict[str, Any], value: Attr) -> dict[str, Attr] | None:
    """The attributes by which an op on windows reads ``value`` outside; None where it cannot, or is no such op."""
    stored = node.args[0].type.dtype
    match kind_of(node):
        case Reduction(combine=Combine.MAX, windowed=True):
            lowest = -math.inf if stored.is_float else stored.limits[0]
            return {} if value == lowest and not given.get("ceil") else None
        case SumOfProducts(window=True, partial=False):
            if value == given.get("pad_value", 0):
                return {}
            return None if any(given["pad"]) else {"pad_value": value}
        case _:
            return None
