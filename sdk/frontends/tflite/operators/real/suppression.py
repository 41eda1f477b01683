"""NON_MAX_SUPPRESSION_V4 and V5: of boxes that overlap the one of the best score."""

from __future__ import annotations

import math

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32, I32
from sdk.errors import BuildError
from sdk.frontends.moves import padded, part, shape_text
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.operators.real.common import single

__all__ = ["TABLE"]


def _number(node: OpNode, k: int) -> float:
    data = node.constant(k)
    if data.size != 1 or data.dtype != np.float32 or math.isnan(data.reshape(-1)[0]):
        raise BuildError(f"input {k} ({node.tensor(k).title}) must be one float")
    return float(data.reshape(-1)[0])


def _selected(node: OpNode) -> tuple[Value, Value, Value, int]:
    """Positions of the boxes kept, whether each is one, how many there are, and for how many there is room."""
    boxes, scores, room = node.input(0, F32), node.input(1, F32), single(node, 2)
    overlap, minimum = (np.float32(_number(node, k)) for k in (3, 4))
    count = boxes.type.shape[0] if boxes.type.rank == 2 else None
    if not isinstance(count, int) or count < 1 or boxes.type.shape != (count, 4) or scores.type.shape != (count,):
        raise BuildError(f"boxes {shape_text(boxes.type.shape)} with scores {shape_text(scores.type.shape)}")
    if room < 1 or not 0 <= overlap <= 1:
        raise BuildError(f"{room} boxes that overlap by less than {overlap}")
    emit = node.emitter
    found, kept = emit.calls(
        "nms", emit.call("reshape", boxes, shape=(1, count, 4)), emit.call("reshape", scores, shape=(1, 1, count)),
        maximum=room, overlap=float(np.nextafter(overlap, np.float32(-1))), minimum=float(minimum), center=False,
    )  # fmt: skip
    maximum = min(count, room)
    at = emit.call("cast", emit.call("reshape", part(emit, found, 1, 2, 1), shape=(maximum,)), to=str(I32))
    inside = emit.call("less", emit.call("iota", extent=maximum, start=0, step=1, dtype=str(I32)), kept)
    return at, inside, kept, room


def _give(node: OpNode, k: int, value: Value, room: int) -> None:
    """A result with zeros up to the room that there is."""
    (maximum,) = (d for d in value.type.shape if isinstance(d, int))
    zero = 0.0 if value.type.dtype == F32 else 0
    node.call("reshape", padded(node.emitter, value, [(0, room - maximum)], value=zero), to=k, shape=(room,))


def suppress(node: OpNode) -> None:
    """NON_MAX_SUPPRESSION_V4: inputs (boxes [n, 4], scores [n], room, overlap, least score), results (positions, how
    many); what is beyond is 0."""
    at, _, kept, room = _selected(node)
    _give(node, 0, at, room)
    node.call("reshape", kept, to=1, shape=())


def suppress_softly(node: OpNode) -> None:
    """NON_MAX_SUPPRESSION_V5: the same with the scores as a second result; overlaps lower none."""
    if _number(node, 5) != 0:
        raise BuildError("scores lowered by overlap (a sigma above 0) are not supported", hint="use a sigma of 0")
    at, inside, kept, room = _selected(node)
    emit = node.emitter
    scores = emit.call("where", inside, emit.call("gather", node.input(1), at, axis=0), emit.scalar(0.0, F32))
    _give(node, 0, at, room)
    _give(node, 1, scores, room)
    node.call("reshape", kept, to=2, shape=())


TABLE: Table = {"NON_MAX_SUPPRESSION_V4": suppress, "NON_MAX_SUPPRESSION_V5": suppress_softly}
