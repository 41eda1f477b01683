"""Every supported operator in a file of its own, against tflite-micro: nothing here needs the real models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reference import assert_bit_exact
from tflite_files import ModelFile

RNG = np.random.default_rng(11)
SAME, VALID = 0, 1
NONE, RELU, RELU_N1, RELU6 = 0, 1, 2, 3


def weights(*shape: int) -> np.ndarray:
    return RNG.integers(-127, 128, shape)


def biases(count: int, maximum: int = 2000) -> np.ndarray:
    return RNG.integers(-maximum, maximum, count)


def channel_scales(count: int) -> list[float]:
    return [float(s) for s in RNG.uniform(0.001, 0.02, count)]


def conv(
    kernel: tuple[int, int], padding: int, stride: tuple[int, int], dilation: tuple[int, int], act: int,
    dtype: str = "int8", bias: str | None = "int32", per_channel: bool = True, depth: int = 3, out: int = 5,
    groups: int = 1,
) -> bytes:  # fmt: skip
    m = ModelFile()
    zero, out_zero = (0, 0) if dtype == "int16" else (-7, -20)
    rows, cols = 9, 8
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    size = [
        -(-n // s) if padding == SAME else (n - r) // s + 1
        for n, s, r in zip((rows, cols), stride, reach, strict=True)
    ]
    x = m.input("x", (1, rows, cols, depth), dtype, 0.05 if dtype == "int8" else 0.0004, zero)
    scales = channel_scales(out) if per_channel else [0.01]
    w = m.const("w", weights(out, *kernel, depth // groups), "int8", scale=scales)
    ins = [x, w]
    if bias:
        ins.append(m.const("b", biases(out), bias, scale=[0.05 * s for s in scales]))
    o = m.output("y", (1, *size, out), dtype, 0.3 if dtype == "int8" else 0.001, out_zero)
    m.op(
        "CONV_2D", ins, [o], "Conv2DOptions", Padding=padding, StrideH=stride[0], StrideW=stride[1],
        DilationHFactor=dilation[0], DilationWFactor=dilation[1], FusedActivationFunction=act,
    )  # fmt: skip
    return m.build()


def depthwise(
    multiplier: int,
    padding: int,
    stride: int,
    dilation: int,
    act: int,
    dtype: str = "int8",
    bias: bool = True,
) -> bytes:
    m = ModelFile()
    depth, kernel = 3, 3
    channels, reach = depth * multiplier, (kernel - 1) * dilation + 1
    size = -(-9 // stride) if padding == SAME else (9 - reach) // stride + 1
    zero = 0 if dtype == "int16" else 11
    x = m.input("x", (1, 9, 9, depth), dtype, 0.05 if dtype == "int8" else 0.0004, zero)
    scales = channel_scales(channels)
    w = m.const("w", weights(1, kernel, kernel, channels), "int8", scale=scales, axis=3)
    ins = [x, w]
    if bias:
        kind = "int32" if dtype == "int8" else "int64"
        ins.append(m.const("b", biases(channels), kind, scale=[0.05 * s for s in scales]))
    o = m.output("y", (1, size, size, channels), dtype, 0.1 if dtype == "int8" else 0.001, zero)
    m.op(
        "DEPTHWISE_CONV_2D", ins, [o], "DepthwiseConv2DOptions", Padding=padding, StrideH=stride,
        StrideW=stride, DepthMultiplier=multiplier, DilationHFactor=dilation, DilationWFactor=dilation,
        FusedActivationFunction=act,
    )  # fmt: skip
    return m.build()


def dense(
    shape: tuple[int, ...], out: int, dtype: str = "int8", bias: bool = True, act: int = NONE,
    keep: bool = False, out_shape: tuple[int, ...] | None = None, per_channel: bool = False,
    out_scale: float = 0.2,
) -> bytes:  # fmt: skip
    m = ModelFile()
    inner = shape[-1]
    zero = 0 if dtype == "int16" else 11
    x = m.input("x", shape, dtype, 0.05 if dtype == "int8" else 0.0004, zero)
    scales = channel_scales(out) if per_channel else [0.0071]
    w = m.const("w", weights(out, inner), "int8", scale=scales)
    ins = [x, w]
    if bias:
        kind = "int32" if dtype == "int8" else "int64"
        ins.append(
            m.const(
                "b", biases(out), kind, scale=[0.05 * s if dtype == "int8" else 0.0004 * s for s in scales]
            )
        )
    rows = int(np.prod(shape)) // inner
    o = m.output("y", out_shape or (rows, out), dtype, out_scale if dtype == "int8" else 0.001, zero)
    m.op(
        "FULLY_CONNECTED", ins, [o], "FullyConnectedOptions", FusedActivationFunction=act, KeepNumDims=keep,
        WeightsFormat=0,
    )  # fmt: skip
    return m.build()


def pool(name: str, padding: int, kernel: int, stride: int, act: int = NONE, dtype: str = "int8") -> bytes:
    m = ModelFile()
    zero = 0 if dtype == "int16" else 3
    size = -(-9 // stride) if padding == SAME else (9 - kernel) // stride + 1
    x = m.input("x", (1, 9, 9, 4), dtype, 0.05, zero)
    o = m.output("y", (1, size, size, 4), dtype, 0.05, zero)
    m.op(
        name, [x], [o], "Pool2DOptions", Padding=padding, StrideH=stride, StrideW=stride, FilterHeight=kernel,
        FilterWidth=kernel, FusedActivationFunction=act,
    )  # fmt: skip
    return m.build()


def binary(
    name: str, left: tuple[int, ...], right: tuple[int, ...], dtype: str = "int8", act: int = NONE,
    const: bool = False, out_scale: float = 0.11,
) -> bytes:  # fmt: skip
    m = ModelFile()
    zeros = (0, 0, 0) if dtype == "int16" else (5, -17, 30)
    a = m.input("a", left, dtype, 0.083, zeros[0])
    if const:
        b = m.const("b", weights(*right), dtype, scale=0.031, zero=zeros[1])
    else:
        b = m.input("b", right, dtype, 0.031, zeros[1])
    o = m.output("y", np.broadcast_shapes(left, right), dtype, out_scale, zeros[2])
    options = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions"}[name]
    m.op(name, [a, b], [o], options, FusedActivationFunction=act)
    return m.build()


def unary(
    name: str, shape: tuple[int, ...], scale: float, zero: int, out_scale: float, out_zero: int,
    dtype: str = "int8", out_dtype: str | None = None, options: str = "", **fields: Any,
) -> bytes:  # fmt: skip
    m = ModelFile()
    x = m.input("x", shape, dtype, scale, zero)
    o = m.output("y", shape, out_dtype or dtype, out_scale, out_zero)
    m.op(name, [x], [o], options, **fields)
    return m.build()


def moved(
    name: str,
    shape: tuple[int, ...],
    out: tuple[int, ...],
    consts: list[Any],
    options: str = "",
    **fields: Any,
) -> bytes:
    m = ModelFile()
    x = m.input("x", shape, "int8", 0.1, 4)
    o = m.output("y", out, "int8", 0.1, 4)
    m.op(name, [x, *(m.const(f"c{k}", c) for k, c in enumerate(consts))], [o], options, **fields)
    return m.build()


def concat(axis: int, shapes: list[tuple[int, ...]], out: tuple[int, ...]) -> bytes:
    m = ModelFile()
    xs = [m.input(f"x{k}", s, "int8", 0.1, 4) for k, s in enumerate(shapes)]
    o = m.output("y", out, "int8", 0.1, 4)
    m.op("CONCATENATION", xs, [o], "ConcatenationOptions", Axis=axis)
    return m.build()


def parts(name: str, sizes: list[int], axis: int) -> bytes:
    m = ModelFile()
    x = m.input("x", (1, sum(sizes), 3), "int8", 0.1, 4)
    outs = [m.output(f"y{k}", (1, s, 3), "int8", 0.1, 4) for k, s in enumerate(sizes)]
    at = m.const("axis", axis)
    if name == "SPLIT":
        m.op(name, [at, x], outs, "SplitOptions", NumSplits=len(sizes))
    else:
        m.op(name, [x, m.const("sizes", sizes), at], outs, "SplitVOptions", NumSplits=len(sizes))
    return m.build()


def mean(shape: tuple[int, ...], axes: list[int], keep: bool, dtype: str = "int8") -> bytes:
    m = ModelFile()
    zero = 0 if dtype == "int16" else 5
    x = m.input("x", shape, dtype, 0.1, zero)
    found = np.zeros(shape).mean(axis=tuple(axes), keepdims=keep).shape
    o = m.output("y", found, dtype, 0.043, 2 * zero)
    m.op("MEAN", [x, m.const("axes", axes)], [o], "ReducerOptions", KeepDims=keep)
    return m.build()


STRIDED: dict[str, Any] = {"options": "StridedSliceOptions"}
CASES = {
    "conv same": conv((3, 3), SAME, (1, 1), (1, 1), NONE),
    "conv same strided relu": conv((3, 2), SAME, (2, 3), (1, 1), RELU),
    "conv valid dilated relu6": conv((2, 3), VALID, (1, 1), (2, 2), RELU6),
    "conv per tensor": conv((1, 1), VALID, (2, 1), (1, 1), RELU_N1, per_channel=False),
    "conv without bias": conv((3, 3), SAME, (1, 1), (1, 1), NONE, bias=None),
    "conv in groups": conv((3, 2), SAME, (2, 1), (1, 1), RELU, depth=6, out=4, groups=2),
    "conv of single channels": conv((2, 2), VALID, (1, 1), (2, 1), NONE, depth=3, out=6, groups=3),
    "conv int16 in groups": conv(
        (1, 3), SAME, (1, 1), (1, 1), NONE, dtype="int16", bias="int64", depth=4, groups=2, out=6
    ),
    "conv int16": conv((3, 3), SAME, (1, 1), (1, 1), NONE, dtype="int16", bias="int64"),
    "conv int16 short bias": conv((3, 3), VALID, (2, 2), (1, 1), RELU, dtype="int16", bias="int32"),
    "conv int16 without bias": conv((3, 3), VALID, (1, 1), (1, 1), NONE, dtype="int16", bias=None),
    "depthwise same": depthwise(1, SAME, 1, 1, RELU),
    "depthwise multiplier": depthwise(2, VALID, 2, 1, RELU6),
    "depthwise dilated": depthwise(1, VALID, 1, 2, NONE, bias=False),
    "depthwise int16": depthwise(1, SAME, 2, 1, RELU, dtype="int16"),
    "dense": dense((1, 33), 7),
    "dense flattened": dense((2, 3, 20), 4, act=RELU),
    "dense kept axes": dense((2, 3, 20), 4, keep=True, out_shape=(2, 3, 4)),
    "dense without bias": dense((1, 12), 9, bias=False),
    "dense large scale": dense((1, 2), 9, out_scale=0.0001),
    "dense per channel": dense((1, 25), 6, per_channel=True),
    "dense int16": dense((1, 33), 7, dtype="int16"),
    "average valid": pool("AVERAGE_POOL_2D", VALID, 3, 3),
    "average same": pool("AVERAGE_POOL_2D", SAME, 3, 2, RELU),
    "average int16": pool("AVERAGE_POOL_2D", SAME, 2, 1, dtype="int16"),
    "max valid": pool("MAX_POOL_2D", VALID, 2, 2, RELU6),
    "max same": pool("MAX_POOL_2D", SAME, 3, 2),
    "max int16": pool("MAX_POOL_2D", VALID, 3, 1, dtype="int16"),
    "add": binary("ADD", (1, 4, 5, 3), (1, 4, 5, 3)),
    "add broadcast": binary("ADD", (1, 4, 5, 3), (1, 1, 1, 3), act=RELU),
    "add constant": binary("ADD", (1, 6), (1, 6), const=True),
    "add int16": binary("ADD", (2, 6), (2, 6), dtype="int16"),
    "sub": binary("SUB", (1, 4, 5, 3), (1, 4, 5, 3), act=RELU6),
    "sub broadcast": binary("SUB", (1, 4, 5, 3), (3,), const=True),
    "sub int16": binary("SUB", (2, 6), (2, 6), dtype="int16"),
    "mul": binary("MUL", (1, 4, 5, 3), (1, 4, 5, 3), out_scale=0.05),
    "mul broadcast": binary("MUL", (1, 4, 5, 3), (1, 1, 1, 3), act=RELU, out_scale=0.05),
    "mul int16": binary("MUL", (2, 6), (2, 6), dtype="int16", out_scale=30.0),
    "relu": unary("RELU", (1, 5, 4), 0.1, 3, 0.07, -128),
    "relu6": unary("RELU6", (1, 5, 4), 0.1, 3, 0.1, 3),
    "logistic": unary("LOGISTIC", (1, 256), 0.07, 5, 1 / 256, -128),
    "logistic coarse": unary("LOGISTIC", (1, 256), 0.9, -3, 1 / 256, -128),
    "tanh": unary("TANH", (1, 256), 0.03, 5, 1 / 128, 0),
    "tanh coarse": unary("TANH", (1, 256), 0.5, -90, 1 / 128, 0),
    "softmax": unary("SOFTMAX", (1, 12), 0.1, 9, 1 / 256, -128, options="SoftmaxOptions", Beta=1.0),
    "softmax rows": unary("SOFTMAX", (3, 40), 0.02, 9, 1 / 256, -128, options="SoftmaxOptions", Beta=1.0),
    "softmax beta": unary("SOFTMAX", (2, 5), 0.7, 0, 1 / 256, -128, options="SoftmaxOptions", Beta=0.3),
    **{
        f"{name} of steps of {scale:g}": unary(
            name.upper(), (1, 256), scale, zero, out, out_zero, options=options, **given
        )
        for name, out, out_zero, options, given in (
            ("logistic", 1 / 256, -128, "", {}), ("tanh", 1 / 128, 0, "", {}),
            ("softmax", 1 / 256, -128, "SoftmaxOptions", {"Beta": 1.0}),
        )
        for scale, zero in ((7.9, 3), (8.0, -128), (15.9, 120), (31.0, 0), (32.0, 5), (1e7, -3))
    },
    "quantize to u8": unary("QUANTIZE", (1, 9), 1 / 256, -128, 1 / 256, 0, out_dtype="uint8"),
    "quantize rescaled": unary("QUANTIZE", (1, 90), 0.11, 7, 0.03, -9),
    "quantize from int16": unary("QUANTIZE", (1, 90), 0.0011, 0, 0.13, -9, dtype="int16", out_dtype="int8"),
    "reshape": moved("RESHAPE", (1, 4, 3), (2, 6), [[2, -1]]),
    "squeeze": moved("SQUEEZE", (1, 4, 1, 3), (4, 3), [], "SqueezeOptions"),
    "expand": moved("EXPAND_DIMS", (4, 3), (4, 1, 3), [[1]]),
    "concat rows": concat(1, [(1, 2, 1, 3), (1, 4, 1, 3)], (1, 6, 1, 3)),
    "concat channels": concat(-1, [(1, 2, 3), (1, 2, 1), (1, 2, 4)], (1, 2, 8)),
    "strided slice": moved(
        "STRIDED_SLICE", (1, 9, 4), (1, 4, 2), [[0, 1, 0], [1, 8, 4], [1, 2, 2]], **STRIDED
    ),
    "strided slice masks": moved(
        "STRIDED_SLICE", (1, 9, 4), (1, 3, 4), [[0, -3, 1], [1, 1, 2], [1, 1, 1]],
        BeginMask=4, EndMask=6, **STRIDED,
    ),
    "strided slice shrink": moved(
        "STRIDED_SLICE", (2, 9, 4), (2, 4), [[0, 3, 0], [2, 4, 4], [1, 1, 1]], ShrinkAxisMask=2, **STRIDED
    ),
    "slice": moved("SLICE", (1, 9, 4), (1, 3, 2), [[0, 2, 2], [1, 3, -1]]),
    "split": parts("SPLIT", [2, 2, 2], 1),
    "split_v": parts("SPLIT_V", [1, 4, 2], -2),
    "pad": moved("PAD", (1, 4, 5, 2), (1, 7, 6, 2), [[[0, 0], [1, 2], [0, 1], [0, 0]]]),
    "mean of images": mean((1, 7, 6, 5), [1, 2], True),
    "mean dropped": mean((2, 7, 6, 5), [1, 2], False),
    "mean of channels": mean((1, 7, 6, 5), [-1], True),
    "mean int16": mean((2, 7, 33), [2], False, "int16"),
    "transpose": moved("TRANSPOSE", (1, 4, 5, 2), (1, 2, 4, 5), [[0, 3, 1, 2]]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_operator_is_bit_exact(case: str) -> None:
    assert_bit_exact(CASES[case], runs=12)
