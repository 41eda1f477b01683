"""Channels of a sum that come out as one value whatever goes in are made of zeros and of numbers like the others'."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Call, Node
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import I32
from sdk.compiler.ops.fixed import multiply_quantized
from sdk.compiler.passes.edit import GraphEdit, edit_graphs
from sdk.compiler.passes.fold_offset import channels_first, is_whole_sum, sum_bounds

__all__ = ["ConstantChannels"]

Ints = NDArray[np.int64]
HALF: Final = 1 << 30  # the multiplier that stands for 1/2


@dataclass(frozen=True)
class ConstantChannels:
    """The bounds of a channel's sum may give the same result. Its scale then means nothing, and is often one that asks
    all channels for wider arithmetic: a bias of 2**30 that is shifted right by 28. It gets weights of 0 and a bias,
    multiplier and shift that give the result as well."""

    name = "constant-channels"

    def run(self, module: Module) -> Module:
        """The module with such channels; itself where there are none."""
        return edit_graphs(module, _rule)


def _rule(edit: GraphEdit, node: Node) -> bool:
    if not isinstance(node, Call) or node.kind != "op" or node.callee != "requantize" or "spare" in dict(node.attrs):
        return False
    total = edit.made_by(node.args[0])
    if not is_whole_sum(total) or edit.uses[node.args[0].name] != 1 or node.args[0].type.dtype != I32:
        return False
    data = [edit.data(v) for v in (*total.args[1:3], *node.args[1:3])]
    bounds = sum_bounds(edit, total)
    if any(d is None for d in data) or bounds is None or dict(total.attrs).get("w_offset"):
        return False
    weights, bias, mult, shift = (np.array(d) for d in data)
    if not shift.shape == mult.shape == bias.shape or bias.ndim != 1:
        return False
    reach: Ints = np.maximum(np.abs(bounds[0]), np.abs(bounds[1])) << np.maximum(shift, 0).astype(np.int64)
    if reach.max(initial=0) > I32.limits[1]:
        return False  # what wraps does not rise
    constant = _results(node, bounds[0], mult, shift) == _results(node, bounds[1], mult, shift)
    if constant.all() or not _strange(constant, reach, shift):
        return False
    value = (_results(node, bounds[0], mult, shift) - _int(node, "zp"))[constant]
    room = 31 - int(np.abs(value).max()).bit_length()  # how far a value can be shifted left
    plain = min(max(int(shift[~constant].max()), 1 - room), 0)
    channels_first(total, weights)[constant] = 0
    bias[constant], mult[constant], shift[constant] = value << (1 - plain), HALF, plain
    bits = int(np.abs(bias[constant].astype(np.int64)).max()).bit_length()
    changed = zip((*total.args[1:3], *node.args[1:3]), (weights, bias, mult, shift), strict=True)
    w, b, m, s = (edit.const(f"{v.name}_constant", d, v.type.quant, v.type) for v, d in changed)
    acc = edit.call(total.callee, (total.args[0], w, b), total, total.out.name, **dict(total.attrs))
    given = dict(node.attrs) | {"shift_lo": int(shift.min()), "shift_hi": int(shift.max())}
    given["acc_bits"] = max(_int(node, "acc_bits"), bits)
    edit.into(node, node.callee, (acc, m, s), **given)
    return True


def _int(node: Call, name: str) -> int:
    value: Any = node.attr(name)
    return int(value)


def _results(node: Call, sums: Ints, mult: NDArray[Any], shift: NDArray[Any]) -> Ints:
    """What the sums come out as: they rise with them."""
    out = multiply_quantized(sums.astype(np.int32), mult, shift).astype(np.int64) + _int(node, "zp")
    return np.clip(out, _int(node, "lo"), _int(node, "hi"))


def _strange(constant: NDArray[np.bool_], reach: Ints, shift: NDArray[Any]) -> bool:
    """Whether such a channel asks for more than any other one."""
    if not constant.any():
        return False
    mine, others = shift[constant], shift[~constant]
    wider = reach[constant].max() > reach[~constant].max()
    return bool(wider or mine.min() < others.min() or mine.max() > others.max())
