"""Boxes that stand for those they overlap: ``nms``, the non-maximum suppression of detectors.

The selection is as long as it can be, the number of boxes in it is a second result: the dim of a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.analysis.path_conditions import PathConditions
from sdk.compiler.ir.intrinsics import cast, idx, imm, op
from sdk.compiler.ir.loops import Alloc, Block, Buffer, If, Let, Load, Loops, Ref, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import F32, I32, I64, TensorType
from sdk.compiler.ops.build import function, loop, param, variable
from sdk.compiler.ops.positions import guarded, unproved
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.shapes import require_equal
from sdk.compiler.ops.traits import OPAQUE
from sdk.compiler.sym import Dim, Var, dmin
from sdk.errors import BuildError

Array = NDArray[Any]
_NAMES = ("top", "left", "bottom", "right")


def _maximum(boxes: TensorType, maximum: int) -> Dim:
    """Boxes that one class of one image can keep."""
    return dmin(boxes.shape[1], maximum)


def _infer(
    boxes: TensorType, scores: TensorType, *, maximum: int, overlap: float, minimum: Any, center: bool
) -> tuple[TensorType, TensorType]:
    if boxes.rank != 3 or scores.rank != 3 or boxes.dtype != F32 or scores.dtype != F32 or boxes.shape[2] != 4:
        raise BuildError("nms wants f32 boxes[b, n, 4] and scores[b, c, n]")
    require_equal("images of boxes and scores", boxes.shape[0], scores.shape[0])
    require_equal("boxes and scores", boxes.shape[1], scores.shape[2])
    rows = scores.shape[0] * scores.shape[1] * _maximum(boxes, maximum)
    return TensorType(I64, (rows, 3)), TensorType(I32, (1,))


def _corners(box: Array, center: bool) -> tuple[Any, Any, Any, Any]:
    a, b, c, d = (box[..., k] for k in range(4))
    if center:
        return b - d / 2, a - c / 2, b + d / 2, a + c / 2
    return np.minimum(a, c), np.minimum(b, d), np.maximum(a, c), np.maximum(b, d)


def _overlaps(one: Array, rest: Array, center: bool) -> Array:
    """Intersection over union of a box with others."""
    t, x, b, r = _corners(one, center)
    top, left, bottom, right = _corners(rest, center)
    high = np.maximum(np.minimum(b, bottom) - np.maximum(t, top), 0)
    wide = np.maximum(np.minimum(r, right) - np.maximum(x, left), 0)
    both = high * wide
    union = (b - t) * (r - x) + (bottom - top) * (right - left) - both
    return np.where(union > 0, both / np.where(union > 0, union, 1), 0)


def _ref(
    boxes: Array, scores: Array, *, maximum: int, overlap: float, minimum: Any, center: bool
) -> tuple[Array, Array]:
    found = []
    for image, label in np.ndindex(scores.shape[:2]):
        score = scores[image, label]
        alive = np.ones(score.shape, bool) if minimum is False else score > np.float32(minimum)
        for _ in range(min(maximum, score.size)):
            if not alive.any():
                break
            best = int(np.argmax(np.where(alive, score, -np.inf)))
            found.append((image, label, best))
            alive &= ~(_overlaps(boxes[image, best], boxes[image], center) > np.float32(overlap))
            alive[best] = False
    out = np.zeros((scores.shape[0] * scores.shape[1] * min(maximum, boxes.shape[1]), 3), np.int64)
    out[: len(found)] = np.array(found, np.int64).reshape(-1, 3)
    return out, np.array([len(found)], np.int32)


def _f32(name: str) -> Ref:
    return Ref(name, F32)


def _box(tag: str, image: Dim, at: Dim, center: bool) -> list[Stmt]:
    """Names the corners of a box and its area: ``top_tag`` … ``area_tag``."""
    raw = [Load("boxes", (image, at, k), F32) for k in range(4)]
    half = imm(0.5, F32)
    if center:
        x, y = (op("mul", raw[k], half) for k in (2, 3))
        values: list[ValueExpr] = [op(sign, raw[k], d) for sign in ("sub", "add") for k, d in ((1, y), (0, x))]
    else:
        values = [op(pick, raw[k], raw[k + 2]) for pick in ("min", "max") for k in (0, 1)]
    high = op("sub", _f32(f"bottom_{tag}"), _f32(f"top_{tag}"))
    wide = op("sub", _f32(f"right_{tag}"), _f32(f"left_{tag}"))
    return [
        *(Let(f"{n}_{tag}", v) for n, v in zip(_NAMES, values, strict=True)),
        Let(f"area_{tag}", op("mul", high, wide)),
    ]


def _meets(overlap: float) -> ValueExpr:
    """Whether the boxes ``a`` and ``b`` overlap by more, without a division by a union of nothing."""
    zero = imm(0.0, F32)
    sides = [
        op("sub", op("min", _f32(f"{hi}_a"), _f32(f"{hi}_b")), op("max", _f32(f"{lo}_a"), _f32(f"{lo}_b")))
        for hi, lo in (("bottom", "top"), ("right", "left"))
    ]
    both = op("mul", op("max", sides[0], zero), op("max", sides[1], zero))
    union = op("sub", op("add", _f32("area_a"), _f32("area_b")), both)
    full = op("gt", union, zero)
    share = op("tdiv", both, op("select", full, union, imm(1.0, F32), dtype=F32))
    return op("gt", op("select", full, share, zero, dtype=F32), imm(overlap, F32))


def _loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]) -> Loops:
    """Each class of each image { ranks { the best box alive is kept; those that it overlaps are alive no more } }."""
    boxes, scores = types
    count, center = boxes.shape[1], bool(given["center"])
    b, c = variable("b", scores.shape[0]), variable("c", scores.shape[1])
    maximum = _maximum(boxes, given["maximum"])
    i, j, k = variable("i", count), variable("j", count), variable("k", count)
    row, column = variable("row", outs[0].shape[0]), variable("column", 3)
    kept, best, score = Load("kept", (), I32), Load("best", (), I32), Load("score", (), F32)
    start: ValueExpr = imm(1)
    if given["minimum"] is not False:
        start = cast(op("gt", Load("scores", (b.expr, c.expr, i.expr), F32), imm(float(given["minimum"]), F32)), I32)
    at, slot = Var("at", *I32.limits).expr, Var("slot", *I32.limits).expr
    mine = Load("scores", (b.expr, c.expr, j.expr), F32)
    wins = op("or", op("lt", best, imm(0)), op("gt", mine, score))
    alive = op("ne", Load("alive", (j.expr,), I32), imm(0))
    take = Block((Store("best", (), idx(j.expr)), Store("score", (), mine)))
    search = loop(j, count, If(op("and", alive, wins), take))
    dies = If(_meets(given["overlap"]), Block((Store("alive", (k.expr,), imm(0)),)))
    drop = loop(k, count, *_box("b", b.expr, k.expr, center), dies)
    put = Block(tuple(Store("o0", (slot, q), cast(idx(d), I64)) for q, d in enumerate((b.expr, c.expr, at))))
    keep = Block((
        Let("slot", kept),
        guarded(unproved([(slot, outs[0].shape[0])], PathConditions()), put),
        Store("kept", (), op("add", kept, imm(1))),
        *_box("a", b.expr, at, center),
        drop,
        Store("alive", (at,), imm(0)),
    ))  # fmt: skip
    found = guarded(unproved([(at, count)], PathConditions()), keep)
    reset = (Store("best", (), imm(-1)), Store("score", (), imm(0.0, F32)))
    ranks = loop(variable("rank", maximum), maximum, *reset, search, Let("at", best), found)
    each = (loop(i, count, Store("alive", (i.expr,), start)), ranks)
    body: list[Stmt] = [
        loop(row, outs[0].shape[0], loop(column, 3, Store("o0", (row.expr, column.expr), imm(0, I64)))),
        Alloc(Buffer("alive", I32, (count,), "scratch")),
        *(Alloc(Buffer(n, kind, (), "register")) for n, kind in (("kept", I32), ("best", I32), ("score", F32))),
        Store("kept", (), imm(0)),
        loop(b, scores.shape[0], loop(c, scores.shape[1], *each)),
        Store("o1", (0,), kept),
    ]
    results = [param(f"o{k}", t, "write") for k, t in enumerate(outs)]
    return function(name, [param("boxes", boxes), param("scores", scores), *results], body)


def _sample_boxes(*shape: int) -> Any:
    def make(rng: np.random.Generator) -> Array:
        return rng.uniform(0, 1, (*shape, 4)).astype(np.float32)

    return make


_T = TensorType
_N: Dim = Var("n", 1, 9).expr
define(
    OpDef(
        "nms",
        ("boxes", "scores"),
        _infer,
        _ref,
        _loops,
        samples=(
            sample(
                _T(F32, (2, 9, 4)), _T(F32, (2, 3, 9)), values={0: _sample_boxes(2, 9)},
                maximum=4, overlap=0.3, minimum=0.1, center=False,
            ),
            sample(_T(F32, (1, _N, 4)), _T(F32, (1, 2, _N)), maximum=5, overlap=0.2, minimum=False, center=True),
        ),
        kind=OPAQUE,
    )
)  # fmt: skip
