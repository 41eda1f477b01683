"""When a producer is worth computing inside its consumer.

The rule. Let *reuse* be how often the consumer reads an element of the producer's result (at the largest dims), and
*cost* the operations of one element: 0 for moving it, 1 for adding, comparing or converting, 8 for a division or a
root, 20 for an exponential or another function of that cost.
- reuse <= 1: the producer may cost anything, nothing is computed twice.
- reuse <= 4 (a softmax reads a row three times): it may cost up to 4 an element.
- more (the operand of a matmul): it must cost nothing, or dequantize: one element of a smaller type, converted and
  scaled by numbers, so that less memory is read.
- in all cases, what the consumer reads consecutively (or not at all moving) along its innermost loop must still be
  read so, and without a condition on that loop: lanes depend on it.
- a product of two operands must still be seen to be one, or it would lose its schedule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sdk.compiler.ir.intrinsics import INTRINSICS
from sdk.compiler.ir.loops import For, Idx, Load, Op, Ref, ValueExpr
from sdk.compiler.ir.types import DType
from sdk.compiler.ir.walk import below, walk
from sdk.compiler.sym import Dim, Var, flat_index, free_vars, linear

__all__ = ["cost_of", "depth_of", "dequantizes", "in_order", "may_recompute"]

FEW: Final = 4


def cost_of(value: ValueExpr) -> int:
    """The operations of computing ``value`` once; moving it, and choosing what to move, costs nothing."""
    return sum(INTRINSICS[n.name].cost for n in walk(value) if isinstance(n, Op) and not _of_index(n))


def _of_index(node: Op) -> bool:
    """A condition on indices, which compilers take out of loops."""
    return not any(isinstance(n, Load) for n in walk(node))


def depth_of(node: object) -> int:
    """How many operations and statements stand inside one another at most, in a value or a body."""
    deepest = 0
    waiting: list[tuple[object, int]] = [(node, 0)]  # a stack of its own: depth is what recursion cannot stand
    while waiting:
        item, depth = waiting.pop()
        if isinstance(item, tuple):
            waiting.extend((one, depth) for one in item)
        elif isinstance(item, Op):
            deepest = max(deepest, depth + 1)
            waiting.extend((one, depth + 1) for one in item.args)
        else:
            waiting.extend((one, depth) for one in below(item))
    return deepest


def dequantizes(value: ValueExpr, sizes: Mapping[str, DType]) -> bool:
    """Whether ``value`` is one element of a smaller type, converted and scaled by numbers; ``sizes`` has the types."""
    loads = [n for n in walk(value) if isinstance(n, Load)]
    if len(loads) != 1 or sizes[loads[0].buffer].bits >= value.dtype.bits:
        return False
    plain = all(n.name in ("cast", "sub", "mul") for n in walk(value) if isinstance(n, Op))
    return plain and not any(isinstance(n, Idx | Ref) for n in walk(value))


def may_recompute(value: ValueExpr, reuse: float, dequantize: bool) -> bool:
    """The rule on reuse and cost; ``dequantize`` where converting from a smaller type is welcome."""
    cost = cost_of(value)
    return reuse <= 1 or cost == 0 or (reuse <= FEW and cost <= FEW) or dequantize


def in_order(
    value: ValueExpr,
    shapes: Mapping[str, Sequence[Dim]],
    old: Sequence[Dim],
    old_shape: Sequence[Dim],
    around: Sequence[For],
) -> bool:
    """Whether ``value`` keeps lanes along the innermost loop around a read of ``old`` that it replaces."""
    if not around:
        return True
    var = around[-1].var
    if not _steps(flat_index(old, old_shape), var):
        return True  # there was nothing to keep
    for node in walk(value):
        if isinstance(node, Load) and not _steps(flat_index(node.index, shapes[node.buffer]), var):
            return False
        if isinstance(node, Idx) and var in free_vars(node.dim):
            return False
    return True


def _steps(flat: Dim, var: Var) -> bool:
    found = linear(flat, var)
    return found is not None and found[0] in (0, 1)
