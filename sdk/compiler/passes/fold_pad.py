"""Explicit padding becomes the padding of the window op that alone would see it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sdk.compiler.ir.graph import Call, Node
from sdk.compiler.ir.module import Module
from sdk.compiler.passes.edit import GraphEdit, edit_graphs

__all__ = ["FoldPad"]


@dataclass(frozen=True)
class FoldPad:
    """``conv2d(pad(x))`` is ``conv2d(x)`` with more padding where both read the same value outside the image.

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
    if node.callee not in ("conv2d", "depthwise_conv2d", "max_pool2d"):
        return False
    kind = node.args[0].type.dtype
    pad = edit.made_by(node.args[0], "pad")
    if pad is None:
        return False
    given: dict[str, Any] = dict(node.attrs)
    pads: Any = pad.attr("pads")
    value = pad.attr("value")
    if dict(pad.attrs).get("mode", "constant") != "constant" or not all(isinstance(n, int) for p in pads for n in p):
        return False
    if len(pads) != 4 or min(min(p) for p in pads) < 0 or any(pads[0]) or any(pads[3]):
        return False
    if node.callee == "max_pool2d":
        if given.get("ceil") or value != (-math.inf if kind.is_float else kind.limits[0]):
            return False
    elif any(given["pad"]) and value != given.get("pad_value", 0):
        return False
    elif value != given.get("pad_value", 0):
        given["pad_value"] = value
    top, left, bottom, right = given["pad"]
    (above, below), (before, after) = pads[1], pads[2]
    given["pad"] = (top + above, left + before, bottom + below, right + after)
    edit.into(node, node.callee, (pad.args[0], *node.args[1:]), **given)
    return True
