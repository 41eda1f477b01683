"""Layers of .tflite files on each element: arithmetic, activations, requantisation, softmax."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .builders import Op
from .draw import Draw
from .network import Layer, Spec, Unfit, layer
from .tflite_products import ACTIVATIONS

__all__ = ["TABLE"]

OPTIONS = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions"}
# what tflite-micro converts QUANTIZE from and to, and what LiteRT does in networks of u8
REQUANTISED = {"int8": ("int8", "int8", "int16", "uint8"), "int16": ("int8", "int16"), "uint8": ("int8",)}
REQUANTISED_OLD = {"uint8": ("uint8", "uint8", "int8"), "int8": ("uint8",)}
STATED = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0), "SOFTMAX": (1 / 256, -128)}


def _requantised(b: Any, spec: Spec) -> tuple[str, ...]:
    """The types that QUANTIZE makes of one."""
    return (REQUANTISED_OLD if b.kind == "uint8" else REQUANTISED).get(spec.dtype, ())


def _draw_binary(op: str) -> Any:
    def draw(d: Draw, b: Any) -> Layer | None:
        x = b.pick(d, b.quantised)
        if x is None:
            return None
        spec = b.specs[x]
        zero = d.zero(spec.dtype)
        given: dict[str, Any] = {"act": d.activation(ACTIVATIONS, zero), "zero": zero}
        inputs = [x]
        y = b.pick(d, lambda s: s.dtype == spec.dtype and _joint(spec.shape, s.shape) is not None)
        if d.chance(0.4) or (op == "SUB" and y == x):
            ones, last = (1,) * len(spec.shape), spec.shape[-1:]
            shapes = [spec.shape, last, ones, (*ones[1:], *last), (*spec.shape[:-1], 1)]
            given["constant"] = (d.quantised(d.one(shapes), spec.dtype), d.fill())
            other = given["constant"][0]
        else:
            inputs.append(y)
            other = b.specs[y]
        if d.chance(0.3):
            inputs.reverse()
        usual = spec.scale * other.scale * (20000 if spec.dtype == "int16" else 100) if op == "MUL" else spec.scale
        factor = d.one((1.0, 1.0, 1.7, 0.9, 0.5, 4.0, 0.06))
        given["scale"] = float(np.float32(usual * factor))
        return layer(op, inputs, b.fresh(), **given)

    return draw


def _joint(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        return None


def _binary(b: Any, one: Layer) -> None:
    operands = [(b.specs[n], b.index[n]) for n in one.inputs]
    constant = one.get("constant")
    if constant is not None:
        operands.append((constant[0], b.filled(*constant)))
    (p, left), (q, right) = operands
    shape = _joint(p.shape, q.shape)
    if shape is None or p.dtype != q.dtype or not b.quantised(p):
        raise Unfit(f"{one.op} of {p} and {q}")
    spec = Spec(shape, p.dtype, one["scale"], one["zero"])
    _check_ratio(one.op, p, q, spec)
    fields = {"PotScaleInt16": False} if one.op in ("ADD", "SUB") else {}
    b.op(one.op, [left, right], [b.make(one.outputs[0], spec)], OPTIONS[one.op],
         FusedActivationFunction=one["act"], **fields)  # fmt: skip


def _check_ratio(op: str, p: Spec, q: Spec, out: Spec) -> None:
    """tflite-micro ends the process where a multiplier of a sum is 1 and more."""
    if op == "MUL":
        if p.scale * q.scale / out.scale > 100:
            raise Unfit("the product is too large for its scale")
    elif 2 * max(p.scale, q.scale) / ((1 << (15 if p.dtype == "int16" else 20)) * out.scale) > 0.99:
        raise Unfit("the sum is too large for its scale")


def _draw_quantize(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, lambda s: bool(_requantised(b, s)))
    if x is None:
        return None
    spec = b.specs[x]
    kind = d.one(_requantised(b, spec))
    if (kind == "uint8") != (spec.dtype == "uint8"):  # the same reals, 128 higher
        scale, zero = spec.scale, spec.zero + (128 if kind == "uint8" else -128)
    else:
        width = {("int8", "int16"): 1 / 256, ("int16", "int8"): 256}.get((spec.dtype, kind), 1.0)
        factor = d.one((1.0, 1.0, 0.5, 0.99999, 1.3, 2.0, 7.0, 0.01))
        scale, zero = float(np.float32(spec.scale * width * factor)), d.zero(kind)
    return layer("QUANTIZE", [x], b.fresh(), dtype=kind, scale=scale, zero=zero)


def _quantize(b: Any, one: Layer) -> None:
    spec = b.specs[one.inputs[0]]
    if one["dtype"] not in _requantised(b, spec):
        raise Unfit(f"QUANTIZE of {spec}")
    out = b.make(one.outputs[0], Spec(spec.shape, one["dtype"], one["scale"], one["zero"]))
    b.op("QUANTIZE", [b.index[one.inputs[0]]], [out])


def _draw_relu(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, b.quantised)
    if x is None:
        return None
    spec = b.specs[x]
    scale = float(np.float32(spec.scale * d.one((1.0, 1.0, 0.7, 2.0))))
    zero = d.zero(spec.dtype)
    return layer("RELU", [x], b.fresh(), scale=scale, zero=zero if zero < 100 else 0)


def _relu(b: Any, one: Layer) -> None:
    spec = b.specs[one.inputs[0]]
    if not b.quantised(spec):
        raise Unfit(f"RELU of {spec}")
    out = b.make(one.outputs[0], Spec(spec.shape, spec.dtype, one["scale"], one["zero"]))
    b.op("RELU", [b.index[one.inputs[0]]], [out])


def _draw_plain(op: str, *kinds: str) -> Any:
    def draw(d: Draw, b: Any) -> Layer | None:
        x = b.pick(d, lambda s: b.quantised(s) and s.dtype in (*kinds, "uint8"))
        if x is None:
            return None
        given = {"beta": d.one((1.0, 1.0, 0.5, 2.0))} if op == "SOFTMAX" else {}
        return layer(op, [x], b.fresh(), **given)

    return draw


def _relu6(b: Any, one: Layer) -> None:
    spec = b.specs[one.inputs[0]]
    if not b.quantised(spec):
        raise Unfit(f"RELU6 of {spec}")
    if 6 / spec.scale >= 2.0**31:  # the references clamp to a 6 that has left 32 bits
        raise Unfit(f"6 in steps of {spec.scale}")
    b.op("RELU6", [b.index[one.inputs[0]]], [b.make(one.outputs[0], spec)])


def _stated(b: Any, one: Layer) -> None:
    """Layers whose output has the one scale that the format states."""
    spec = b.specs[one.inputs[0]]
    if not b.quantised(spec) or spec.dtype == "int16" or (one.op == "SOFTMAX" and not 1 <= len(spec.shape) <= 4):
        raise Unfit(f"{one.op} of {spec}")
    if spec.scale < 2.0**-20:  # tflite-micro's range of inputs leaves 32 bits, and its results are those of infinities
        raise Unfit(f"a function of steps of {spec.scale}")
    scale, zero = STATED[one.op]
    zero += 128 if spec.dtype == "uint8" else 0
    out = b.make(one.outputs[0], replace(spec, scale=scale, zero=zero))
    given = {"options": "SoftmaxOptions", "Beta": one["beta"]} if one.op == "SOFTMAX" else {}
    b.op(one.op, [b.index[one.inputs[0]]], [out], **given)


TABLE = {
    "ADD": Op(_draw_binary("ADD"), _binary, 5),
    "SUB": Op(_draw_binary("SUB"), _binary, 2),
    "MUL": Op(_draw_binary("MUL"), _binary, 2),
    "QUANTIZE": Op(_draw_quantize, _quantize, 2),
    "RELU": Op(_draw_relu, _relu, 1),
    "RELU6": Op(_draw_plain("RELU6", "int8", "int16"), _relu6, 1),
    "LOGISTIC": Op(_draw_plain("LOGISTIC", "int8"), _stated, 1),
    "TANH": Op(_draw_plain("TANH", "int8"), _stated, 1),
    "SOFTMAX": Op(_draw_plain("SOFTMAX", "int8"), _stated, 2),
}
