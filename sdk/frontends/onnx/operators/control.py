"""Nodes that decide what is computed: branches and loops that the import decides, and those that do nothing."""

from __future__ import annotations

import numpy as np

from sdk.budget import TRIPS
from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import BOOL, I64
from sdk.frontends.builder import contents_of
from sdk.frontends.control import Passes, chosen, scalar_condition
from sdk.frontends.onnx.context import OnnxNode, onnx_op

__all__: list[str] = []


@onnx_op("Identity")
def identity(node: OnnxNode) -> Value:
    """The same tensor."""
    return node.raw(0)


@onnx_op("Dropout")
def dropout(node: OnnxNode) -> tuple[Value, ...]:
    """The same tensor: nothing is dropped in inference; the mask is all true."""
    training = node.data(2) if node.opset >= 12 else None
    if (training is not None and bool(np.any(training))) or (
        node.opset >= 12 and node.given_input(2) and training is None
    ):
        ratio = node.data(1)
        if training is None or ratio is None or float(np.max(ratio)) != 0.0:
            node.fail("it drops at random, as in training", hint="export the model for inference")
    if node.outputs < 2:
        return (node.raw(0),)
    kind = "bool" if node.opset >= 10 else str(node.type(0).dtype)
    return node.raw(0), node.call("full", shape=node.type(0).shape, value=1, dtype=kind)


@onnx_op("If")
def if_(node: OnnxNode) -> tuple[Value, ...]:
    """The branch that a condition known at import chooses; else both, and a choice between their results."""
    known = node.data(0)
    if known is not None:
        if known.size != 1:
            node.fail(f"its condition has {known.size} elements")
        return node.branch("then_branch" if bool(known.reshape(-1)[0]) else "else_branch")
    scalar = scalar_condition(node, node.x(0))
    pairs = zip(node.branch("then_branch"), node.branch("else_branch"), strict=True)
    return tuple(_chosen(node, scalar, yes, no) for yes, no in pairs)


def _chosen(node: OnnxNode, condition: Value, yes: Value, no: Value) -> Value:
    kept = node.builder.sequences
    if yes.name in kept and no.name in kept:
        first, second = kept[yes.name], kept[no.name]
        if first is None or second is None or len(first) != len(second):
            node.fail("its condition is known only at run time, and its branches give sequences of different lengths")
        parts = (_chosen(node, condition, a, b) for a, b in zip(first, second, strict=True))
        return node.builder.sequence(tuple(parts), node.stem)
    return chosen(node, condition, yes, no)


@onnx_op("Loop")
def loop(node: OnnxNode) -> tuple[Value, ...]:
    """A loop of a count known at import, unrolled; where its condition may end it before, all passes are computed, and
    what the last one that runs gives is taken."""
    steps = node.data(0)
    if steps is None:
        node.fail("how often it runs is known only at run time")
    count = max(int(steps.reshape(-1)[0]), 0)
    node.builder.budget.spend(TRIPS, count, node.source)
    carried = tuple(node.raw(k) for k in range(2, node.count))
    again = node.raw(1) if node.count > 1 and node.inputs[1] is not None else None
    passes, rows = Passes(node, carried), list[tuple[Value, ...]]()
    budget = node.builder.budget
    before = dict(budget.spent)
    for step in range(count):
        if again is not None and not passes.goes_on(again, bounded=True):
            break
        since = len(node.builder.body)
        index = node.known(contents_of([step], I64, ()))
        true = node.known(contents_of([1], BOOL, ()))
        again, *results = node.branch("body", index, true, *carried)
        if step == 0:
            budget.foresee(before, count, node.source)
        carried = tuple(results[: len(carried)])
        passes.ran(carried, since)
        rows.append(tuple(results[len(carried) :]))
    if node.outputs > len(carried) and not rows:
        node.fail("it never runs, and so gives no element to stack")
    if node.outputs > len(carried) and passes.running is not None:
        node.fail("how many elements it stacks is known only at run time")
    return (*passes.kept, *(_stacked(node, column, 0) for column in zip(*rows, strict=True)))


def _stacked(node: OnnxNode, parts: tuple[Value, ...], axis: int) -> Value:
    """The parts along a new axis."""
    rows = []
    for part in parts:
        value = node.value(part)
        shape = value.type.shape
        rows.append(node.call("reshape", value, shape=(*shape[:axis], 1, *shape[axis:])))
    return node.call("concat", *rows, axis=axis) if len(rows) > 1 else rows[0]


@onnx_op("Scan")
def scan(node: OnnxNode) -> tuple[Value, ...]:
    """A loop over slices along an axis of known size, unrolled."""
    if node.opset < 9:
        node.fail("the Scan of opset 8, with its batch axis, is not supported")
    inputs = node.int("num_scan_inputs", 0)
    count = node.count - inputs
    if inputs < 1 or count < 0:
        node.fail(f"num_scan_inputs is {inputs} of {node.count} inputs")
    sources = [node.x(count + k) for k in range(inputs)]
    given = node.ints("scan_input_axes", (0,) * inputs)
    axes = [node.axis(a, s.type.rank) for a, s in zip(given, sources, strict=True)]
    lengths = {s.type.shape[a] for s, a in zip(sources, axes, strict=True)}
    length = next(iter(lengths))
    if len(lengths) != 1 or not isinstance(length, int) or length < 1:
        node.fail(f"it runs {', '.join(map(str, lengths))} times; it is unrolled for one number of 1 or more")
    node.builder.budget.spend(TRIPS, length, node.source)
    carried = tuple(node.raw(k) for k in range(count))
    backward = node.ints("scan_input_directions", (0,) * inputs)
    rows: list[tuple[Value, ...]] = []
    budget = node.builder.budget
    before = dict(budget.spent)
    for step in range(length):
        places = [length - 1 - step if back else step for back in backward]
        slices = [_row(node, s, a, at) for s, a, at in zip(sources, axes, places, strict=True)]
        results = node.branch("body", *carried, *slices)
        if step == 0:
            budget.foresee(before, length, node.source)
        carried = results[:count]
        rows.append(results[count:])
    return (*carried, *_columns(node, rows))


def _row(node: OnnxNode, x: Value, axis: int, at: int) -> Value:
    """Slice ``at`` of an axis, without the axis."""
    at_axis = tuple(at if k == axis else 0 for k in range(x.type.rank))
    sizes = tuple(1 if k == axis else -1 for k in range(x.type.rank))
    part = node.call("slice", x, begin=at_axis, size=sizes, strides=(1,) * x.type.rank)
    return node.call("reshape", part, shape=tuple(d for k, d in enumerate(x.type.shape) if k != axis))


def _columns(node: OnnxNode, rows: list[tuple[Value, ...]]) -> tuple[Value, ...]:
    columns = list(zip(*rows, strict=True))
    backward = node.ints("scan_output_directions", (0,) * len(columns))
    axes = node.ints("scan_output_axes", (0,) * len(columns))
    found = []
    for parts, back, axis in zip(columns, backward, axes, strict=True):
        place = node.axis(axis, node.value(parts[0]).type.rank + 1)
        found.append(_stacked(node, parts[::-1] if back else parts, place))
    return tuple(found)
