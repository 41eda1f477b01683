"""Layers of .tflite files that multiply by weights: convolutions and fully connected ones; and pools and means."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from .builders import Op
from .draw import Draw
from .fills import integers, scales
from .network import Layer, Spec, Unfit, layer

__all__ = ["TABLE"]

SAME, VALID = 0, 1
ACTIVATIONS = (0, 0, 0, 1, 2, 3)
RATIOS = (1.0, 0.9999999, 1.0000001, 0.5, 0.01, 0.0078125, 0.4999999, 2.0, 3.9)
WEIGHT_SCALES = (-9, -7, -7, -5, -3)  # as powers of two


# --- drawing -----------------------------------------------------------------------------------------------------


def _ratio(d: Draw) -> tuple[str, float]:
    """How sums become outputs: so that they fill the range, saturate or vanish; or a multiplier near 1 or its ends."""
    if d.chance(0.75):
        return "natural", d.one((1.0, 1.0, 1.0, 2.0, 0.25)) * (1 + d.below(256) / 256)
    return "ratio", d.one((*RATIOS, *RATIOS, 2.0**-24, 2.0**-31))


def _weighted(d: Draw, spec: Spec) -> dict[str, Any]:
    """The attributes of any layer with weights."""
    zero = d.zero(spec.dtype)
    none = d.chance(0.2) and spec.dtype != "uint8"  # LiteRT wants a bias
    bias = None if none else (d.fill(), 1 << d.one((20, 28)) if d.chance(0.07) else d.one((100, 1000, 5000)))
    ratio, fill = _ratio(d), d.fill()
    if ratio[0] == "ratio" and ratio[1] > 0.1 and d.chance(0.7):  # what saturates says little
        fill = d.one(("small", "sparse")), fill[1]
    old = {"zero_of_weights": d.zero("uint8")} if spec.dtype == "uint8" else {}
    return {
        **old, "fill": fill, "bias": bias, "ratio": ratio, "act": d.activation(ACTIVATIONS, zero),
        "zero": zero,
        "spread": d.one((0, 1, 3, 3, 8, 14)), "scales": (d.one(WEIGHT_SCALES), d.below(1 << 30)),
        "wide_bias": spec.dtype == "int16" and d.chance(0.8),
    }  # fmt: skip


def _windowed(d: Draw, spec: Spec) -> dict[str, Any]:
    rows, cols = spec.shape[1:3]
    kernel = tuple(1 if n == 1 and d.chance(0.8) else k for n, k in zip(
        (rows, cols), d.pair((1, 1, 2, 3, 3, 4, 5, 7)), strict=True))  # fmt: skip
    dilated = d.chance(0.2)
    return {
        "kernel": kernel, "stride": d.pair((1, 1, 1, 2, 3)), "padding": d.one((SAME, VALID)),
        "dilation": d.pair((1, 2, 3)) if dilated else (1, 1),
    }  # fmt: skip


def _draw_conv(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, b.is_image)
    if x is None:
        return None
    given = {**_windowed(d, b.specs[x]), **_weighted(d, b.specs[x]), "channels": d.channels()}
    if d.chance(0.4):
        given.update(kernel=(1, 1), dilation=(1, 1))
    return layer("CONV_2D", [x], b.fresh(), **given)


def _draw_depthwise(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, b.is_image)
    if x is None:
        return None
    given = {**_windowed(d, b.specs[x]), **_weighted(d, b.specs[x])}
    given["wide_bias"] = b.specs[x].dtype == "int16"  # tflite-micro reads no others here
    return layer("DEPTHWISE_CONV_2D", [x], b.fresh(), multiplier=d.one((1, 1, 1, 1, 2, 3, 4)), **given)


def _draw_dense(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, lambda s: b.quantised(s) and len(s.shape) >= 2)
    if x is None:
        return None
    given = _weighted(d, b.specs[x])
    if b.specs[x].dtype == "int16" or d.chance(0.7):
        given["spread"] = -1  # one scale for all
    return layer("FULLY_CONNECTED", [x], b.fresh(), keep=d.chance(0.4), channels=d.channels(), **given)


def _draw_pool(op: str) -> Any:
    def draw(d: Draw, b: Any) -> Layer | None:
        x = b.pick(d, b.is_image)
        if x is None:
            return None
        given = _windowed(d, b.specs[x])
        del given["dilation"]
        return layer(op, [x], b.fresh(), act=d.activation(ACTIVATIONS, b.specs[x].zero), **given)

    return draw


def _draw_mean(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, lambda s: b.quantised(s) and len(s.shape) >= 2)
    if x is None:
        return None
    spec = b.specs[x]
    rank = len(spec.shape)
    axes = tuple(k for k in range(rank) if d.chance(0.5)) or (rank - 1,)
    if rank == 4 and d.chance(0.5):
        axes = (1, 2)
    factor = d.one((1.0, 1.0, 0.5, 0.999, 3.0, 0.1))
    scale = float(np.float32(spec.scale * factor))
    negative = d.chance(0.2)
    axes = tuple(a - rank if negative else a for a in axes)
    return layer("MEAN", [x], b.fresh(), axes=axes, keep=d.chance(0.5), scale=scale, zero=d.zero(spec.dtype))


# --- writing -----------------------------------------------------------------------------------------------------


def reach(size: int, kernel: int, stride: int, dilation: int, padding: int) -> int:
    """Outputs along an axis."""
    out = -(-size // stride) if padding == SAME else (size - (kernel - 1) * dilation - 1) // stride + 1
    if out < 1:
        raise Unfit(f"a window of {kernel} on {size} elements")
    return out


def _sizes(spec: Spec, one: Layer) -> list[int]:
    if len(spec.shape) != 4 or min(*one["kernel"], *one["stride"], *one.get("dilation", (1,))) < 1:
        raise Unfit(f"{one.op} of {spec}")
    return [
        reach(*v, one["padding"])
        for v in zip(spec.shape[1:3], one["kernel"], one["stride"], one.get("dilation", (1, 1)), strict=True)
    ]


def _weights(b: Any, one: Layer, shape: tuple[int, ...], axis: int, taps: int) -> tuple[list[int], float]:
    """The tensors of weights and biases, and the scale of the output."""
    spec = b.specs[one.inputs[0]]
    if not b.quantised(spec):
        raise Unfit(f"{one.op} of {spec}")
    channels = shape[axis]
    spread = one["spread"]
    power, seed = one["scales"]
    old = spec.dtype == "uint8"
    found = scales(1 if spread < 0 or old else channels, seed, math.ldexp(1.0, power), max(spread, 0))
    if old:
        data, zero = integers(shape, one["fill"], 0, 255), one["zero_of_weights"]
        weights = b.const(data, "uint8", scale=found, zero=zero, axis=axis)
    else:
        data = integers(shape, one["fill"], -127, 127)
        weights = b.const(data, "int8", scale=found, axis=axis)
    ins = [b.index[one.inputs[0]], weights]
    how, factor = one["ratio"]
    product = spec.scale * max(found)
    if how == "natural":
        # sums of so many products grow as the root of their number
        wide = 7 if spec.dtype == "int16" else 6
        ratio = factor * math.ldexp(1.0, -(taps.bit_length() // 2) - wide)
    else:
        ratio = factor
    b.counted(weights=data.size + 4 * channels)
    if one["bias"] is not None:
        fill, maximum = one["bias"]
        ins.append(b.const(_biases(spec, one, fill, maximum, channels, taps, ratio), "int64" if one["wide_bias"] else
                           "int32", scale=[float(np.float32(spec.scale * s)) for s in found]))  # fmt: skip
    elif spec.dtype != "int16" and taps * 127 * 255 * max(ratio, 1.0) >= 1 << 30:
        raise Unfit("sums of 32 bits would overflow")
    return ins, float(np.float32(product / ratio))


def _biases(
    spec: Spec, one: Layer, fill: Any, maximum: int, channels: int, taps: int, ratio: float
) -> Any:
    """Biases that keep sums, and what multipliers above 1 make of them, inside of 32 bits where sums have as many."""
    sums = taps * 127 * (32768 if spec.dtype == "int16" else 510 if spec.dtype == "uint8" else 255)
    if not one["wide_bias"]:
        room = int((1 << 30) / (2 * max(ratio, 1.0))) - sums
        if room < 1:
            raise Unfit("sums of 32 bits would overflow")
        maximum = min(maximum, room)
    return integers((channels,), fill, -maximum, maximum)


def _conv(b: Any, one: Layer) -> None:
    spec = b.specs[one.inputs[0]]
    rows, cols = _sizes(spec, one)
    kernel, depth, channels = one["kernel"], spec.shape[3], one["channels"]
    taps = kernel[0] * kernel[1] * depth
    b.counted(products=spec.shape[0] * rows * cols * channels * taps)
    ins, scale = _weights(b, one, (channels, *kernel, depth), 0, taps)
    out = b.make(one.outputs[0], Spec((spec.shape[0], rows, cols, channels), spec.dtype, scale, one["zero"]))
    b.op("CONV_2D", ins, [out], "Conv2DOptions", **_options(one))


def _depthwise(b: Any, one: Layer) -> None:
    spec = b.specs[one.inputs[0]]
    rows, cols = _sizes(spec, one)
    kernel, channels = one["kernel"], spec.shape[3] * one["multiplier"]
    taps = kernel[0] * kernel[1]
    b.counted(products=spec.shape[0] * rows * cols * channels * taps)
    ins, scale = _weights(b, one, (1, *kernel, channels), 3, taps)
    out = b.make(one.outputs[0], Spec((spec.shape[0], rows, cols, channels), spec.dtype, scale, one["zero"]))
    b.op("DEPTHWISE_CONV_2D", ins, [out], "DepthwiseConv2DOptions", DepthMultiplier=one["multiplier"], **_options(one))


def _options(one: Layer) -> dict[str, int]:
    dilation = one.get("dilation", (1, 1))
    return {
        "Padding": one["padding"], "StrideH": one["stride"][0], "StrideW": one["stride"][1],
        "DilationHFactor": dilation[0], "DilationWFactor": dilation[1], "FusedActivationFunction": one["act"],
    }  # fmt: skip


def _dense(b: Any, one: Layer) -> None:
    spec = b.specs[one.inputs[0]]
    if len(spec.shape) < 2:
        raise Unfit("rows of a vector")
    inner, channels = spec.shape[-1], one["channels"]
    rows = spec.elements // inner
    b.counted(products=rows * inner * channels)
    ins, scale = _weights(b, one, (channels, inner), 0, inner)
    shape = (*spec.shape[:-1], channels) if one["keep"] else (rows, channels)
    out = b.make(one.outputs[0], Spec(shape, spec.dtype, scale, one["zero"]))
    b.op("FULLY_CONNECTED", ins, [out], "FullyConnectedOptions", FusedActivationFunction=one["act"],
         KeepNumDims=one["keep"], WeightsFormat=0)  # fmt: skip


def _pool(b: Any, one: Layer) -> None:
    spec = b.specs[one.inputs[0]]
    if not b.is_image(spec):
        raise Unfit(f"{one.op} of {spec}")
    rows, cols = _sizes(spec, one)
    out = b.make(one.outputs[0], replace(spec, shape=(spec.shape[0], rows, cols, spec.shape[3])))
    given = _options(one)
    del given["DilationHFactor"], given["DilationWFactor"]
    b.op(one.op, [b.index[one.inputs[0]]], [out], "Pool2DOptions", FilterHeight=one["kernel"][0],
         FilterWidth=one["kernel"][1], **given)  # fmt: skip


def _mean(b: Any, one: Layer) -> None:
    spec = b.specs[one.inputs[0]]
    rank = len(spec.shape)
    if not b.quantised(spec) or any(not -rank <= a < rank for a in one["axes"]):
        raise Unfit(f"MEAN of {spec}")
    axes = {a % rank for a in one["axes"]}
    if one["keep"]:
        shape = tuple(1 if k in axes else n for k, n in enumerate(spec.shape))
    else:
        shape = tuple(n for k, n in enumerate(spec.shape) if k not in axes)
    out = b.make(one.outputs[0], Spec(shape, spec.dtype, one["scale"], one["zero"]))
    b.op("MEAN", [b.index[one.inputs[0]], b.const(one["axes"])], [out], "ReducerOptions", KeepDims=one["keep"])


TABLE = {
    "CONV_2D": Op(_draw_conv, _conv, 10),
    "DEPTHWISE_CONV_2D": Op(_draw_depthwise, _depthwise, 8),
    "FULLY_CONNECTED": Op(_draw_dense, _dense, 6),
    "AVERAGE_POOL_2D": Op(_draw_pool("AVERAGE_POOL_2D"), _pool, 2),
    "MAX_POOL_2D": Op(_draw_pool("MAX_POOL_2D"), _pool, 2),
    "MEAN": Op(_draw_mean, _mean, 2),
}
