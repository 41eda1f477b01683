"""Layers of .tflite files on floats, and on integers and truth values that stand for themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .builders import Op
from .draw import Draw
from .fills import floats
from .network import Layer, Spec, Unfit, layer
from .tflite_products import SAME, VALID, reach

__all__ = ["TABLE", "exact_reals", "left_axes", "needed", "put", "real_images", "reals", "some"]

# Where functions are defined and not steep: inputs are held to this range by operators before.
DOMAINS = {"SQRT": (0.1, 9.0), "RSQRT": (0.1, 9.0), "LOG": (0.1, 9.0), "EXP": (-6.0, 4.0)}
SMOOTH = ("ABS", "NEG", "SIN", "COS", "SQUARE", "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "ELU", "HARD_SWISH",
          "LOGISTIC", "TANH", "LOG_SOFTMAX", "ZEROS_LIKE")  # fmt: skip
JUMPS = ("FLOOR", "CEIL", "ROUND", "SIGN")
SHAPED = {
    "LEAKY_RELU": ("LeakyReluOptions", {"Alpha": (0.0, 0.9)}), "SOFTMAX": ("SoftmaxOptions", {"Beta": (0.5, 2.0)}),
}  # fmt: skip
KEEPS_BITS = ("ABS", "NEG", "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "ZEROS_LIKE")
FUSED = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "DIV": "DivOptions"}
PAIRS = (*FUSED, "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "POW", "FLOOR_DIV", "FLOOR_MOD")
COMPARISONS = ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
REDUCTIONS = ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")
POOLS = ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")
CODES = {"float32": 0, "int32": 2, "int64": 4, "bool": 6}


def reals(spec: Spec) -> bool:
    return spec.dtype == "float32"


def exact_reals(spec: Spec) -> bool:
    return reals(spec) and spec.exact


def _flags(spec: Spec) -> bool:
    return spec.dtype == "bool"


def real_images(spec: Spec) -> bool:
    return reals(spec) and len(spec.shape) == 4


def needed(b: Any, one: Layer, fits: Any = reals) -> Spec:
    spec: Spec = b.specs[one.inputs[0]]
    if not fits(spec):
        raise Unfit(f"{one.op} of {spec}")
    return spec


def some(fits: Any, **choices: Any) -> Any:
    """A draw of one input, with attributes that functions of the stream and the input's spec give."""

    def draw_of(op: str) -> Any:
        def draw(d: Draw, b: Any) -> Layer | None:
            x = b.pick(d, fits)
            if x is None:
                return None
            given = {name: choose(d, b.specs[x]) for name, choose in choices.items()}
            return layer(op, [x], b.fresh(), **given)

        return draw

    return draw_of


def put(b: Any, one: Layer, inputs: list[int], shape: Any, options: str = "", dtype: str = "", exact: bool = False,
         **fields: Any) -> None:  # fmt: skip
    """The operator with its one output."""
    spec = Spec(tuple(shape), dtype or b.specs[one.inputs[0]].dtype, exact=exact)
    b.op(one.op, inputs, [b.make(one.outputs[0], spec)], options, **fields)


def _within(b: Any, x: int, spec: Spec, low: float, high: float) -> int:
    """The numbers of a tensor held to a range."""
    for op, limit in (("MAXIMUM", low), ("MINIMUM", high)):
        found = b.hidden("held", replace(spec, exact=False))
        b.op(op, [x, b.const(np.float32(limit), "float32")], [found], "MaximumMinimumOptions")
        x = found
    return int(x)


# --- one tensor ---------------------------------------------------------------------------------------------------


def _unary(b: Any, one: Layer) -> None:
    spec, x = needed(b, one), b.index[one.inputs[0]]
    if one.op in DOMAINS:
        x = _within(b, x, spec, *DOMAINS[one.op])
    if one.op == "LOG_SOFTMAX" and not spec.shape:
        raise Unfit("a row of nothing")
    put(b, one, [x], spec.shape, exact=spec.exact and one.op in (*KEEPS_BITS, *JUMPS))


def _shaped(b: Any, one: Layer) -> None:
    spec = needed(b, one)
    options, fields = SHAPED[one.op]
    if not 1 <= len(spec.shape) <= 4:
        raise Unfit(f"{one.op} of {spec}")
    put(b, one, [b.index[one.inputs[0]]], spec.shape, options, **{name: one["value"] for name in fields})


def _gelu(b: Any, one: Layer) -> None:
    put(b, one, [b.index[one.inputs[0]]], needed(b, one).shape, "GeluOptions", Approximate=one["tanh"])


def _l2(b: Any, one: Layer) -> None:
    """Away from 0, where a norm of nothing is divided by."""
    spec = needed(b, one)
    x = _within(b, b.index[one.inputs[0]], spec, 0.1, 9.0)
    put(b, one, [x], spec.shape, "L2NormOptions", FusedActivationFunction=0)


def _lrn(b: Any, one: Layer) -> None:
    put(b, one, [b.index[one.inputs[0]]], needed(b, one, real_images).shape, "LocalResponseNormalizationOptions",
         Radius=one["radius"], Bias=1.5, Alpha=0.5, Beta=0.75)  # fmt: skip


def _prelu(b: Any, one: Layer) -> None:
    spec = needed(b, one)
    slope = b.const(floats(spec.shape[-1:], one["fill"]), "float32")
    put(b, one, [b.index[one.inputs[0]], slope], spec.shape)


# --- two tensors --------------------------------------------------------------------------------------------------


def _joint(a: tuple[int, ...], c: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(a, c)
    except ValueError:
        return None


def _draw_pair(fits: Any) -> Any:
    def draw_of(op: str) -> Any:
        def draw(d: Draw, b: Any) -> Layer | None:
            x = b.pick(d, fits)
            if x is None:
                return None
            shape, given = b.specs[x].shape, {"act": d.one((0, 0, 1, 2, 3)) if op in FUSED else 0}
            y = b.pick(d, lambda s: fits(s) and s.dtype == b.specs[x].dtype and _joint(shape, s.shape) is not None)
            if y == x or (d.chance(0.4) and b.specs[x].dtype != "bool"):
                ones, last = (1,) * len(shape), shape[-1:]
                return layer(op, [x], b.fresh(), constant=(d.one((shape, last, ones)), d.fill()), **given)
            return layer(op, [x, y] if d.chance(0.7) else [y, x], b.fresh(), constant=None, **given)

        return draw

    return draw_of


def _operands(b: Any, one: Layer, fits: Any) -> tuple[list[int], list[Spec]]:
    specs = [b.specs[n] for n in one.inputs]
    numbers = [b.index[n] for n in one.inputs]
    if one["constant"] is not None:
        shape, fill = one["constant"]
        specs.append(Spec(shape, specs[0].dtype))
        b.counted(weights=4 * specs[1].elements)
        numbers.append(b.const(floats(shape, fill, 2.0), specs[0].dtype))
    if not all(fits(s) and s.dtype == specs[0].dtype for s in specs):
        raise Unfit(f"{one.op} of {specs}")
    if _joint(specs[0].shape, specs[1].shape) is None or max(len(s.shape) for s in specs) > 4:
        raise Unfit(f"{one.op} of {specs}")
    return numbers, specs


def _pair(b: Any, one: Layer) -> None:
    jumps = one.op.startswith("FLOOR")
    numbers, specs = _operands(b, one, exact_reals if jumps else reals)
    if one.op in ("DIV", "FLOOR_DIV", "FLOOR_MOD"):
        numbers[1] = _within(b, numbers[1], specs[1], 0.25, 9.0)
    if one.op == "POW":
        numbers[0] = _within(b, numbers[0], specs[0], 0.25, 9.0)
        numbers[1] = _within(b, numbers[1], specs[1], -2.0, 3.0)
    fields = {"FusedActivationFunction": one["act"]} if one.op in FUSED else {}
    bits = one.op in ("MAXIMUM", "MINIMUM", "FLOOR_DIV", "FLOOR_MOD") and all(s.exact for s in specs)
    shape = _joint(specs[0].shape, specs[1].shape)
    put(b, one, numbers, shape, FUSED.get(one.op, ""), dtype="float32", exact=bits, **fields)


def _comparison(b: Any, one: Layer) -> None:
    numbers, specs = _operands(b, one, exact_reals)
    put(b, one, numbers, _joint(specs[0].shape, specs[1].shape), dtype="bool", exact=True)


def _logical(b: Any, one: Layer) -> None:
    numbers, specs = _operands(b, one, _flags)
    put(b, one, numbers, _joint(specs[0].shape, specs[1].shape), dtype="bool", exact=True)


def _not(b: Any, one: Layer) -> None:
    spec = needed(b, one, _flags)
    put(b, one, [b.index[one.inputs[0]]], spec.shape, exact=True)


def _select(b: Any, one: Layer) -> None:
    """A choice by what is above 0 between the tensor and a constant."""
    spec, x = needed(b, one, exact_reals), b.index[one.inputs[0]]
    flags = b.hidden("flags", Spec(spec.shape, "bool"))
    b.op("GREATER", [x, b.const(np.float32(0), "float32")], [flags])
    other = b.const(floats(spec.shape, one["fill"]), "float32")
    b.counted(weights=4 * spec.elements)
    put(b, one, [flags, x, other] if one["first"] else [flags, other, x], spec.shape, exact=True)


def _add_n(b: Any, one: Layer) -> None:
    spec = needed(b, one)
    put(b, one, [b.index[one.inputs[0]]] * one["count"], spec.shape)


def _cast(b: Any, one: Layer) -> None:
    spec = needed(b, one, lambda s: s.exact and s.dtype in CODES)
    if spec.dtype == one["to"]:
        raise Unfit("the same type")
    put(b, one, [b.index[one.inputs[0]]], spec.shape, "CastOptions", dtype=one["to"], exact=True,
         InDataType=CODES[spec.dtype], OutDataType=CODES[one["to"]])  # fmt: skip


# --- sums of products ---------------------------------------------------------------------------------------------


def _window(d: Draw, _: Spec) -> dict[str, Any]:
    return {"kernel": d.pair((1, 2, 3, 3, 5)), "stride": d.pair((1, 1, 2, 3)), "padding": d.one((SAME, VALID)),
            "dilation": d.one((1, 1, 1, 2))}  # fmt: skip


def _weights(b: Any, shape: tuple[int, ...], fill: Any, products: int) -> int:
    b.counted(weights=4 * int(np.prod(shape)), products=products)
    return int(b.const(floats(shape, fill), "float32"))


def _convolved(b: Any, one: Layer, image: tuple[int, ...]) -> tuple[list[int], dict[str, Any]]:
    w = dict(one["window"])
    sizes = [reach(n, k, s, w["dilation"], w["padding"])
             for n, k, s in zip(image[1:3], w["kernel"], w["stride"], strict=True)]  # fmt: skip
    fields = {"Padding": w["padding"], "StrideH": w["stride"][0], "StrideW": w["stride"][1],
              "DilationHFactor": w["dilation"], "DilationWFactor": w["dilation"],
              "FusedActivationFunction": one["act"]}  # fmt: skip
    return sizes, fields


def _conv(b: Any, one: Layer) -> None:
    n, *_, depth = image = needed(b, one, real_images).shape
    sizes, fields = _convolved(b, one, image)
    kernel = dict(one["window"])["kernel"]
    x = b.index[one.inputs[0]]
    if one.op == "CONV_2D":
        channels, options, shape = one["channels"], "Conv2DOptions", (one["channels"], *kernel, depth)
    else:
        channels, options = depth * one["multiplier"], "DepthwiseConv2DOptions"
        shape, fields["DepthMultiplier"] = (1, *kernel, channels), one["multiplier"]
    out = (n, *sizes, channels)
    products = int(np.prod(out)) * int(np.prod(shape)) // channels
    inputs = [x, _weights(b, shape, one["fill"], products), b.const(floats((channels,), one["bias"]), "float32")]
    put(b, one, inputs, out, options, **fields)


def _conv_3d(b: Any, one: Layer) -> None:
    """Images are seen as the planes of one volume."""
    n, h, w, c = needed(b, one, real_images).shape
    volume = b.hidden("volume", Spec((1, n, h, w, c), "float32"))
    b.op("RESHAPE", [b.index[one.inputs[0]], b.const((1, n, h, w, c))], [volume])
    shape, out = (1, 2, 2, c, 3), (1, n, h, w, 3)
    inputs = [volume, _weights(b, shape, one["fill"], int(np.prod(out)) * 4 * c),
              b.const(floats((3,), one["fill"]), "float32")]  # fmt: skip
    one_ = {f"{name}{k}{end}": 1 for name, end in (("Stride", ""), ("Dilation", "Factor")) for k in "DHW"}
    found = b.hidden("planes", Spec(out, "float32"))
    b.op("CONV_3D", inputs, [found], "Conv3DOptions", Padding=SAME, FusedActivationFunction=0, **one_)
    final = b.make(one.outputs[0], Spec((n, h, w, 3), "float32", exact=False))
    b.op("RESHAPE", [found, b.const((n, h, w, 3))], [final])


def _transpose_conv(b: Any, one: Layer) -> None:
    n, h, w, c = needed(b, one, real_images).shape
    stride, kernel = one["stride"], one["kernel"]
    out = (n, h * stride, w * stride, one["channels"])
    if one["padding"] == VALID:
        out = (n, (h - 1) * stride + kernel, (w - 1) * stride + kernel, one["channels"])
    shape = (one["channels"], kernel, kernel, c)
    inputs = [b.const(out), _weights(b, shape, one["fill"], int(np.prod(out)) * kernel * kernel * c),
              b.index[one.inputs[0]]]  # fmt: skip
    put(b, one, inputs, out, "TransposeConvOptions", Padding=one["padding"], StrideH=stride, StrideW=stride)


def _dense(b: Any, one: Layer) -> None:
    spec = needed(b, one, lambda s: reals(s) and len(s.shape) >= 2)
    n = one["channels"]
    shape = (*spec.shape[:-1], n) if one["keep"] else (spec.elements // spec.shape[-1], n)
    w = _weights(b, (n, spec.shape[-1]), one["fill"], spec.elements * n)
    inputs = [b.index[one.inputs[0]], w, b.const(floats((n,), one["fill"]), "float32")]
    put(b, one, inputs[: 3 if one["bias"] else 2], shape, "FullyConnectedOptions", KeepNumDims=one["keep"],
         FusedActivationFunction=one["act"], WeightsFormat=0)  # fmt: skip


def _matmul(b: Any, one: Layer) -> None:
    """A tensor by itself, turned."""
    spec = needed(b, one, lambda s: reals(s) and 2 <= len(s.shape) <= 4)
    *batch, rows, columns = spec.shape
    x, side = b.index[one.inputs[0]], columns if one["left"] else rows
    b.counted(products=spec.elements * side)
    put(b, one, [x, x], (*batch, side, side), "BatchMatMulOptions", AdjX=one["left"], AdjY=not one["left"])


# --- windows and reductions ---------------------------------------------------------------------------------------


def _pool(b: Any, one: Layer) -> None:
    n, *_, c = image = needed(b, one, real_images).shape
    w = {**dict(one["window"]), "dilation": 1}
    sizes, fields = _convolved(b, one.having(window=tuple(w.items())), image)
    fields = {k: v for k, v in fields.items() if not k.startswith("Dilation")}
    put(b, one, [b.index[one.inputs[0]]], (n, *sizes, c), "Pool2DOptions", FilterHeight=w["kernel"][0],
         FilterWidth=w["kernel"][1], **fields)  # fmt: skip


def _axes(d: Draw, spec: Spec) -> tuple[int, ...]:
    rank = len(spec.shape)
    return tuple(k - (rank if d.chance(0.2) else 0) for k in range(rank) if d.chance(0.5)) or (rank - 1,)


def left_axes(spec: Spec, axes: tuple[int, ...], keep: bool) -> tuple[int, ...]:
    rank = len(spec.shape)
    if not rank or any(not -rank <= a < rank for a in axes):
        raise Unfit(f"axes {axes} of {spec}")
    chosen = {a % rank for a in axes}
    return tuple(1 if k in chosen else n for k, n in enumerate(spec.shape) if keep or k not in chosen)


def _reduction(b: Any, one: Layer) -> None:
    """Of numbers; of truth values those that numbers are above 0."""
    flags = one.op in ("REDUCE_ANY", "REDUCE_ALL")
    spec = needed(b, one, exact_reals if flags else reals)
    shape = left_axes(spec, one["axes"], one["keep"])
    x = b.index[one.inputs[0]]
    if flags:
        x = b.hidden("flags", Spec(spec.shape, "bool"))
        b.op("GREATER", [b.index[one.inputs[0]], b.const(np.float32(0), "float32")], [x])
    if one.op == "REDUCE_PROD":
        x = _within(b, x, spec, 0.5, 1.2)
    bits = flags or (one.op in ("REDUCE_MAX", "REDUCE_MIN") and spec.exact)
    put(b, one, [x, b.const(one["axes"])], shape, "ReducerOptions", dtype="bool" if flags else "", exact=bits,
        KeepDims=one["keep"])  # fmt: skip


def _search(b: Any, one: Layer) -> None:
    spec = needed(b, one, exact_reals)
    shape = left_axes(spec, (one["axis"],), False)
    options = {"ARG_MAX": "ArgMaxOptions", "ARG_MIN": "ArgMinOptions"}[one.op]
    put(b, one, [b.index[one.inputs[0]], b.const(one["axis"])], shape, options, dtype=one["to"], exact=True,
         OutputType=CODES[one["to"]])  # fmt: skip


def _cumsum(b: Any, one: Layer) -> None:
    spec = needed(b, one)
    left_axes(spec, (one["axis"],), True)
    put(b, one, [b.index[one.inputs[0]], b.const(one["axis"])], spec.shape, "CumsumOptions",
         Exclusive=one["exclusive"], Reverse=one["reverse"])  # fmt: skip


def _draw_topk(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, exact_reals)
    if x is None or not b.specs[x].shape:
        return None
    return layer("TOPK_V2", [x], b.fresh(2), k=d.between(1, b.specs[x].shape[-1]))


def _topk(b: Any, one: Layer) -> None:
    spec = needed(b, one, exact_reals)
    if not spec.shape or one["k"] > spec.shape[-1]:
        raise Unfit(f"the {one['k']} best of {spec}")
    shape = (*spec.shape[:-1], one["k"])
    outs = [b.make(n, Spec(shape, kind)) for n, kind in zip(one.outputs, ("float32", "int32"), strict=True)]
    b.op("TOPK_V2", [b.index[one.inputs[0]], b.const(one["k"])], outs, "TopKV2Options")


def _axis(d: Draw, spec: Spec) -> int:
    return d.between(-len(spec.shape), len(spec.shape) - 1) if spec.shape else 0


def _many(spec: Spec) -> bool:
    return reals(spec) and len(spec.shape) >= 1


_ACT = {"act": lambda d, _: d.one((0, 0, 0, 1, 2, 3))}
_FILL = {"fill": lambda d, _: d.fill()}
_PRODUCT = {"window": lambda d, s: tuple(sorted(_window(d, s).items())), **_ACT, **_FILL, "bias": lambda d, _: d.fill()}


def _row(op: str, emit: Any, fits: Any = reals, weight: int = 1, **choices: Any) -> dict[str, Op]:
    return {op: Op(some(fits, **choices)(op), emit, weight)}


TABLE: dict[str, Op] = {
    **{op: Op(some(reals)(op), _unary, 1) for op in (*DOMAINS, *SMOOTH)},
    **{op: Op(some(exact_reals)(op), _unary, 1) for op in JUMPS},
    **{op: Op(some(_many, value=lambda d, _, low=low, high=high: d.real(low, high))(op), _shaped, 1)
       for op, (_, fields) in SHAPED.items() for low, high in fields.values()},
    **_row("GELU", _gelu, tanh=lambda d, _: d.chance(0.5)),
    **_row("L2_NORMALIZATION", _l2, _many),
    **_row("LOCAL_RESPONSE_NORMALIZATION", _lrn, real_images, radius=lambda d, _: d.between(0, 3)),
    **_row("PRELU", _prelu, _many, **_FILL),
    **{op: Op(_draw_pair(exact_reals if op.startswith("FLOOR") else reals)(op), _pair, 2) for op in PAIRS},
    **{op: Op(_draw_pair(exact_reals)(op), _comparison, 1) for op in COMPARISONS},
    **{op: Op(_draw_pair(_flags)(op), _logical, 1) for op in ("LOGICAL_AND", "LOGICAL_OR")},
    **_row("LOGICAL_NOT", _not, _flags),
    **{op: Op(some(exact_reals, **_FILL, first=lambda d, _: d.chance(0.5))(op), _select, 1)
       for op in ("SELECT", "SELECT_V2")},
    **_row("ADD_N", _add_n, count=lambda d, _: d.between(2, 4)),
    **_row("CAST", _cast, lambda s: s.exact and s.dtype in CODES, 2, to=lambda d, _: d.one(tuple(CODES))),
    **_row("CONV_2D", _conv, real_images, 5, **_PRODUCT, channels=lambda d, _: d.channels()),
    **_row("DEPTHWISE_CONV_2D", _conv, real_images, 4, **_PRODUCT, multiplier=lambda d, _: d.one((1, 1, 2))),
    **_row("CONV_3D", _conv_3d, real_images, 1, **_FILL),
    **_row("TRANSPOSE_CONV", _transpose_conv, real_images, 2, **_FILL, stride=lambda d, _: d.one((1, 2, 3)),
           kernel=lambda d, _: d.one((1, 2, 3)), channels=lambda d, _: d.channels(9),
           padding=lambda d, _: d.one((SAME, VALID))),
    **_row("FULLY_CONNECTED", _dense, lambda s: reals(s) and len(s.shape) >= 2, 4, **_FILL, **_ACT,
           channels=lambda d, _: d.channels(), keep=lambda d, _: d.chance(0.4), bias=lambda d, _: d.chance(0.8)),
    **_row("BATCH_MATMUL", _matmul, lambda s: reals(s) and 2 <= len(s.shape) <= 4, 2,
           left=lambda d, _: d.chance(0.5)),
    **{op: Op(some(real_images, window=_PRODUCT["window"], **_ACT)(op), _pool, 2) for op in POOLS},
    **{op: Op(some(_many, axes=_axes, keep=lambda d, _: d.chance(0.5))(op), _reduction, 1) for op in REDUCTIONS},
    **{op: Op(some(lambda s: exact_reals(s) and len(s.shape) >= 1, axes=_axes, keep=lambda d, _: d.chance(0.5))(op),
              _reduction, 1) for op in ("REDUCE_ANY", "REDUCE_ALL")},
    **{op: Op(some(lambda s: exact_reals(s) and len(s.shape) >= 1, axis=_axis,
                   to=lambda d, _: d.one(("int32", "int64")))(op), _search, 1) for op in ("ARG_MAX", "ARG_MIN")},
    **_row("CUMSUM", _cumsum, _many, axis=_axis, exclusive=lambda d, _: d.chance(0.5),
           reverse=lambda d, _: d.chance(0.5)),
    "TOPK_V2": Op(_draw_topk, _topk, 1),
}  # fmt: skip
