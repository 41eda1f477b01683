"""What follows a detector: boxes decoded from their anchors, and of those that overlap the best one kept."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32, F64, I8, I32, U8
from sdk.errors import BuildError
from sdk.frontends.emit import Emitter
from sdk.frontends.moves import padded, part
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.flexbuffers import read_flags
from sdk.frontends.tflite.operators.real.storage import real_input
from sdk.frontends.tflite.reader import Operator

__all__ = ["CODE", "TABLE", "Settings"]

CODE: Final = "TFLite_Detection_PostProcess"
MAX_BOXES: Final = 1 << 20
PER_CLASS: Final = 100  # detections of a class where the file does not say
_LOWEST: Final = float(np.finfo(np.float32).min)


@dataclass(frozen=True, slots=True)
class Settings:
    """``maximum`` detections, of ``labels`` classes each, of boxes with ``classes`` scores; of one class ``per_class``
    where each is suppressed by itself (``regular``); ``scales`` of y, x, h, w."""

    maximum: int
    labels: int
    classes: int
    per_class: int
    regular: bool
    minimum: float
    overlap: float
    scales: tuple[float, float, float, float]

    @staticmethod
    def of(operator: Operator) -> Settings:
        """Those of an operator of a file.

        Raises:
            BuildError: one is missing, or none that the kernels take.
        """
        flags = read_flags(operator.custom_options)
        y, x, h, w = (float(np.float32(flags.number(f"{k}_scale"))) for k in "yxhw")
        minimum, overlap = (float(np.float32(flags.number(f"nms_{k}_threshold"))) for k in ("score", "iou"))
        if not all(math.isfinite(s) and s != 0 for s in (y, x, h, w)):
            raise BuildError(f"the scales of boxes are {y}, {x}, {h} and {w}")
        if not 0 < overlap <= 1 or math.isnan(minimum):
            raise BuildError(f"boxes of scores from {minimum} that overlap by more than {overlap}: a share is 0 to 1")
        found = Settings(
            flags.integer("max_detections", 1, MAX_BOXES), flags.integer("max_classes_per_detection", 1, MAX_BOXES),
            flags.integer("num_classes", 1, MAX_BOXES), flags.integer("detections_per_class", 1, MAX_BOXES, PER_CLASS),
            bool(flags.number("use_regular_nms", 0)), minimum, overlap, (y, x, h, w),
        )  # fmt: skip
        if found.maximum * found.labels > MAX_BOXES:
            raise BuildError(f"{found.maximum} detections of {found.labels} classes each are too many")
        return found

    @property
    def above(self) -> float:
        """The largest number that is no score of a detection."""
        return float(np.nextafter(np.float32(self.minimum), np.float32(-np.inf)))


def detection_post_process(node: OpNode) -> None:
    """TFLite_Detection_PostProcess: inputs (encodings [1, n, 4 or more], scores [1, n, classes], anchors [n, 4]),
    results (boxes, classes, scores, how many); what is beyond the last detection is 0."""
    given = Settings.of(node.operator)
    if len(node.operator.inputs) != 3 or len(node.operator.outputs) != 4:
        raise BuildError(f"it has {len(node.operator.inputs)} inputs and {len(node.operator.outputs)} outputs")
    encodings, scores, anchors = (real_input(node, k, F32, U8, I8) for k in range(3))
    boxes, rows = encodings.type.shape[1:2], scores.type.shape
    if encodings.type.rank != 3 or len(rows) != 3 or not isinstance(boxes[0], int) or not boxes[0]:
        raise BuildError(f"encodings {list(encodings.type.shape)} and scores {list(rows)} of one image are wanted")
    count = boxes[0]
    if encodings.type.shape[0] != 1 or rows[:2] != (1, count) or anchors.type.shape != (count, 4):
        raise BuildError(f"{list(encodings.type.shape)} boxes, {list(rows)} scores, {list(anchors.type.shape)} anchors")
    if rows[2] not in (given.classes, given.classes + 1):
        raise BuildError(f"{rows[2]} scores a box for {given.classes} classes, or one more with the background")
    width = encodings.type.shape[2]
    if not isinstance(width, int) or width < 4:
        raise BuildError(f"boxes are encoded by {width} numbers, not by 4 or more")
    emit = node.emitter
    corners = _decoded(node, emit, encodings, anchors, given)
    flat = emit.call("reshape", scores, shape=rows[1:])
    named = part(emit, flat, 1, rows[2] - given.classes, given.classes)  # the first may be the background
    find = _regular if given.regular else _fast
    _put(node, emit, given, *find(emit, corners, named, given))


def _decoded(node: OpNode, emit: Emitter, encodings: Value, anchors: Value, given: Settings) -> Value:
    """Corners [n, 4] of boxes, computed in double precision and rounded once, as the kernels do."""
    known = emit.numbers(anchors)
    if known is not None and (known[:, 2:] < 0).any():
        raise BuildError(f"anchors ({node.tensor(2).title}) have heights or widths below 0")
    count = anchors.type.shape[0]
    first = part(emit, encodings, 2, 0, 4)
    wide = emit.call("cast", emit.call("reshape", first, shape=(count, 4)), to=str(F64))
    scaled = emit.call("div", wide, emit.const(np.asarray(given.scales, np.float64), "scales"))
    exact = emit.call("cast", anchors, to=str(F64))
    places, sizes = (part(emit, exact, 1, k, 2) for k in (0, 2))
    center = emit.call("add", emit.call("mul", part(emit, scaled, 1, 0, 2), sizes), places)
    grown = emit.call("mul", emit.scalar(0.5, F64), emit.call("exp", part(emit, scaled, 1, 2, 2)))
    ends = [emit.call("cast", v, to=str(F32)) for v in (center, emit.call("mul", grown, sizes))]
    return emit.call("concat", *(emit.call(op, *ends) for op in ("sub", "add")), axis=1)


def _kept(
    emit: Emitter, corners: Value, scores: Value, maximum: int, given: Settings
) -> tuple[Value, Value, Value, Value]:
    """Of the classes of ``scores[1, c, n]`` the best boxes, the best first: class and box of each, whether it is one,
    and how many there are."""
    boxes = emit.call("reshape", corners, shape=(1, *corners.type.shape))
    found, count = emit.calls(
        "nms", boxes, scores, maximum=maximum, overlap=given.overlap, minimum=given.above, center=False
    )
    rows = found.type.shape[0]
    labels, places = (emit.call("reshape", part(emit, found, 1, k, 1), shape=(rows,)) for k in (1, 2))
    return labels, places, _first(emit, rows, count), count


def _first(emit: Emitter, rows: object, count: Value) -> Value:
    """Which of so many rows come before ``count``."""
    assert isinstance(rows, int)
    return emit.call("less", emit.call("iota", extent=rows, start=0, step=1, dtype=str(I32)), count)


def _fast(
    emit: Emitter, corners: Value, scores: Value, given: Settings
) -> tuple[Value, Value, Value, Value, Value]:
    """Boxes compete by their best class, and each brings its best few: boxes [m, 4], classes and scores [m, labels]."""
    n = scores.type.shape[0]
    best, labels = emit.calls("topk", scores, k=min(given.labels, given.classes), axis=1, largest=True)
    rivals = emit.call("reshape", part(emit, best, 1, 0, 1), shape=(1, 1, n))
    _, places, inside, count = _kept(emit, corners, rivals, given.maximum, given)
    boxes, labels, best = (emit.call("gather", v, places, axis=0) for v in (corners, labels, best))
    return boxes, emit.call("cast", labels, to=str(F32)), best, inside, count


def _regular(
    emit: Emitter, corners: Value, scores: Value, given: Settings
) -> tuple[Value, Value, Value, Value, Value]:
    """Boxes compete within each class; the best of all classes are kept, of equal ones those of the first class."""
    n, classes = scores.type.shape
    by_class = emit.call("reshape", emit.call("transpose", scores, perm=(1, 0)), shape=(1, classes, n))
    labels, places, inside, count = _kept(emit, corners, by_class, min(given.per_class, given.maximum), given)
    rows = labels.type.shape[0]
    assert isinstance(rows, int)
    both = emit.call("concat", *(emit.call("reshape", v, shape=(rows, 1)) for v in (places, labels)), axis=1)
    found = emit.call("gather_nd", scores, both, batch=0)
    ranked = emit.call("where", inside, found, emit.scalar(_LOWEST, F32))
    maximum = min(rows, given.maximum)
    best, order = emit.calls("topk", ranked, k=maximum, axis=0, largest=True)
    labels, places = (emit.call("gather", v, order, axis=0) for v in (labels, places))
    count = emit.call("minimum", count, emit.const(np.asarray([maximum], np.int32), "maximum"))
    labels, best = (emit.call("reshape", v, shape=(maximum, 1)) for v in (emit.call("cast", labels, to=str(F32)), best))
    return emit.call("gather", corners, places, axis=0), labels, best, _first(emit, maximum, count), count


def _put(
    node: OpNode, emit: Emitter, given: Settings, boxes: Value, labels: Value, scores: Value, inside: Value,
    count: Value,
) -> None:  # fmt: skip
    """The results: boxes once for each of their classes, zeros beyond the last detection."""
    rows, columns = labels.type.shape
    assert isinstance(rows, int)
    assert isinstance(columns, int)
    total = given.maximum * given.labels
    # detections of one class each stand together, those of several at the places that their box has for labels
    across = given.labels if not given.regular else 1
    more = [(0, total // across - rows), (0, across - columns)]
    spread = emit.call("broadcast_to", emit.call("reshape", boxes, shape=(rows, 1, 4)), shape=(rows, columns, 4))
    zero = emit.scalar(0.0, F32)
    for k, value in enumerate((spread, labels, scores)):
        tail = value.type.shape[2:]
        mask = emit.call("reshape", inside, shape=(rows, 1, *(1 for _ in tail)))
        kept = emit.call("where", mask, value, zero)
        whole = padded(emit, kept, [*more, *((0, 0) for _ in tail)], value=0.0)
        node.call("reshape", whole, to=k, shape=(1, total, *tail))
    node.cast(count, F32, 3)


TABLE: Table = {CODE: detection_post_process}
