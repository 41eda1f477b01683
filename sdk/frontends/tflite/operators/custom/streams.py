"""What an audio front end keeps of its samples from run to run: frames that overlap, frames beside each other, delays.

Where a result is not valid yet, its elements mean nothing: the kernels leave what memory held.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sdk.compiler.ir.graph import ReadState, Value, WriteState
from sdk.compiler.ir.types import BOOL, F32, I16, I32, DType, TensorType
from sdk.errors import BuildError
from sdk.frontends.moves import padded, part
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.flexbuffers import Flags, read_flags
from sdk.frontends.tflite.operators.custom.terms import Term, given, row, whole
from sdk.frontends.tflite.variables import state_of

__all__ = ["TABLE", "Kept"]

_MAX: Final = 1 << 20
_MAX_FRAMES: Final = 256  # that are added one after the other


class Kept:
    """What an operator keeps, zeros before the first run. An operator has one such state for each of its outputs."""

    def __init__(self, node: OpNode, output: int, kind: DType, shape: tuple[int, ...]) -> None:
        self.node, tensor = node, node.tensor(output, "outputs")
        self.state = state_of(node.builder, tensor.index, TensorType(kind, shape), tensor.name)
        before = Value(node.builder.value_name(f"{self.state}_before"), TensorType(kind, shape))
        node.builder.body.append(ReadState(before, self.state, source=node.source))
        self.before = Term(node.emitter, before)

    def becomes(self, after: Term) -> None:
        """What the next run finds."""
        builder, source = self.node.builder, self.node.source
        builder.body.append(WriteState(self.state, builder.materialize(after.value, source), source=source))


def _flags(node: OpNode, outputs: int) -> Flags:
    whole(node, 1, outputs)
    return read_flags(node.operator.custom_options)


def _frames(node: OpNode, *kinds: DType) -> tuple[Term, tuple[int, ...], int]:
    """Input 0 as ``[b, n]``, its shape, and how many elements the last axis has."""
    x = given(node, 0, *kinds)
    shape = x.value.type.static_shape
    if not shape or 0 in shape:
        raise BuildError(f"input 0 ({node.tensor(0).title}) has the shape {list(shape)}, samples are wanted")
    return x.call("reshape", shape=(math.prod(shape[:-1]), shape[-1])), shape, shape[-1]


def _part(x: Term, axis: int, begin: int, size: int) -> Term:
    return Term(x.emit, part(x.emit, x.value, axis, begin, size))


def delay(node: OpNode) -> None:
    """SignalDelay: samples [..., n] as they were ``delay_length`` before, zeros at first."""
    late = _flags(node, 1).integer("delay_length", 0, _MAX)
    x, shape, n = _frames(node, I16)
    if late:
        kept = Kept(node, 0, I16, (x.value.type.static_shape[0], late))
        joined = kept.before.call("concat", x, axis=1)
        kept.becomes(_part(joined, 1, n, late))
        x = _part(joined, 1, 0, n)
    node.call("reshape", x.value, shape=shape)


def framer(node: OpNode) -> None:
    """SignalFramer: samples [..., n] and those before them as frames [..., n / step, size] that overlap, and whether
    there were enough samples for all of them."""
    flags = _flags(node, 2)
    size = flags.integer("frame_size", 1, _MAX)
    step, prefill = flags.integer("frame_step", 1, size), bool(flags.number("prefill", 0))
    x, shape, n = _frames(node, I16)
    count, rows = n // step, x.value.type.static_shape[0]
    if n % step or count * size > _MAX:
        raise BuildError(f"{n} samples are no multiple of the step of {step}, or more than {_MAX} in frames of {size}")
    # without zeros to start from, whole steps are kept: a frame begins with the oldest
    old = size - step if prefill else (size - 1) // step * step
    if old:
        kept = Kept(node, 0, I16, (rows, old))
        x = kept.before.call("concat", x, axis=1)
        kept.becomes(_part(x, 1, n, old))
    places = [k * step + j for k in range(count) for j in range(size)]
    found = _part(x, 1, 0, size) if count == 1 else x.call("gather", x.table(places, I32, "places"), axis=1)
    node.call("reshape", found.value, shape=(*shape[:-1], count, size))
    if prefill or not old:
        node.call("full", to=1, shape=(), value=1, dtype=str(BOOL))
        return
    seen = Kept(node, 1, I32, (1,))
    seen.becomes((seen.before + n).minimum(old))
    node.call("reshape", (seen.before >= old).value, to=1, shape=())


def stacker(node: OpNode) -> None:
    """SignalStacker: the last frames [n] beside each other, and whether there are enough: first those that the context
    wants, later every ``stacker_step``. The first frame stands for those to its left."""
    flags = _flags(node, 2)
    n = flags.integer("num_channels", 1, _MAX)
    left, right = (flags.integer(f"stacker_{k}_context", 0, _MAX) for k in ("left", "right"))
    frames = left + right + 1
    step = flags.integer("stacker_step", 1, frames)
    if frames * n > _MAX:
        raise BuildError(f"{frames} frames of {n} numbers are more than {_MAX}")
    x = row(node, 0, I16, n)
    count = Kept(node, 1, I32, (1,))  # how many frames there are and 1 more, 0 before the first
    first = count.before.same(0)
    there = first.where(count.before.number(left + 2), count.before + 1)
    valid = there > frames
    count.becomes(valid.where(there.number(frames - step + 1), there))
    if frames > 1:
        kept = Kept(node, 0, I16, (frames - 1, n))
        frame = x.call("reshape", shape=(1, n))
        spread = frame.call("broadcast_to", shape=(frames - 1, n))
        before = first.call("reshape", shape=(1, 1)).where(spread, kept.before)
        joined = before.call("concat", frame, axis=0)
        kept.becomes(_part(joined, 0, 1, frames - 1))
        x = joined.call("reshape", shape=(frames * n,))
    node.call("reshape", x.value, shape=(frames * n,))
    node.call("reshape", valid.value, to=1, shape=())


def overlap_add(node: OpNode) -> None:
    """SignalOverlapAdd: frames [..., k, n] added where they overlap to samples [..., k * step]; what later frames add
    to is kept. Sums of int16 are held to its range."""
    x, shape, n = _frames(node, I16, F32)
    step = _flags(node, 1).integer("frame_step", 1, n)
    if len(shape) < 2 or shape[-2] > _MAX_FRAMES:
        raise BuildError(f"frames {list(shape)}: [..., k, n] with k up to {_MAX_FRAMES} are wanted")
    count, kind, rest = shape[-2], x.value.type.dtype, n - step
    rows = math.prod(shape[:-2])
    x = x.call("reshape", shape=(rows, count, n))
    kept = Kept(node, 0, kind, (rows, rest)) if rest else None
    tail, found = kept.before if kept else None, []
    for k in range(count):
        frame = _part(x, 1, k, 1).call("reshape", shape=(rows, n))
        if tail is not None:
            zero = 0.0 if kind.is_float else 0
            longer = Term(x.emit, padded(x.emit, tail.value, [(0, 0), (0, step)], value=zero))
            frame = _held(frame, longer)
            tail = _part(frame, 1, step, rest)
        found.append(_part(frame, 1, 0, step))
    if kept is not None and tail is not None:
        kept.becomes(tail)
    joined = found[0].call("concat", *found[1:], axis=1) if count > 1 else found[0]
    node.call("reshape", joined.value, shape=(*shape[:-2], count * step))


def _held(a: Term, b: Term) -> Term:
    """A sum of floats, or one of i16 held to its range."""
    if a.value.type.dtype.is_float:
        return a + b
    limits = np.iinfo(np.int16)
    return (a.to(I32) + b.to(I32)).maximum(int(limits.min)).minimum(int(limits.max)).to(I16)


TABLE: Table = {
    "SignalDelay": delay,
    "SignalFramer": framer,
    "SignalStacker": stacker,
    "SignalOverlapAdd": overlap_add,
}
