"""Operators whose work other subgraphs are: branches and loops that the import decides, calls."""

from __future__ import annotations

from collections.abc import Sequence

from sdk.budget import TRIPS
from sdk.compiler.ir.graph import Value, WriteState
from sdk.compiler.ir.types import I32
from sdk.errors import BuildError
from sdk.frontends.control import Passes, chosen, scalar_condition
from sdk.frontends.moves import type_text
from sdk.frontends.tflite.context import Argument, OpNode, Table
from sdk.frontends.tflite.operators.real.common import vector

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
    _chosen_branch(node, branches, [scalar_condition(node.emitter, node.input(0))])


def case(node: OpNode) -> None:
    """STABLEHLO_CASE: the branch of a number, the last one where there is none of that number."""
    branches, index = vector(node, "BranchSubgraphIndicesAsNumpy"), node.input(0, I32)
    if not branches or index.type.size != 1:
        raise BuildError(f"{len(branches)} branches by {type_text(index)}")
    known = node.data(0)
    if known is not None:
        number = int(known.reshape(-1)[0])
        _give(node, node.inline(branches[number if 0 <= number < len(branches) else -1], _arguments(node, 1)))
        return
    emit = node.emitter
    which = emit.call("reshape", index, shape=())
    _chosen_branch(
        node, branches, [emit.call("equal", which, emit.scalar(k, I32)) for k in range(len(branches) - 1)]
    )


def _chosen_branch(node: OpNode, branches: Sequence[int], conditions: Sequence[Value]) -> None:
    """All branches, and of each result that of the first one whose condition holds; the last one has none."""
    emit = node.emitter
    start, args = len(node.builder.body), _arguments(node, 1)
    found = [node.inline(index, args) for index in branches]
    if any(isinstance(one, WriteState) for one in node.builder.body[start:]):
        hint = "assign after it: the old value where the condition does not hold"
        raise BuildError("its condition is known only at run time, and a branch assigns a variable", hint=hint)
    counts = {len(results) for results in found}
    if len(counts) > 1:
        raise BuildError(f"its branches have {' and '.join(map(str, sorted(counts)))} results")
    results: list[Argument] = []
    for options in zip(*found, strict=True):
        values = [one for one in options if not isinstance(one, str)]
        if len(values) < len(options):
            raise BuildError("its condition is known only at run time, and chooses a variable")
        result = values[-1]
        for condition, value in reversed(list(zip(conditions, values[:-1], strict=True))):
            result = chosen(emit, condition, value, result)
        results.append(result)
    _give(node, tuple(results))


def while_(node: OpNode) -> None:
    """WHILE, unrolled: a loop whose end, or at least the latest one, follows from what is known at import, such as a
    count. Of one that the run may end before, all passes are computed, and what the last that runs gives is taken."""
    test, body = (int(node.option(f"{name}SubgraphIndex")) for name in ("Cond", "Body"))
    carried = _arguments(node)
    passes = Passes(node.emitter, tuple(v for v in carried if isinstance(v, Value)))
    while passes.goes_on(_condition(node, test, carried)):
        node.builder.budget.spend(TRIPS, 1, node.source)
        since = len(node.builder.body)
        results = node.inline(body, carried)
        if len(results) != len(carried):
            raise BuildError(f"its body has {len(results)} outputs for {len(carried)} values")
        names = [one for one in results if isinstance(one, str)]
        if passes.running is not None and names != [one for one in carried if isinstance(one, str)]:
            raise BuildError("its end is known only at run time, and a pass exchanges variables")
        passes.ran([one for one in results if isinstance(one, Value)], since)
        carried = results
    kept = iter(passes.kept)
    _give(node, tuple(one if isinstance(one, str) else next(kept) for one in carried))


def _condition(node: OpNode, test: int, carried: tuple[Argument, ...]) -> Value:
    found = node.inline(test, carried)
    if len(found) != 1 or isinstance(found[0], str):
        raise BuildError("its condition is not one truth value")
    return found[0]


TABLE: Table = {
    "CALL": call,
    "IF": if_,
    "STABLEHLO_CASE": case,
    "STABLEHLO_COMPOSITE": composite,
    "WHILE": while_,
}
