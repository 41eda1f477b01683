"""Operators of .tflite files that cannot be imported: each is refused by node, in words that say what is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from failures import Fails
from tflite_files import ModelFile

Shape = Sequence[int]


def net(
    op: str,
    shape: Shape = (1, 4),
    out: Shape = (1, 4),
    consts: Sequence[Any] = (),
    options: str = "",
    scale: float = 0.5,
    out_scale: float | Sequence[float] | None = 0.5,
    signature: Shape | None = None,
    outputs: int = 1,
    first: bool | None = True,
    dtype: str = "int8",
    **fields: Any,
) -> bytes:
    """A model of one operator: an input of ``shape`` (first of its inputs, last, or none of them), then constants."""
    model = ModelFile()
    x = model.input("x", shape, scale=scale, signature=signature)
    given = [model.const(f"c{k}", value) for k, value in enumerate(consts)]
    results = [model.output(f"y{k}", out, dtype, scale=out_scale) for k in range(outputs)]
    ends = [x] if first is False else []
    model.op(op, [*([x] if first else []), *given, *ends], results, options, **fields)
    return model.build()


def product(
    op: str = "CONV_2D",
    shape: Shape = (1, 4, 4, 2),
    weights: Shape = (3, 1, 1, 2),
    dtype: str = "int8",
    scale: float | Sequence[float] = 0.5,
    zero: int = 0,
    axis: int = 0,
    bias: int | None = None,
    signature: Shape | None = None,
    options: str = "Conv2DOptions",
    **fields: Any,
) -> bytes:
    """A model of one convolution or dense layer."""
    model = ModelFile()
    x = model.input("x", shape, scale=0.5, signature=signature)
    w = model.const("w", np.ones(weights), dtype, scale=scale, zero=zero, axis=axis)
    terms = [] if bias is None else [model.const("b", np.zeros(bias))]
    steps = {} if options == "FullyConnectedOptions" else {"StrideH": 1, "StrideW": 1, "Padding": 1}
    if options in ("Conv2DOptions", "DepthwiseConv2DOptions"):
        steps |= {"DilationHFactor": 1, "DilationWFactor": 1}
    y = model.output("y", (1, 4, 4, 3), scale=0.5)
    model.op(op, [x, w, *terms], [y], options, **{**steps, **fields})
    return model.build()


def two(first: float, second: float, op: str = "CONCATENATION", out_type: str = "int8", **fields: Any) -> bytes:
    """A model of one operator of two inputs on scales of their own."""
    model = ModelFile()
    a, b = model.input("a", (1, 4), scale=first), model.input("b", (1, 4), scale=second)
    y = model.output("y", (1, 8), out_type, scale=0.5)
    model.op(op, [a, b], [y], "ConcatenationOptions", **fields)
    return model.build()


def nothing() -> bytes:
    """A model that concatenates nothing."""
    model = ModelFile()
    model.input("x", (1, 4), scale=0.5)
    model.op("CONCATENATION", [], [model.output("y", (1, 4), scale=0.5)], "ConcatenationOptions", Axis=1)
    return model.build()


def pool(shape: Shape = (1, 4, 4, 2), out_scale: float = 0.5, **fields: Any) -> bytes:
    sizes = {"StrideH": 2, "StrideW": 2, "FilterHeight": 2, "FilterWidth": 2, "Padding": 1}
    return net("MAX_POOL_2D", shape, (1, 2, 2, 2), options="Pool2DOptions", out_scale=out_scale, **{**sizes, **fields})


def padv2(value: Any) -> bytes:
    model = ModelFile()
    x = model.input("x", (1, 4), scale=0.5)
    c = model.const("c", value, "int8", scale=0.25)
    pads = model.const("p", [[0, 0], [1, 1]])
    model.op("PADV2", [x, pads, c], [model.output("y", (1, 6), scale=0.5)])
    return model.build()


def softmax(beta: float) -> bytes:
    model = ModelFile()
    x, y = model.input("x", (1, 4), scale=0.5), model.output("y", (1, 4), scale=1 / 256, zero=-128)
    model.op("SOFTMAX", [x], [y], "SoftmaxOptions", Beta=beta)
    return model.build()


def strided(begin: Sequence[int], end: Sequence[int], strides: Sequence[int], **fields: Any) -> bytes:
    return net("STRIDED_SLICE", consts=(begin, end, strides), options="StridedSliceOptions", **fields)


def scaled(scale: float) -> bytes:
    return net("RELU", scale=scale)


def no_mean() -> bytes:
    return net("MEAN", (1, 0), (1, 1), consts=([1],), options="ReducerOptions", KeepDims=True)


OPEN = {"signature": (-1, 4)}
CASES: dict[str, Callable[[], bytes]] = {
    "the target shape [-2, 2] is impossible": lambda: net("RESHAPE", consts=([-2, 2],)),
    "a fused activation is not supported here": lambda: two(0.5, 0.5, Axis=1, FusedActivationFunction=1),
    "no inputs": nothing,
    "the inputs and the output must share one scale": lambda: two(0.5, 0.25, Axis=1),
    "axis 7 of a tensor of rank 2": lambda: two(0.5, 0.5, Axis=7),
    "the open extent x_0 cannot be sliced": lambda: net("SLICE", consts=([1, 0], [1, 4]), **OPEN),
    "a stride of zero": lambda: strided([0, 0], [1, 4], [1, 0]),
    "the slice 3:1:1 of 4 is empty": lambda: strided([0, 3], [1, 1], [1, 1]),
    "begin, end and strides of 1, 2, 2 axes for rank 2": lambda: strided([0], [1, 4], [1, 1]),
    "an ellipsis, new axes or offsets": lambda: strided([0, 0], [1, 4], [1, 1], EllipsisMask=1),
    "index 9 of an axis of 4": lambda: strided([0, 9], [1, 4], [1, 1], ShrinkAxisMask=2),
    "begin and size of 1 and 2 axes for rank 2": lambda: net("SLICE", consts=([0], [1, 4])),
    "9 elements from 0 of an axis of 4": lambda: net("SLICE", consts=([0, 0], [1, 9])),
    "2 parts for 1 outputs": lambda: net("SPLIT_V", consts=([2, 2], [1])),
    "parts of [3, 3] of an axis of 4": lambda: net("SPLIT_V", consts=([3, 3], [1]), outputs=2),
    "an axis of 4 cannot be split into 3 equal parts": lambda: net("SPLIT", consts=([1],), outputs=3, first=False),
    "sizes [2, 2] on axes [0, 1]": lambda: net("SPLIT_V", consts=([2, 2], [0, 1]), outputs=2),
    "pads [0, 0, 1] for rank 2": lambda: net("PAD", consts=([0, 0, 1],)),
    "input and output must share one scale and zero point": lambda: net(
        "PAD", consts=([[0, 0], [0, 0]],), out_scale=0.25
    ),
    "the constant must be one element on the scale of the input": lambda: padv2([7]),
    "permutation [0, 5] for rank 2": lambda: net("TRANSPOSE", consts=([0, 5],)),
    "the input has rank 2 instead of 4": lambda: product(shape=(1, 4)),
    "the weights are i8 of rank 3; supported: i8 of rank 4": lambda: product(weights=(3, 1, 2)),
    "the weights are i16 of rank 4; supported: i8 of rank 4": lambda: product(dtype="int16"),
    "weights [3, 1, 1, 3] do not fit 2 input channels": lambda: product(weights=(3, 1, 1, 3)),
    "3 output channels of conv2d in 2 groups": lambda: product(weights=(3, 1, 1, 1)),
    "weights w have 2 scales on axis 0 for 3 channels": lambda: product(scale=[0.5, 0.5]),
    "weights w have 3 scales on axis 3 for 3 channels": lambda: product(scale=[0.5] * 3, axis=3),
    "weights w have a zero point": lambda: product(zero=3),
    "the bias has the shape [2] for 3 channels": lambda: product(bias=2),
    "SAME padding with stride 2 of the open extent": lambda: product(
        weights=(3, 3, 3, 2), signature=(1, -1, 4, 2), Padding=0, StrideH=2
    ),
    "the option StrideH is 0": lambda: product(StrideH=0),
    "weights of shape [1, 1, 1, 3] do not fit 2 input channels": lambda: product(
        "DEPTHWISE_CONV_2D", weights=(1, 1, 1, 3), options="DepthwiseConv2DOptions"
    ),
    "shuffled weights are not supported": lambda: product(
        "FULLY_CONNECTED", (1, 2), (3, 2), options="FullyConnectedOptions", WeightsFormat=1
    ),
    "the fused activation TANH is not supported": lambda: product(FusedActivationFunction=4),
    "has the zero point 200, outside": lambda: zero_point(200),
    "is too small for a squared difference": lambda: two(100.0, 100.0, "SQUARED_DIFFERENCE"),
    "the output must have scale 0.00390625 and zero point -128": lambda: net("LOGISTIC"),
    "rank 2 instead of 4": lambda: pool((1, 4)),
    "input and output of a pooling must have one scale and zero point": lambda: pool(out_scale=0.25),
    "axes [5] of a tensor of rank 2": lambda: net("MEAN", consts=([5],), options="ReducerOptions"),
    "a sum or mean over an open extent, or to another type, is not supported": lambda: net(
        "MEAN", consts=([0],), options="ReducerOptions", **OPEN
    ),
    "softmax cannot represent an input scale of": lambda: softmax(1e-12),
    "must have one positive finite scale, it has 0 scales": lambda: net("RELU", out_scale=None),
    "tensor x must have one positive finite scale, it has the scale inf": lambda: scaled(math.inf),
    "it has the scale nan": lambda: scaled(math.nan),
    "it has the scale 0.0": lambda: scaled(0.0),
    "it has the scale -0.5": lambda: scaled(-0.5),
    "weights w have the scale 0.0, scales must be positive and finite": lambda: product(scale=[0.5, 0.0, 0.5]),
    "weights w have the scale nan": lambda: product(scale=[0.5, math.nan, 0.5]),
    "weights w have the scale -1.0": lambda: product(scale=[0.5, 0.5, -1.0]),
    "a mean of no elements is no number": no_mean,
    "has type INT32": lambda: net("RELU", dtype="int32"),
    "a variable without a name is not supported": lambda: net("VAR_HANDLE", options="VarHandleOptions", first=None),
    "input 0 (x) is not a variable": lambda: net("READ_VARIABLE"),
    "the init subgraph 7 does not exist": lambda: net(
        "CALL_ONCE", options="CallOnceOptions", first=None, outputs=0, InitSubgraphIndex=7
    ),
    "unsupported operator": lambda: net("RANDOM_UNIFORM"),
    "unsupported custom operator": lambda: net("CUSTOM", custom="Mystery"),
    "the file says int8[1, 5]": lambda: net("RELU", out=(1, 5)),
}
DIMS = {
    "the open extent x_0 cannot be sliced": "x_0=1:4",
    "a sum or mean over an open extent, or to another type, is not supported": "x_0=1:4",
    "SAME padding with stride 2 of the open extent": "x_1=4:9",
}


def zero_point(value: int) -> bytes:
    model = ModelFile()
    x = model.input("x", (1, 4), scale=0.5, zero=value)
    model.op("RELU", [x], [model.output("y", (1, 4), scale=0.5)])
    return model.build()


@pytest.mark.parametrize("says", CASES)
def test_an_operator_is_refused(fails: Fails, tmp_path: Path, says: str) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(CASES[says]())
    dims = ("--dim", DIMS[says]) if says in DIMS else ()
    fails(1, "build", path, "--board", "host", *dims, says=("cannot be imported", says), hints=("supported operators",))
