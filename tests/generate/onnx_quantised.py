"""ONNX layers on quantised tensors: operators between DequantizeLinear and QuantizeLinear, and QLinear operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from .builders import Op
from .draw import Draw
from .fills import scales
from .network import Layer, Spec, Unfit, layer
from .onnx_products import draw_window, window_attributes

__all__ = ["TABLE"]

NARROW = ("int8", "uint8")
# Results that lie between two steps are rounded by the last bit of a sum of reals, which differs by engine: no scale of
# a result is a simple fraction of those of its operands.
ODD = 1.0371093


def narrow(spec: Spec) -> bool:
    return spec.dtype in NARROW


def _weights(d: Draw) -> dict[str, Any]:
    zero = d.zero("int8")
    return {
        "fill": d.fill(), "channels": d.channels(), "spread": d.one((-1, 0, 3, 8)),
        "scales": (d.one((-9, -7, -7, -5)), d.below(1 << 30)), "gain": d.one((1.0, 1.0, 4.0, 0.25)),
        "bias": None if d.chance(0.3) else d.fill(), "zero": zero,
        "act": d.activation(("", "", "Relu", "Clip"), zero),
    }  # fmt: skip


# --- writing -----------------------------------------------------------------------------------------------------


def _real(b: Any, name: str) -> str:
    """The reals of a quantised value."""
    spec = b.specs[name]
    if not narrow(spec) or spec.scale is None:
        raise Unfit(f"the reals of {spec}")
    return b.node("DequantizeLinear", [name, b.const(spec.scale, "float32"), b.const(spec.zero, spec.dtype)])


def _stored(b: Any, real: str, out: str, dtype: str, scale: float, zero: int) -> None:
    """Reals as a quantised value; ``zero`` is that of int8. Another engine may have rounded a step off."""
    zero = zero + 128 if dtype == "uint8" else zero
    spec = Spec(b.types[real].shape, dtype, scale, zero, exact=False)
    b.node("QuantizeLinear", [real, b.const(scale, "float32"), b.const(zero, dtype)], [out], specs=[spec], exact=True)
    b.specs[out] = spec


def _constant(b: Any, shape: tuple[int, ...], one: Layer, axis: int) -> tuple[str, list[float]]:
    """Quantised weights as reals, and their scales."""
    power, seed = one["scales"]
    count = 1 if one["spread"] < 0 else shape[axis]
    found = scales(count, seed, float(np.ldexp(1.0, power)), max(one["spread"], 0))
    weights = b.filled(shape, one["fill"], 127, "int8")
    s, z = np.asarray(found, np.float32), np.zeros(count, np.int8)
    if one["spread"] < 0:
        return b.node("DequantizeLinear", [weights, b.const(s[0]), b.const(z[0])]), found
    return b.node("DequantizeLinear", [weights, b.const(s), b.const(z)], axis=axis), found


def _biases(b: Any, one: Layer, channels: int, scale: float, found: list[float]) -> list[str]:
    if one["bias"] is None:
        return []
    stored = b.filled((channels,), one["bias"], 5000, "int32")
    s = np.asarray([scale * f for f in found], np.float32)
    if len(found) == 1:
        return [b.node("DequantizeLinear", [stored, b.const(s[0]), b.const(np.int32(0))])]
    return [b.node("DequantizeLinear", [stored, b.const(s), b.const(np.zeros(channels, np.int32))], axis=0)]


def _activated(b: Any, one: Layer, y: str) -> str:
    if one["act"] == "Relu":
        return str(b.node("Relu", [y]))
    if one["act"] == "Clip":
        return str(b.node("Clip", [y, b.const(0.0, "float32"), b.const(6.0, "float32")]))
    return y


def _scale(spec: Spec, found: list[float], taps: int, gain: float) -> float:
    """A scale that sums of so many products fill."""
    product = (spec.scale or 1.0) * max(found)
    return float(np.float32(product * ODD * 2.0 ** (taps.bit_length() // 2 + 6) / gain))


def _draw_conv(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, lambda s: narrow(s) and len(s.shape) in (3, 4))
    if x is None:
        return None
    shape = b.specs[x].shape
    given = {**draw_window(d, shape), **_weights(d), "groups": 1}
    if d.chance(0.4):
        given["groups"] = d.one([g for g in (1, 2, 4, shape[1]) if shape[1] % g == 0])
        given["channels"] = given["groups"] * d.one((1, 1, 2, 3))
    return layer("Conv", [x], b.fresh(), **given)


def _conv(b: Any, one: Layer) -> None:
    (x,), spec = one.inputs, b.specs[one.inputs[0]]
    groups, channels = one["groups"], one["channels"]
    if len(one["kernel"]) != len(spec.shape) - 2 or spec.shape[1] % groups or channels % groups:
        raise Unfit(f"Conv of {spec}")
    shape = (channels, spec.shape[1] // groups, *one["kernel"])
    taps = int(np.prod(shape[1:]))
    real = _real(b, x)
    weights, found = _constant(b, shape, one, 0)
    y = b.node("Conv", [real, weights, *_biases(b, one, channels, spec.scale, found)], group=groups,
               **window_attributes(one, spec))  # fmt: skip
    b.counted(products=b.types[y].elements * taps)
    _stored(b, _activated(b, one, y), one.outputs[0], spec.dtype, _scale(spec, found, taps, one["gain"]), one["zero"])


def _draw_qlinear(op: str) -> Any:
    def draw(d: Draw, b: Any) -> Layer | None:
        rank = (4,) if op == "QLinearConv" else (2, 3)
        x = b.pick(d, lambda s: narrow(s) and len(s.shape) in rank)
        if x is None:
            return None
        given = {**_weights(d), "act": "", "groups": 1}
        if op == "QLinearConv":
            given.update(draw_window(d, b.specs[x].shape))
        else:
            given["bias"] = None
        return layer(op, [x], b.fresh(), **given)

    return draw


def _qlinear(b: Any, one: Layer) -> None:
    (x,), spec = one.inputs, b.specs[one.inputs[0]]
    conv = one.op == "QLinearConv"
    if not narrow(spec) or (conv and len(spec.shape) != 4) or (not conv and len(spec.shape) < 2):
        raise Unfit(f"{one.op} of {spec}")
    channels = one["channels"]
    shape = (channels, spec.shape[1], *one["kernel"]) if conv else (spec.shape[-1], channels)
    taps = int(np.prod(shape[1:])) if conv else shape[0]
    power, seed = one["scales"]
    count = 1 if one["spread"] < 0 or not conv else channels
    found = scales(count, seed, float(np.ldexp(1.0, power)), max(one["spread"], 0))
    s = np.asarray(found, np.float32)
    # onnxruntime adds pairs of products in 16 bits on some machines: with weights of 7 bits they cannot saturate
    weights = b.filled(shape, one["fill"], 63, "int8")
    scale, zero = _scale(spec, found, taps, one["gain"]), one["zero"] + (128 if spec.dtype == "uint8" else 0)
    inputs = [x, b.const(spec.scale, "float32"), b.const(spec.zero, spec.dtype), weights,
              b.const(s if count > 1 else s[0]), b.const(np.zeros(count if count > 1 else (), np.int8)),
              b.const(scale, "float32"), b.const(zero, spec.dtype)]  # fmt: skip
    if one["bias"] is not None:
        inputs.append(b.filled((channels,), one["bias"], 5000, "int32"))
    given = window_attributes(one, spec) if conv else {}
    b.node(one.op, inputs, one.outputs, exact=True, **given)
    made = b.types[one.outputs[0]]
    b.counted(products=made.elements * taps)
    b.specs[one.outputs[0]] = Spec(made.shape, made.dtype, scale, zero, exact=False)


def _draw_dense(op: str) -> Any:
    def draw(d: Draw, b: Any) -> Layer | None:
        x = b.pick(d, lambda s: narrow(s) and (len(s.shape) == 2 if op == "Gemm" else len(s.shape) in (2, 3)))
        return None if x is None else layer(op, [x], b.fresh(), **_weights(d))

    return draw


def _dense(b: Any, one: Layer) -> None:
    (x,), spec = one.inputs, b.specs[one.inputs[0]]
    if len(spec.shape) < 2 or (one.op == "Gemm" and len(spec.shape) != 2):
        raise Unfit(f"{one.op} of {spec}")
    inner, channels = spec.shape[-1], one["channels"]
    real = _real(b, x)
    if one.op == "Gemm":
        weights, found = _constant(b, (channels, inner), one, 0)
        y = b.node("Gemm", [real, weights, *_biases(b, one, channels, spec.scale, found)], transB=1)
    else:
        weights, found = _constant(b, (inner, channels), one, 1)
        y = b.node("MatMul", [real, weights])
    b.counted(products=spec.elements * channels)
    _stored(b, _activated(b, one, y), one.outputs[0], spec.dtype, _scale(spec, found, inner, one["gain"]), one["zero"])


BINARY = ("Add", "Sub", "Mul", "Concat")
SLOPES = {"Sigmoid": 0.25, "Tanh": 1.0, "Softmax": 0.5}  # of functions with a range of their own, where they are steep
MAX_STEPS = 2  # that a step of what they read may become
UNARY = ("Relu", "Sigmoid", "Tanh", "HardSwish", "LeakyRelu", "Softmax", "GlobalAveragePool", "Identity")


def _draw_binary(op: str) -> Any:
    def draw(d: Draw, b: Any) -> Layer | None:
        x = b.pick(d, narrow)
        if x is None:
            return None
        y = b.pick(d, lambda s: narrow(s) and s.shape == b.specs[x].shape and s.dtype == b.specs[x].dtype)
        if op == "Sub" and x == y:
            return None
        return layer(op, [x, y], b.fresh(), factor=d.one((1.0, 1.0, 2.0, 0.7)), zero=d.zero("int8"))

    return draw


def _binary(b: Any, one: Layer) -> None:
    specs = [b.specs[n] for n in one.inputs]
    if specs[0].shape != specs[1].shape or specs[0].dtype != specs[1].dtype:
        raise Unfit("operands that differ")
    y = b.node(one.op, [_real(b, n) for n in one.inputs], **({"axis": 1} if one.op == "Concat" else {}))
    usual = specs[0].scale * specs[1].scale * 100 if one.op == "Mul" else max(s.scale for s in specs)
    scale = float(np.float32(usual * ODD * one["factor"]))
    _stored(b, y, one.outputs[0], specs[0].dtype, scale, one["zero"])


def _draw_unary(op: str) -> Any:
    def draw(d: Draw, b: Any) -> Layer | None:
        x = b.pick(d, lambda s: narrow(s) and len(s.shape) >= (3 if op == "GlobalAveragePool" else 1))
        return None if x is None else layer(op, [x], b.fresh(), factor=d.one((1.0, 1.0, 2.0, 0.7)), zero=d.zero("int8"))

    return draw


def _unary(b: Any, one: Layer) -> None:
    spec = b.specs[one.inputs[0]]
    y = b.node(one.op, [_real(b, one.inputs[0])])
    scale = float(np.float32((1 / 128 if one.op in SLOPES else spec.scale) * ODD * one["factor"]))
    if not spec.exact and SLOPES.get(one.op, 0.0) * spec.scale > scale * MAX_STEPS:
        raise Unfit("a step off would become many")
    _stored(b, y, one.outputs[0], spec.dtype, scale, one["zero"])


def _draw_pool(op: str) -> Any:
    def draw(d: Draw, b: Any) -> Layer | None:
        x = b.pick(d, lambda s: narrow(s) and len(s.shape) == 4)
        if x is None:
            return None
        return layer(op, [x], b.fresh(), kernel=d.pair((1, 2, 3)), strides=d.pair((1, 2, 3)), zero=d.zero("int8"))

    return draw


def _pool(b: Any, one: Layer) -> None:
    spec = b.specs[one.inputs[0]]
    pairs = zip(one["kernel"], spec.shape[2:], strict=False)
    if len(spec.shape) != 4 or min(*one["kernel"], *one["strides"]) < 1 or any(k > n for k, n in pairs):
        raise Unfit(f"{one.op} of {spec}")
    y = b.node(one.op, [_real(b, one.inputs[0])], kernel_shape=one["kernel"], strides=one["strides"])
    _stored(b, y, one.outputs[0], spec.dtype, float(np.float32(spec.scale * ODD)), one["zero"])


def _draw_moved(op: str) -> Any:
    def draw(d: Draw, b: Any) -> Layer | None:
        x = b.pick(d, lambda s: narrow(s) and len(s.shape) >= 2)
        if x is None:
            return None
        shape = b.specs[x].shape
        if op == "Transpose":
            return layer(op, [x], b.fresh(), perm=tuple(d.shuffled(range(len(shape)))))
        return layer(op, [x], b.fresh(), shape=d.factors(int(np.prod(shape)), d.between(2, 4)))

    return draw


def _moved(b: Any, one: Layer) -> None:
    """Elements of quantised tensors moved as they are."""
    spec = b.specs[one.inputs[0]]
    if one.op == "Transpose":
        b.node(one.op, one.inputs, one.outputs, perm=one["perm"])
    else:
        b.node(one.op, [one.inputs[0], b.const(one["shape"], "int64")], one.outputs)
    found = b.types[one.outputs[0]]
    b.specs[one.outputs[0]] = Spec(found.shape, found.dtype, spec.scale, spec.zero, spec.exact)


TABLE = {
    "Conv": Op(_draw_conv, _conv, 10),
    "QLinearConv": Op(_draw_qlinear("QLinearConv"), _qlinear, 4),
    "QLinearMatMul": Op(_draw_qlinear("QLinearMatMul"), _qlinear, 4),
    "Gemm": Op(_draw_dense("Gemm"), _dense, 5), "MatMul": Op(_draw_dense("MatMul"), _dense, 4),
    **{op: Op(_draw_binary(op), _binary, 2) for op in BINARY},
    **{op: Op(_draw_unary(op), _unary, 1) for op in UNARY},
    **{op: Op(_draw_pool(op), _pool, 2) for op in ("MaxPool", "AveragePool")},
    **{op: Op(_draw_moved(op), _moved, 2) for op in ("Transpose", "Reshape")},
}  # fmt: skip
