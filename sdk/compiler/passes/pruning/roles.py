"""How a call treats the channels of its arguments, the positions of their last axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from sdk.compiler.ir.graph import Call, Node, Value
from sdk.compiler.ops.registry import kind_of
from sdk.compiler.ops.traits import Elementwise, Movement, Opaque, Reduction, SumOfProducts
from sdk.compiler.passes.pruning.sums import Data, Sums, sums_of

__all__ = ["Role", "channels", "role_of"]

# each: every channel by itself; sum: mixes them; window: moves or joins places, not channels; stack: its arguments'
# channels one after the other; fold: others of its axes become channels too; part: consecutive ones
Kind = Literal["each", "sum", "window", "stack", "fold", "part", "opaque"]


@dataclass(frozen=True)
class Role:
    """What a node is for the pass; ``sums`` are those of a sum."""

    kind: Kind
    sums: Sums | None = None


OPAQUE: Final = Role("opaque")


def channels(value: Value) -> int | None:
    """How many positions the last axis has; None where that is open, or there is no axis."""
    last = value.type.shape[-1] if value.type.rank else None
    return last if isinstance(last, int) else None


def role_of(node: Node, data: Data) -> Role:
    """The role of a node; opaque where its channels cannot be told apart."""
    if not isinstance(node, Call) or node.kind != "op" or len(node.outs) != 1 or channels(node.out) is None:
        return OPAQUE
    if any(channels(v) is None for v in node.args if not v.const and v.type.rank):
        return OPAQUE
    if (sums := sums_of(node, data)) is not None:
        return Role("sum", sums)
    match kind_of(node):
        case Elementwise():
            known = all(data(v) is not None for v in node.args if v.const)
            return Role("each") if known and not all(v.const for v in node.args) else OPAQUE
        case Reduction(windowed=windowed):
            return Role("window" if windowed else _reduction(node)) if not node.args[0].const else OPAQUE
        case Movement():
            rule = _MOVEMENTS.get(node.callee)
            return Role(rule(node)) if rule is not None and not any(v.const for v in node.args) else OPAQUE
        case SumOfProducts() | Opaque():
            return OPAQUE


def _reduction(node: Call) -> Kind:
    axes: Any = node.attr("axes")
    return "opaque" if node.args[0].type.rank - 1 in axes else "window"


def _pad(node: Call) -> Kind:
    pads: Any = node.attr("pads")
    return "window" if tuple(pads[-1]) == (0, 0) else "opaque"


def _concat(node: Call) -> Kind:
    return "stack" if node.attr("axis") == node.out.type.rank - 1 else "window"


def _reshape(node: Call) -> Kind:
    before, after = channels(node.args[0]), channels(node.out)
    if not before or not after:
        return "opaque"
    return "fold" if after % before == 0 else "opaque"


def _slice(node: Call) -> Kind:
    given: dict[str, Any] = dict(node.attrs)
    begin, stride = given["begin"][-1], given["strides"][-1]
    before, after = channels(node.args[0]), channels(node.out)
    if not before or not isinstance(begin, int) or not isinstance(stride, int):
        return "opaque"
    return "part" if stride == 1 and begin >= 0 and begin + (after or 0) <= before else "opaque"


# movements of which it is known where they take channels
_MOVEMENTS: Final = {"pad": _pad, "concat": _concat, "reshape": _reshape, "slice": _slice}
