"""Nodes that decide what is computed: branches and loops that the import decides, and those that do nothing."""

from __future__ import annotations

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import BOOL, I64
from sdk.compiler.sym import Dim, Expr
from sdk.frontends.builder import contents_of
from sdk.frontends.control import chosen, scalar_condition
from sdk.frontends.loops import cut, loop_passes
from sdk.frontends.moves import row_inside
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
    found = []
    for name, holds in (("then_branch", True), ("else_branch", False)):
        with node.builder.passes.counts_if(scalar, holds):
            found.append(node.branch(name))
    return tuple(_chosen(node, scalar, yes, no) for yes, no in zip(*found, strict=True))


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
    """A loop as its passes; of those beyond an end that only the run knows nothing is taken."""
    carried = tuple(node.raw(k) for k in range(2, node.count))

    def step(k: int, values: tuple[Value, ...]) -> tuple[Value | None, tuple[Value, ...], tuple[Value, ...]]:
        index = node.known(contents_of([k], I64, ()))
        true = node.known(contents_of([1], BOOL, ()))
        again, *results = node.branch("body", index, true, *values)
        return None if again is true else again, tuple(results[: len(carried)]), tuple(results[len(carried) :])

    first, trips = (node.inputs[k] if node.given_input(k) else None for k in (1, 0))
    count = trips if trips is None else _count(node, trips)
    found, rows, length = loop_passes(node, node.name or node.stem, carried, first, count, step)
    if not rows and node.outputs > len(carried):
        node.fail("it never runs, and so gives no element to stack")
    columns = (_stacked(node, column, 0) for column in zip(*rows, strict=True))
    return (*found, *(cut(node, column, length) for column in columns))


def _count(node: OnnxNode, trips: Value) -> Dim | Value:
    """A count of passes: a number or a size where it is known to be one."""
    if trips.type.size != 1:
        node.fail(f"its count has {trips.type.size} elements")
    found = node.builder.contents_of(trips)
    if found is None:
        return trips
    (one,) = found.array.reshape(-1).tolist()
    return one if isinstance(one, Expr) else int(one)


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
    """A loop over slices along an axis, as its passes; of an open size as many as it may have, which then count."""
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
    if len(lengths) != 1 or (isinstance(length, int) and length < 1):
        node.fail(f"it runs {', '.join(map(str, lengths))} times; it is unrolled for one number of 1 or more")
    backward = node.ints("scan_input_directions", (0,) * inputs)

    def step(k: int, carried: tuple[Value, ...]) -> tuple[None, tuple[Value, ...], tuple[Value, ...]]:
        places = [length - 1 - k if back else k for back in backward]
        slices = [_row(node, s, a, at) for s, a, at in zip(sources, axes, places, strict=True)]
        results = node.branch("body", *carried, *slices)
        return None, results[:count], results[count:]

    carried = tuple(node.raw(k) for k in range(count))
    found, rows, passes = loop_passes(node, node.name or node.stem, carried, None, length, step)
    return (*found, *_columns(node, rows, passes))


def _row(node: OnnxNode, x: Value, axis: int, at: Dim) -> Value:
    """Slice ``at`` of an axis, without the axis."""
    if isinstance(at, Expr) or isinstance(x.type.shape[axis], Expr):
        return row_inside(node, x, axis, at)
    at_axis = tuple(at if k == axis else 0 for k in range(x.type.rank))
    sizes = tuple(1 if k == axis else -1 for k in range(x.type.rank))
    part = node.call("slice", x, begin=at_axis, size=sizes, strides=(1,) * x.type.rank)
    return node.call("reshape", part, shape=tuple(d for k, d in enumerate(x.type.shape) if k != axis))


def _columns(node: OnnxNode, rows: list[tuple[Value, ...]], length: Dim) -> tuple[Value, ...]:
    columns = list(zip(*rows, strict=True))
    backward = node.ints("scan_output_directions", (0,) * len(columns))
    axes = node.ints("scan_output_axes", (0,) * len(columns))
    found = []
    for parts, back, axis in zip(columns, backward, axes, strict=True):
        place = node.axis(axis, node.value(parts[0]).type.rank + 1)
        stacked = _stacked(node, parts[::-1] if back else parts, place)
        found.append(cut(node, stacked, length, place, bool(back)))
    return tuple(found)
