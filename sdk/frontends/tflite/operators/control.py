"""Operators whose work other subgraphs are: branches and loops that the import decides, calls."""

from __future__ import annotations

import numpy as np

from sdk.budget import TRIPS
from sdk.compiler.ir.graph import WriteState
from sdk.errors import BuildError
from sdk.frontends.control import chosen, scalar_condition
from sdk.frontends.tflite.context import Argument, OpNode, Table

__all__ = ["TABLE"]


def _arguments(node: OpNode, first: int = 0) -> tuple[Argument, ...]:
    """Inputs from ``first`` on: values, and the names of the variables that handles stand for."""
    found: list[Argument] = []
    for k in range(first, len(node.operator.inputs)):
        key = node.builder.handles.get(node.tensor(k).index)
        found.append(node.input(k) if key is None else key)
    return tuple(found)


def _give(node: OpNode, results: tuple[Argument, ...]) -> None:
    """Makes results those of the operator, under their names there."""
    if len(results) != len(node.operator.outputs):
        raise BuildError(f"its subgraph has {len(results)} outputs, it has {len(node.operator.outputs)}")
    for k, value in enumerate(results):
        if isinstance(value, str):
            node.builder.handles[node.output(k).index] = value
        else:
            node.call("reshape", value, to=k, shape=value.type.shape)  # a view


def call(node: OpNode) -> None:
    """CALL: a subgraph in its place."""
    _give(node, node.inline(int(node.option("Subgraph")), _arguments(node)))


def composite(node: OpNode) -> None:
    """STABLEHLO_COMPOSITE: the subgraph of plain operators that says what it computes."""
    _give(node, node.inline(int(node.option("DecompositionSubgraphIndex")), _arguments(node)))


def if_(node: OpNode) -> None:
    """IF: the branch that a condition known at import chooses; else both, and a choice between their results."""
    branches = [int(node.option(f"{name}SubgraphIndex")) for name in ("Then", "Else")]
    known = node.data(0)
    if known is not None:
        if known.size != 1:
            raise BuildError(f"its condition has {known.size} elements")
        _give(node, node.inline(branches[not known.reshape(-1)[0]], _arguments(node, 1)))
        return
    emit = node.emitter
    condition = scalar_condition(emit, node.input(0))
    start, args = len(node.builder.body), _arguments(node, 1)
    yes, no = (node.inline(index, args) for index in branches)
    if any(isinstance(one, WriteState) for one in node.builder.body[start:]):
        hint = "assign after it: the old value where the condition does not hold"
        raise BuildError("its condition is known only at run time, and a branch assigns a variable", hint=hint)
    results: list[Argument] = []
    for one, other in zip(yes, no, strict=True):
        if isinstance(one, str) or isinstance(other, str):
            raise BuildError("its condition is known only at run time, and chooses a variable")
        results.append(chosen(emit, condition, one, other))
    _give(node, tuple(results))


def while_(node: OpNode) -> None:
    """WHILE: a loop whose end follows from what is known at import, such as a count, unrolled."""
    test, body = (int(node.option(f"{name}SubgraphIndex")) for name in ("Cond", "Body"))
    carried = _arguments(node)
    while _holds(node, test, carried):
        node.builder.budget.spend(TRIPS, 1, node.source)
        results = node.inline(body, carried)
        if len(results) != len(carried):
            raise BuildError(f"its body has {len(results)} outputs for {len(carried)} values")
        carried = results
    _give(node, carried)


def _holds(node: OpNode, test: int, carried: tuple[Argument, ...]) -> bool:
    found = node.inline(test, carried)
    known = None if len(found) != 1 or isinstance(found[0], str) else node.builder.contents_of(found[0])
    if known is None or known.numbers is None or known.numbers.size != 1:
        hint = "export it with a count that is a number (Keras: unroll=True), or loop around the model in your program"
        raise BuildError("how often it runs is known only at run time", hint=hint)
    return bool(np.all(known.numbers))


TABLE: Table = {"CALL": call, "IF": if_, "STABLEHLO_COMPOSITE": composite, "WHILE": while_}
