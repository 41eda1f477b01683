"""ONNX layers that compute where elements go: scatters and images in another size."""

from __future__ import annotations

from typing import Any

import numpy as np

from .builders import Op
from .draw import Draw
from .network import Layer, Unfit, layer

__all__ = ["TABLE"]


def _draw_scatter(op: str) -> Any:
    def draw(d: Draw, b: Any) -> Layer | None:
        x = b.pick(d, lambda s: s.dtype != "bool" and 1 <= len(s.shape) <= 4)
        if x is None:
            return None
        shape = b.specs[x].shape
        spread = len(shape) if op == "ScatterND" else 1
        count = d.between(1, 3)
        axis = d.below(len(shape))
        rows = [tuple(d.below(n) for n in shape[:spread]) for _ in range(count)]
        if op == "ScatterElements":
            rows = [(k,) for k in d.shuffled(range(shape[axis]))[:count]]
        rows = list(dict.fromkeys(rows))  # the same place twice leaves the order open
        return layer(op, [x], b.fresh(), rows=tuple(rows), axis=axis, fill=d.fill(),
                     reduction=d.one(("none", "none", "add", "max")))  # fmt: skip

    return draw


def _scatter(b: Any, one: Layer) -> None:
    spec = b.types[one.inputs[0]]
    rows, axis = one["rows"], one["axis"]
    if one.op == "ScatterND":
        if len(rows[0]) != len(spec.shape) or any(p >= n for row in rows for p, n in zip(row, spec.shape, strict=True)):
            raise Unfit(f"places outside of {spec}")
        places, shape, given = np.asarray(rows, np.int64), (len(rows),), {}
    else:
        if axis >= len(spec.shape) or any(r[0] >= spec.shape[axis] for r in rows):
            raise Unfit(f"places outside of {spec}")
        shape = tuple(len(rows) if k == axis else n for k, n in enumerate(spec.shape))
        column = np.asarray([r[0] for r in rows], np.int64).reshape([-1 if k == axis else 1 for k in range(len(shape))])
        places, given = np.broadcast_to(column, shape), {"axis": axis}
    updates = b.filled(shape, one["fill"], 3, spec.dtype)
    b.node(one.op, [one.inputs[0], b.const(np.ascontiguousarray(places)), updates], one.outputs,
           reduction=one["reduction"], **given)  # fmt: skip


def _draw_resize(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, lambda s: s.dtype == "float32" and len(s.shape) == 4)
    if x is None:
        return None
    mode = d.one(("nearest", "nearest", "linear", "cubic"))
    # at exact halves and edges engines may choose either neighbour where scales are no powers of two
    scales = tuple(d.one((1.0, 2.0, 2.0, 3.0, 0.5)) for _ in range(2))
    return layer("Resize", [x], b.fresh(), mode=mode, scales=scales,
                 coordinates=d.one(("half_pixel", "asymmetric", "pytorch_half_pixel")),
                 rounding=d.one(("floor", "ceil", "round_prefer_floor")))  # fmt: skip


def _resize(b: Any, one: Layer) -> None:
    spec = b.types[one.inputs[0]]
    if spec.dtype != "float32" or len(spec.shape) != 4:
        raise Unfit(f"Resize of {spec}")
    scales = b.const(np.asarray((1.0, 1.0, *one["scales"]), np.float32))
    given = {"nearest_mode": one["rounding"]} if one["mode"] == "nearest" else {}
    b.node("Resize", [one.inputs[0], "", scales], one.outputs, mode=one["mode"],
           coordinate_transformation_mode=one["coordinates"], **given, exact=False)  # fmt: skip


TABLE = {
    "ScatterElements": Op(_draw_scatter("ScatterElements"), _scatter, 1),
    "ScatterND": Op(_draw_scatter("ScatterND"), _scatter, 1),
    "Resize": Op(_draw_resize, _resize, 2),
}
