"""PyTorch's operators that take parts of a program: branches, and loops that are unrolled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from sdk.budget import TRIPS
from sdk.compiler.ir.graph import Value
from sdk.frontends.control import chosen, scalar_condition
from sdk.frontends.moves import part
from sdk.frontends.torch.context import TorchNode

__all__ = ["HIGHER"]

Inline = Callable[[Any, Sequence[Any]], Sequence[Any]]  # what a part gives for its arguments
Higher = Callable[..., Sequence[Any]]


def _known(node: TorchNode, condition: Any) -> bool | None:
    """A condition that is known at import; None for others."""
    if not isinstance(condition, Value):
        return bool(condition)
    contents = node.builder.contents_of(condition)
    return None if contents is None or contents.numbers is None else bool(np.all(contents.numbers))


def _cond(
    node: TorchNode, inline: Inline, condition: Any, yes: Any, no: Any, given: Sequence[Any] = ()
) -> Sequence[Any]:
    """The branch that a condition known at import chooses; else both, and a choice between their results."""
    known = _known(node, condition)
    if known is not None:
        return inline(yes if known else no, given)
    scalar = scalar_condition(node, condition)
    pairs = zip(inline(yes, given), inline(no, given), strict=True)
    return [chosen(node, scalar, node.value(a), node.value(b)) for a, b in pairs]


def _while_loop(
    node: TorchNode, inline: Inline, condition: Any, body: Any, carried: Sequence[Any], given: Sequence[Any] = ()
) -> Sequence[Any]:
    """A loop whose end is known at import, unrolled."""
    budget = node.builder.budget
    while True:
        again = _known(node, inline(condition, [*carried, *given])[0])
        if again is None:
            node.fail("when it ends is known only at run time", hint="count its steps by numbers that are no inputs")
        if not again:
            return carried
        budget.spend(TRIPS, 1, node.source)
        carried = inline(body, [*carried, *given])


def _scan(
    node: TorchNode, inline: Inline, body: Any, carried: Sequence[Any], rows: Sequence[Value], given: Sequence[Any] = ()
) -> Sequence[Any]:
    """A loop over the slices of tensors along their first axis, of known size, unrolled."""
    length = rows[0].type.shape[0] if rows else 0
    if not isinstance(length, int) or length < 1:
        node.fail(f"it runs {length} times; it is unrolled for one number of 1 or more")
    count = len(carried)
    node.builder.budget.spend(TRIPS, length, node.source)
    before = dict(node.builder.budget.spent)
    columns: list[list[Value]] = []
    for step in range(length):
        found = inline(body, [*carried, *(_row(node, x, step) for x in rows), *given])
        carried = found[:count]
        columns.append([node.value(v) for v in found[count:]])
        if step == 0:
            node.builder.budget.foresee(before, length, node.source)
    return [*carried, *(_stacked(node, column) for column in zip(*columns, strict=True))]


def _map(node: TorchNode, inline: Inline, body: Any, rows: Sequence[Value], given: Sequence[Any] = ()) -> Sequence[Any]:
    """The same without what goes from step to step."""
    return _scan(node, inline, body, [], rows, given)


def _row(node: TorchNode, x: Value, at: int) -> Value:
    return node.call("reshape", part(node, x, 0, at, 1), shape=x.type.shape[1:])


def _stacked(node: TorchNode, rows: Sequence[Value]) -> Value:
    parts = [node.call("reshape", r, shape=(1, *r.type.shape)) for r in rows]
    return parts[0] if len(parts) == 1 else node.call("concat", *parts, axis=0)


HIGHER: Final[Mapping[str, Higher]] = {"cond": _cond, "map_impl": _map, "scan": _scan, "while_loop": _while_loop}
