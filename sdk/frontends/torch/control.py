"""PyTorch's operators that take parts of a program: branches, and loops that are unrolled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import BOOL
from sdk.compiler.sym import Expr
from sdk.frontends.builder import contents_of
from sdk.frontends.control import chosen, scalar_condition
from sdk.frontends.loops import cut, loop_passes
from sdk.frontends.moves import part, row_inside
from sdk.frontends.torch.context import TorchNode

__all__ = ["HIGHER", "LOOPS", "WRAPPERS"]

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
    found = []
    for branch, holds in ((yes, True), (no, False)):
        with node.builder.passes.counts_if(scalar, holds):
            found.append(inline(branch, given))
    return [chosen(node, scalar, node.value(a), node.value(b)) for a, b in zip(*found, strict=True)]


def _while_loop(
    node: TorchNode, inline: Inline, condition: Any, body: Any, carried: Sequence[Any], given: Sequence[Any] = ()
) -> Sequence[Any]:
    """A loop as its passes; of those beyond an end that only the run knows nothing is taken."""

    def ends(values: Sequence[Any]) -> Value:
        (found,) = inline(condition, [*values, *given])
        return found if isinstance(found, Value) else node.known(contents_of([bool(found)], BOOL, ()))

    def step(_: int, values: tuple[Any, ...]) -> tuple[Value, Sequence[Any], tuple[()]]:
        new = inline(body, [*values, *given])
        return ends(new), new, ()

    return loop_passes(node, node.stem, carried, ends(carried), None, step)[0]


def _scan(
    node: TorchNode, inline: Inline, body: Any, carried: Sequence[Any], rows: Sequence[Value], given: Sequence[Any] = ()
) -> Sequence[Any]:
    """A loop over the slices of tensors along their first axis, as its passes; of an open size the most it may have."""
    length = rows[0].type.shape[0] if rows else 0
    if isinstance(length, int) and length < 1:
        node.fail(f"it runs {length} times; it is unrolled for one number of 1 or more")
    count = len(carried)

    def step(k: int, values: tuple[Any, ...]) -> tuple[None, Sequence[Any], list[Value]]:
        found = inline(body, [*values, *(_row(node, x, k) for x in rows), *given])
        return None, found[:count], [node.value(v) for v in found[count:]]

    last, columns, passes = loop_passes(node, node.stem, carried, None, length, step)
    return [*last, *(cut(node, _stacked(node, column), passes) for column in zip(*columns, strict=True))]


def _map(node: TorchNode, inline: Inline, body: Any, rows: Sequence[Value], given: Sequence[Any] = ()) -> Sequence[Any]:
    """The same without what goes from step to step."""
    return _scan(node, inline, body, [], rows, given)


def _autocast(
    node: TorchNode, inline: Inline, device: str, kind: Any, enabled: bool, cached: Any, body: Any, *given: Any
) -> Sequence[Any]:
    """A part that computes in the types that it has."""
    if enabled:
        node.fail(f"it turns types into {kind} on the way; export the module outside of torch.autocast")
    return inline(body, given)


def _with_gradients(node: TorchNode, inline: Inline, enabled: bool, body: Any, *given: Any) -> Sequence[Any]:
    """A part that gradients are, or are not, kept of."""
    return inline(body, given)


def _row(node: TorchNode, x: Value, at: int) -> Value:
    if isinstance(x.type.shape[0], Expr):
        return row_inside(node, x, 0, at)
    return node.call("reshape", part(node, x, 0, at, 1), shape=x.type.shape[1:])


def _stacked(node: TorchNode, rows: Sequence[Value]) -> Value:
    parts = [node.call("reshape", r, shape=(1, *r.type.shape)) for r in rows]
    return parts[0] if len(parts) == 1 else node.call("concat", *parts, axis=0)


HIGHER: Final[Mapping[str, Higher]] = {
    "cond": _cond, "map_impl": _map, "scan": _scan, "while_loop": _while_loop, "wrap_with_autocast": _autocast,
    "wrap_with_set_grad_enabled": _with_gradients,
}  # fmt: skip
WRAPPERS: Final = {"wrap_with_autocast": 4, "wrap_with_set_grad_enabled": 1}  # and which argument their part is
LOOPS: Final = frozenset({"map_impl", "scan", "while_loop"})
