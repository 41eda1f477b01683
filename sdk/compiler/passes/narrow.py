"""Sums of 64 bits that never need them become sums of 32 bits, and their requantisation one upper product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr, Call, Node
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import I32, I64, TensorType
from sdk.compiler.passes.edit import GraphEdit, edit_graphs
from sdk.compiler.passes.fold_offset import channels_first, is_whole_sum

__all__ = ["Narrow"]

Ints = NDArray[np.int64]
_TOP: Final = 0x7FFF  # the largest multiplier of 16 bits


@dataclass(frozen=True)
class Narrow:
    """``requantize(conv2d(x, w, b: i64))`` is ``rescale_sum(conv2d(x, w, b: i32))`` where no sum of these weights and
    biases, of any inputs and in any order, leaves 32 bits, and the requantisation needs no larger ones."""

    name = "narrow"

    def run(self, module: Module) -> Module:
        """The module with narrow sums."""
        return edit_graphs(module, _rule)


def _rule(edit: GraphEdit, node: Node) -> bool:
    if not isinstance(node, Call) or node.callee != "requantize" or node.kind != "op":
        return False
    total = edit.made_by(node.args[0])
    if not is_whole_sum(total) or node.args[0].type.dtype != I64 or edit.uses[node.args[0].name] != 1:
        return False
    scale, weights, start = _scale(edit, node), edit.data(total.args[1]), edit.data(total.args[2])
    if scale is None or weights is None or start is None:
        return False
    mult, shift = scale
    reach = _farthest(total, weights, start)
    spare = max(2 + int(shift.max(initial=-2)), 0)
    right = spare - 1 - shift
    tail = abs(2 * _int(node, "zp") + 1) << max(int(right.max(initial=0)) - 1, 0)  # what joins the high word
    if (reach << spare) > I32.limits[1] or tail > 1 << 30:
        return False
    kind = TensorType(I32, node.args[1].type.shape)
    bias = edit.const(f"{total.args[2].name}_i32", start.astype(np.int32), total.args[2].type.quant, kind)
    acc = edit.call(total.callee, (*total.args[:2], bias), total, f"{total.out.name}_i32", **dict(total.attrs))
    args = (acc, *(edit.const(f"{node.args[1].name}_{s}", v, None, kind) for s, v in (("up", mult), ("right", right))))
    given: dict[str, Attr] = {k: v for k, v in node.attrs if k in ("out", "zp", "lo", "hi")}
    edit.into(node, "rescale_sum", args, spare=spare, **given)
    return True


def _farthest(total: Call, weights: NDArray[Any], bias: NDArray[Any]) -> int:
    """The farthest from 0 that a partial sum gets."""
    rows = channels_first(total, weights).astype(np.int64) + _int(total, "w_offset")
    offset = _int(total, "x_offset")
    maximum = max(abs(limit + offset) for limit in total.args[0].type.dtype.limits)
    sums = np.abs(rows).sum(axis=tuple(range(1, rows.ndim)))
    return max(int(total) * maximum + abs(int(start)) for total, start in zip(sums, bias, strict=True))


def _scale(edit: GraphEdit, node: Call) -> tuple[Ints, Ints] | None:
    """The multipliers as ``mulq64`` reduces them, in the upper half of a word, and the shifts."""
    mult, shift = edit.data(node.args[1]), edit.data(node.args[2])
    if mult is None or shift is None or dict(node.attrs).get("spare", 0):
        return None
    wide = mult.astype(np.int64)
    reduced = np.minimum((wide + (1 << 15)) >> 16, _TOP)
    return reduced << 16, shift.astype(np.int64)


def _int(node: Call, name: str) -> int:
    value: Any = dict(node.attrs).get(name, 0)
    return int(value)
