"""What branches that the run decides become: both are computed, and one of their results is taken."""

from __future__ import annotations

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import BOOL
from sdk.compiler.ops.shapes import same_extent
from sdk.frontends.emit import Emitter

__all__ = ["chosen", "scalar_condition"]


def scalar_condition(node: Emitter, condition: Value) -> Value:
    """A condition as a scalar.

    Raises:
        BuildError: it is no truth value, or several.
    """
    if condition.type.dtype != BOOL or condition.type.size != 1:
        node.fail(f"its condition is {condition.type.dtype} of {condition.type.size} elements")
    return node.call("reshape", condition, shape=())


def chosen(node: Emitter, condition: Value, yes: Value, no: Value) -> Value:
    """One of two tensors, by a scalar.

    Raises:
        BuildError: they differ in type or shape.
    """
    same = yes.type.rank == no.type.rank and all(map(same_extent, yes.type.shape, no.type.shape))
    if yes.type.dtype != no.type.dtype or not same:
        node.fail("its condition is known only at run time, and its branches give tensors of different types")
    return node.call("where", condition, yes, no)
