"""Requantisations that take the high word of one product: their accumulators are short enough to be shifted left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from sdk.compiler.ir.graph import Call, Node, attrs
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import I32
from sdk.compiler.passes.edit import GraphEdit, edit_graphs

__all__ = ["MulhRequantize"]

BITS: Final = 8  # those that two joined sums are apart


@dataclass(frozen=True)
class MulhRequantize:
    """``requantize`` of accumulators below ``2**(31 - BITS)`` is given ``high = BITS``, and shifts for it: what it
    computes stays the same to the bit (``docs/passes.md``), in fewer instructions where a core has one for the
    high word of a product."""

    name = "mulh-requantize"

    def run(self, module: Module) -> Module:
        """The module with such requantisations; itself where there are none."""
        return edit_graphs(module, self._rule)

    def _rule(self, edit: GraphEdit, node: Node) -> bool:
        if not isinstance(node, Call) or node.kind != "op" or node.callee != "requantize":
            return False
        given: dict[str, Any] = dict(node.attrs)
        shift = edit.data(node.args[2])
        if given.get("spare") or given.get("high") or node.args[0].type.dtype != I32 or shift is None:
            return False
        minimum, maximum, zp = -int(shift.max()), -int(shift.min()), int(given["zp"])
        # the zero point and the high word are each below 2**30, so that their sum is one of 32 bits
        if minimum < 1 or given["acc_bits"] > 31 - BITS or abs(2 * zp + 1) << (BITS - 2 + maximum) >= 1 << 30:
            return False
        right = (BITS - 1 - shift).astype(shift.dtype)
        value = edit.const(f"{node.args[2].name}_high", right, None, node.args[2].type)
        edit.keep(replace(node, args=(*node.args[:2], value), attrs=attrs(**given, high=BITS)))
        return True
