"""Operators whose work other subgraphs are: branches and loops that the import decides, calls."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from sdk.compiler.ir.graph import Value, WriteState
from sdk.compiler.ir.types import BOOL, I32
from sdk.errors import BuildError
from sdk.frontends.builder import contents_of
from sdk.frontends.control import chosen, scalar_condition
from sdk.frontends.loop_ends import Ends
from sdk.frontends.loops import loop_passes
from sdk.frontends.moves import type_text
from sdk.frontends.tflite.context import LIST, Argument, OpNode, Table
from sdk.frontends.tflite.operators.real.common import vector

__all__ = ["TABLE"]


def _arguments(node: OpNode, first: int = 0) -> tuple[Argument, ...]:
    """Inputs from ``first`` on: values, and the names of the variables that handles stand for."""
    found: list[Argument] = []
    for k in range(first, len(node.operator.inputs)):
        tensor = node.tensor(k)
        key = node.builder.handles.get(tensor.index)
        value = node.list_of if tensor.type_name == LIST else node.input
        found.append(value(k) if key is None else key)
    return tuple(found)


def _give(node: OpNode, results: tuple[Argument, ...]) -> None:
    """Makes results those of the operator, under their names there."""
    if len(results) != len(node.operator.outputs):
        raise BuildError(f"its subgraph has {len(results)} outputs, it has {len(node.operator.outputs)}")
    for k, value in enumerate(results):
        if isinstance(value, str):
            node.builder.handles[node.output(k).index] = value
        elif value.name in node.builder.sequences:
            node.keep_list(value, k)
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
    found = []
    for k, index in enumerate(branches):
        with ExitStack() as taken:
            for earlier in conditions[:k]:
                taken.enter_context(node.builder.passes.counts_if(earlier, holds=False))
            for own in conditions[k : k + 1]:
                taken.enter_context(node.builder.passes.counts_if(own))
            found.append(node.inline(index, args))
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
        if any(one.name in node.builder.sequences for one in values):
            raise BuildError("its condition is known only at run time, and chooses a list of tensors")
        result = values[-1]
        for condition, value in reversed(list(zip(conditions, values[:-1], strict=True))):
            result = chosen(emit, condition, value, result)
        results.append(result)
    _give(node, tuple(results))


def while_(node: OpNode) -> None:
    """WHILE as its passes: their number follows from what is known at import, such as a count, or is bounded by it, or
    by the user; of those beyond an end that only the run knows nothing is taken."""
    test, body = (int(node.option(f"{name}SubgraphIndex")) for name in ("Cond", "Body"))
    emit, ends, carried = node.emitter, Ends(node.builder), _arguments(node)

    def again(values: tuple[Argument, ...]) -> Value:
        found = node.inline(test, values)
        if len(found) != 1 or isinstance(found[0], str):
            raise BuildError("its condition is not one truth value")
        if found[0].type.size != 1:
            raise BuildError(f"its condition has {found[0].type.size} elements")
        known = ends.decided(found[0])
        return found[0] if known is None else emit.known(contents_of([known], BOOL, ()))

    def step(_: int, values: tuple[Argument, ...]) -> tuple[Value, tuple[Argument, ...], tuple[()]]:
        since = len(node.builder.body)
        results = node.inline(body, values)
        if len(results) != len(values):
            raise BuildError(f"its body has {len(results)} outputs for {len(values)} values")
        if node.builder.passes.guards:
            _check_pass(node, since, values, results)
        return again(results), results, ()

    found, _, _ = loop_passes(emit, node.output().title, carried, again(carried), None, step, lambda: ends.bounded)
    _give(node, found)


def _check_pass(node: OpNode, since: int, before: tuple[Argument, ...], after: tuple[Argument, ...]) -> None:
    """Refuses a pass that the run may leave out, and that changes more than the values it carries."""
    if any(isinstance(one, WriteState) for one in node.builder.body[since:]):
        raise BuildError("its end is known only at run time, and a pass assigns a variable")
    if any(a != b for a, b in zip(before, after, strict=True) if isinstance(a, str) or isinstance(b, str)):
        raise BuildError("its end is known only at run time, and a pass exchanges variables")


TABLE: Table = {
    "CALL": call,
    "IF": if_,
    "STABLEHLO_CASE": case,
    "STABLEHLO_COMPOSITE": composite,
    "WHILE": while_,
}
