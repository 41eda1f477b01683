"""ONNX layers on integers and truth values."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from .builders import Op
from .draw import Draw
from .network import Layer, Spec, Unfit, layer
from .onnx_elementwise import joint_pick

__all__ = ["TABLE"]

WIDE = ("int32", "int64")
INTEGERS = ("int8", "uint8", "int32", "int64")
# operators of two inputs, and the types that onnxruntime has them for
PAIRS = {
    "Add": WIDE, "Sub": WIDE, "Mul": WIDE, "Max": WIDE, "Min": WIDE, "BitwiseAnd": INTEGERS, "BitwiseOr": INTEGERS,
    "BitwiseXor": INTEGERS, "Equal": WIDE, "Greater": WIDE, "GreaterOrEqual": WIDE, "Less": WIDE,
    "LessOrEqual": WIDE, "And": ("bool",), "Or": ("bool",), "Xor": ("bool",),
}  # fmt: skip
SINGLES = {"Abs": WIDE, "Neg": WIDE, "Sign": WIDE, "BitwiseNot": INTEGERS, "Not": ("bool",)}
WITH_CONSTANT = {"Div": WIDE, "Mod": WIDE, "BitShift": ("uint8",)}
REDUCTIONS = {"ReduceSum": WIDE, "ReduceMax": ("int32", "int64", "int8", "uint8"), "ReduceMin": (
    "int32", "int64", "int8", "uint8")}  # fmt: skip


def _pairs(op: str) -> Any:
    def draw(d: Draw, b: Any) -> Layer | None:
        found = joint_pick(d, b, lambda s: s.dtype in PAIRS[op])
        if found is None or found[0] == found[1] or d.chance(0.4):
            x = b.pick(d, lambda s: s.dtype in PAIRS[op])
            return None if x is None else layer(op, [x], b.fresh(), fill=d.fill())
        return layer(op, found, b.fresh())

    return draw


def _pair(b: Any, one: Layer) -> None:
    specs = [b.types[n] for n in one.inputs]
    if any(s.dtype not in PAIRS[one.op] for s in specs):
        raise Unfit(f"{one.op} of {specs[0]}")
    names = list(one.inputs)
    if len(names) == 1:
        last = specs[0].shape[-1:]
        names.append(b.filled(last, one["fill"], 7, specs[0].dtype))
    if one.op == "Mul":  # products of products leave 32 bits
        names = [b.node("Clip", [n, *(b.const(v, specs[0].dtype) for v in (-1000, 1000))]) for n in names]
    b.node(one.op, names, one.outputs)


def _singles(op: str) -> Any:
    def draw(d: Draw, b: Any) -> Layer | None:
        x = b.pick(d, lambda s: s.dtype in SINGLES[op])
        return None if x is None else layer(op, [x], b.fresh())

    return draw


def _single(b: Any, one: Layer) -> None:
    if b.types[one.inputs[0]].dtype not in SINGLES[one.op]:
        raise Unfit(f"{one.op} of {b.types[one.inputs[0]]}")
    b.node(one.op, one.inputs, one.outputs)


def _with_constants(op: str) -> Any:
    def draw(d: Draw, b: Any) -> Layer | None:
        x = b.pick(d, lambda s: s.dtype in WITH_CONSTANT[op])
        if x is None:
            return None
        given = {"BitShift": {"direction": d.one(("LEFT", "RIGHT"))}, "Mod": {"fmod": d.below(2)}, "Div": {}}[op]
        return layer(op, [x], b.fresh(), other=d.between(1, 7), given=tuple(given.items()))

    return draw


def _with_constant(b: Any, one: Layer) -> None:
    spec = b.types[one.inputs[0]]
    if spec.dtype not in WITH_CONSTANT[one.op]:
        raise Unfit(f"{one.op} of {spec}")
    b.node(one.op, [one.inputs[0], b.const(one["other"], spec.dtype)], one.outputs, **dict(one["given"]))


CASTS = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8, "int32": TensorProto.INT32, "int64": TensorProto.INT64,
         "bool": TensorProto.BOOL}  # fmt: skip


def _draw_cast(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, lambda s: s.dtype in CASTS)
    return None if x is None else layer("Cast", [x], b.fresh(), to=d.one(tuple(CASTS)))


def _cast(b: Any, one: Layer) -> None:
    b.node("Cast", one.inputs, one.outputs, to=CASTS[one["to"]])


def _draw_bits(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, lambda s: s.dtype in ("int8", "uint8"))
    return None if x is None else layer("BitCast", [x], b.fresh())


def _bits(b: Any, one: Layer) -> None:
    spec = b.types[one.inputs[0]]
    if spec.dtype not in ("int8", "uint8"):
        raise Unfit(f"BitCast of {spec}")
    b.need(26)
    b.node("BitCast", one.inputs, one.outputs, to=CASTS["uint8" if spec.dtype == "int8" else "int8"])


def _reductions(op: str) -> Any:
    def draw(d: Draw, b: Any) -> Layer | None:
        x = b.pick(d, lambda s: s.dtype in REDUCTIONS[op] and len(s.shape) >= 1)
        if x is None:
            return None
        rank = len(b.specs[x].shape)
        return layer(op, [x], b.fresh(), axes=tuple(d.shuffled(range(rank))[: d.between(1, rank)]), keepdims=d.below(2))

    return draw


def _reduction(b: Any, one: Layer) -> None:
    spec = b.types[one.inputs[0]]
    if spec.dtype not in REDUCTIONS[one.op]:
        raise Unfit(f"{one.op} of {spec}")
    b.node(one.op, [one.inputs[0], b.const(one["axes"], "int64")], one.outputs, keepdims=one["keepdims"])


def _draw_product(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, lambda s: s.dtype in ("int8", "uint8") and len(s.shape) in (2, 3))
    return None if x is None else layer("MatMulInteger", [x], b.fresh(), channels=d.channels(), fill=d.fill(),
                                        zero=d.one((None, 0, 5)))  # fmt: skip


def _product(b: Any, one: Layer) -> None:
    spec = b.types[one.inputs[0]]
    if spec.dtype not in ("int8", "uint8") or len(spec.shape) < 2:
        raise Unfit(f"MatMulInteger of {spec}")
    # with more bits onnxruntime's sums of pairs saturate on some machines
    weights = b.filled((spec.shape[-1], one["channels"]), one["fill"], 63, "int8")
    zeros = [] if one["zero"] is None else [b.const(one["zero"], spec.dtype), b.const(0, "int8")]
    b.counted(products=spec.elements * one["channels"])
    b.node("MatMulInteger", [one.inputs[0], weights, *zeros], one.outputs)


def _draw_conv(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, lambda s: s.dtype == "uint8" and len(s.shape) == 4)
    if x is None:
        return None
    return layer("ConvInteger", [x], b.fresh(), channels=d.channels(), fill=d.fill(), zero=d.one((None, 0, 128, 255)),
                 kernel=d.pair((1, 2, 3)), strides=d.pair((1, 2, 3)), pads=d.pair((0, 1)) * 2)  # fmt: skip


def _conv(b: Any, one: Layer) -> None:
    spec = b.types[one.inputs[0]]
    spans = [n + 2 * p for n, p in zip(spec.shape[2:], one["pads"], strict=False)]
    fits = all(1 <= k <= n for k, n in zip(one["kernel"], spans, strict=False)) and min(one["strides"]) > 0
    if spec.dtype != "uint8" or len(spec.shape) != 4 or not fits:
        raise Unfit(f"ConvInteger of {spec}")
    shape = (one["channels"], spec.shape[1], *one["kernel"])
    weights = b.filled(shape, one["fill"], 127, "uint8")
    zeros = [] if one["zero"] is None else [b.const(one["zero"], "uint8")]
    b.node("ConvInteger", [one.inputs[0], weights, *zeros], one.outputs, strides=one["strides"], pads=one["pads"])
    b.counted(products=b.types[one.outputs[0]].elements * int(np.prod(shape[1:])))


def truth(spec: Spec) -> bool:
    return spec.dtype == "bool"


def _draw_where(d: Draw, b: Any) -> Layer | None:
    c = b.pick(d, truth)
    if c is None:
        return None
    x = b.pick(d, lambda s: s.dtype in WIDE and s.shape == b.specs[c].shape)
    return None if x is None else layer("Where", [c, x], b.fresh(), other=d.between(-5, 5))


def _where(b: Any, one: Layer) -> None:
    c, x = one.inputs
    if b.types[c].dtype != "bool" or b.types[x].dtype not in WIDE:
        raise Unfit("Where of other types")
    b.node("Where", [c, x, b.const(one["other"], b.types[x].dtype)], one.outputs)


TABLE = {
    **{op: Op(_pairs(op), _pair, 1) for op in PAIRS},
    **{op: Op(_singles(op), _single, 1) for op in SINGLES},
    **{op: Op(_with_constants(op), _with_constant, 1) for op in WITH_CONSTANT},
    **{op: Op(_reductions(op), _reduction, 1) for op in REDUCTIONS},
    "Cast": Op(_draw_cast, _cast, 3), "BitCast": Op(_draw_bits, _bits, 1), "Where": Op(_draw_where, _where, 2),
    "MatMulInteger": Op(_draw_product, _product, 3), "ConvInteger": Op(_draw_conv, _conv, 3),
}  # fmt: skip
