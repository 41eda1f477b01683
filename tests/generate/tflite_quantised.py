"""Layers of .tflite files on quantised tensors that came later: functions, slopes, extremes, sizes, transposed sums."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from .builders import Op
from .draw import Draw
from .fills import integers, scales
from .network import Layer, Spec, Unfit, layer

__all__ = ["SIGNED", "TABLE"]

SAME = 0
SIGNED = ("SQUARED_DIFFERENCE", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")  # drawn of i8 only


def _draw(op: str, fits: Any = lambda s: True, **choices: Any) -> Any:
    """A draw of one quantised input, with attributes that functions of the stream and the input's spec give."""

    def draw(d: Draw, b: Any) -> Layer | None:
        x = b.pick(d, lambda s: b.quantised(s) and fits(s))
        if x is None:
            return None
        return layer(op, [x], b.fresh(), **{name: choose(d, b.specs[x]) for name, choose in choices.items()})

    return draw


def _bytes(spec: Spec) -> bool:
    return spec.dtype != "int16"


def _image(spec: Spec) -> bool:
    return len(spec.shape) == 4


def _needed(b: Any, one: Layer, fits: Any = lambda s: True) -> Spec:
    spec: Spec = b.specs[one.inputs[0]]
    if not b.quantised(spec) or not fits(spec):
        raise Unfit(f"{one.op} of {spec}")
    return spec


def _scale(d: Draw, spec: Spec) -> float:
    return float(np.float32(spec.scale * d.one((1.0, 1.0, 0.7, 2.0, 0.31))))


def _zero(d: Draw, spec: Spec) -> int:
    return d.zero(spec.dtype)


_OUT: dict[str, Any] = {"scale": _scale, "zero": _zero}


def _to(spec: Spec, one: Layer, shape: tuple[int, ...] | None = None) -> Spec:
    return replace(spec, shape=spec.shape if shape is None else shape, scale=one["scale"], zero=one["zero"])


def _x(b: Any, one: Layer) -> int:
    return int(b.index[one.inputs[0]])


def _leaky(b: Any, one: Layer) -> None:
    out = b.make(one.outputs[0], _to(_needed(b, one), one))
    b.op("LEAKY_RELU", [_x(b, one)], [out], "LeakyReluOptions", Alpha=one["alpha"])


def _hard_swish(b: Any, one: Layer) -> None:
    spec = _needed(b, one, _bytes)
    if not 2.0**-20 < spec.scale < 2.0**4:
        raise Unfit(f"multipliers of 16 bits at a scale of {spec.scale}")
    b.op("HARD_SWISH", [_x(b, one)], [b.make(one.outputs[0], _to(spec, one))])


def _prelu(b: Any, one: Layer) -> None:
    spec = _needed(b, one, lambda s: _bytes(s) and _image(s))
    slope = b.filled(replace(one["slope"], shape=(1, 1, spec.shape[-1]), dtype=spec.dtype), one["fill"])
    b.op("PRELU", [_x(b, one), slope], [b.make(one.outputs[0], _to(spec, one))])


def _extreme(b: Any, one: Layer) -> None:
    """Beside a constant of the same meaning."""
    spec = _needed(b, one, lambda s: len(s.shape) >= 1)
    other = b.filled(replace(spec, shape=spec.shape[-1:]), one["fill"])
    b.op(one.op, [_x(b, one), other], [b.make(one.outputs[0], spec)], "MaximumMinimumOptions")


def _squared(b: Any, one: Layer) -> None:
    spec = _needed(b, one, lambda s: s.dtype == "int8" and len(s.shape) >= 1)
    other = b.filled(replace(one["other"], shape=spec.shape[-1:]), one["fill"])
    scale = float(np.float32(max(spec.scale, one["other"].scale) ** 2 * one["factor"]))
    out = b.make(one.outputs[0], replace(spec, scale=scale, zero=one["zero"]))
    b.op("SQUARED_DIFFERENCE", [_x(b, one), other], [out])


def _resize(b: Any, one: Layer) -> None:
    spec = _needed(b, one, lambda s: _image(s) and s.dtype == "int8")
    shape = (spec.shape[0], *one["size"], spec.shape[3])
    corners, centers = one["how"]
    kind = "ResizeBilinearOptions" if one.op == "RESIZE_BILINEAR" else "ResizeNearestNeighborOptions"
    b.op(one.op, [_x(b, one), b.const(one["size"])], [b.make(one.outputs[0], replace(spec, shape=shape))], kind,
         AlignCorners=corners, HalfPixelCenters=centers)  # fmt: skip


def _sum(b: Any, one: Layer) -> None:
    spec = _needed(b, one, lambda s: len(s.shape) >= 2)
    axes = {a for a in one["axes"] if a < len(spec.shape)}
    shape = tuple(1 if k in axes else n for k, n in enumerate(spec.shape))
    if not axes:
        raise Unfit("a sum over nothing")
    out = b.make(one.outputs[0], _to(spec, one, shape))
    b.op("SUM", [_x(b, one), b.const(sorted(axes))], [out], "ReducerOptions", KeepDims=True)


def _transposed(b: Any, one: Layer) -> None:
    spec = _needed(b, one, _image)
    kernel, stride, channels, depth = one["kernel"], one["stride"], one["channels"], spec.shape[3]
    ends = zip(spec.shape[1:3], kernel, stride, strict=True)
    sizes = [n * s if one["padding"] == SAME else (n - 1) * s + k for n, k, s in ends]
    taps = kernel[0] * kernel[1] * depth
    b.counted(products=spec.elements * kernel[0] * kernel[1] * channels, weights=taps * channels)
    old = spec.dtype == "uint8"
    power, seed = one["scales"]
    found = scales(1 if old else channels, seed, math.ldexp(1.0, power), 3)
    data = integers((channels, *kernel, depth), one["fill"], 0 if old else -127, 255 if old else 127)
    weights = b.const(data, "uint8" if old else "int8", scale=found, zero=one["zero_of_weights"] if old else 0)
    bias = b.const(integers((channels,), one["fill"], -1000, 1000), "int64" if spec.dtype == "int16" else "int32",
                   scale=[float(np.float32(spec.scale * s)) for s in found])  # fmt: skip
    ratio = one["factor"] * math.ldexp(1.0, -(taps.bit_length() // 2) - (7 if spec.dtype == "int16" else 6))
    shape = (spec.shape[0], *sizes, channels)
    scale = float(np.float32(spec.scale * max(found) / ratio))
    out = b.make(one.outputs[0], replace(spec, shape=shape, scale=scale, zero=one["zero"]))
    b.op("TRANSPOSE_CONV", [b.const(shape), weights, _x(b, one), bias], [out], "TransposeConvOptions",
         Padding=one["padding"], StrideH=stride[0], StrideW=stride[1])  # fmt: skip


_FILL: dict[str, Any] = {"fill": lambda d, _: d.fill()}
_SIZES: dict[str, Any] = {
    "size": lambda d, _: d.pair((1, 2, 3, 5, 8, 13)),
    "how": lambda d, _: d.one(((False, False), (True, False), (False, True))),
}
TABLE = {
    "LEAKY_RELU": Op(_draw("LEAKY_RELU", alpha=lambda d, _: d.one((0.1, 0.2, 0.3, 0.01)), **_OUT), _leaky, 1),
    "HARD_SWISH": Op(_draw("HARD_SWISH", _bytes, **_OUT), _hard_swish, 1),
    "PRELU": Op(
        _draw("PRELU", lambda s: _bytes(s) and _image(s), slope=lambda d, s: d.quantised((1,), s.dtype), **_OUT,
              **_FILL),
        _prelu, 1,
    ),
    **{op: Op(_draw(op, lambda s: len(s.shape) >= 1, **_FILL), _extreme, 1) for op in ("MAXIMUM", "MINIMUM")},
    "SQUARED_DIFFERENCE": Op(
        _draw("SQUARED_DIFFERENCE", lambda s: s.dtype == "int8", other=lambda d, s: d.quantised((1,), s.dtype),
              factor=lambda d, _: d.one((50.0, 200.0, 11.0)), zero=_zero, **_FILL), _squared, 1,
    ),
    **{
        op: Op(_draw(op, lambda s: _image(s) and s.dtype == "int8", **_SIZES), _resize, 1)
        for op in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
    },
    "SUM": Op(
        _draw("SUM", lambda s: len(s.shape) >= 2, axes=lambda d, s: tuple(d.shuffled(range(len(s.shape)))[:2]),
              scale=lambda d, s: float(np.float32(s.scale * d.one((1.0, 3.0, 20.0)))), zero=_zero), _sum, 1,
    ),
    "TRANSPOSE_CONV": Op(
        _draw("TRANSPOSE_CONV", _image, kernel=lambda d, _: d.pair((1, 2, 3, 4, 5)),
              stride=lambda d, _: d.pair((1, 2, 2, 3)), padding=lambda d, _: d.below(2),
              channels=lambda d, _: d.channels(17), scales=lambda d, _: (d.one((-9, -7, -5)), d.below(1 << 30)),
              factor=lambda d, _: 1 + d.below(256) / 256, zero=_zero,
              zero_of_weights=lambda d, _: d.zero("uint8"), **_FILL), _transposed, 2,
    ),
}  # fmt: skip
