"""Tensors of u8, as TensorFlow quantised before int8, against LiteRT's reference kernels, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from reference import assert_equals_litert
from tflite_files import ModelFile

from sdk.compiler.ir.graph import Call
from sdk.compiler.ir.module import Module
from sdk.errors import BuildError
from sdk.frontends.tflite.importer import import_tflite

SAME = 0
Rng = np.random.Generator
FUSED = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions"}


def real(rng: Rng, lo: float, hi: float) -> float:
    return float(np.float32(rng.uniform(lo, hi)))


def zero(rng: Rng) -> int:
    return int(rng.choice([0, 255, 128, *rng.integers(0, 256, 5)]))


def activation(rng: Rng) -> int:
    return int(rng.choice([0, 0, 1, 3]))


def weighted(op: str, groups: int = 1) -> Callable[[Rng], bytes]:
    """A convolution, of any kernel, stride and padding, or a fully connected layer; weights of any zero point."""

    def make(rng: Rng) -> bytes:
        m = ModelFile()
        k, depth, out, stride = (int(rng.integers(1, n)) for n in (4, 6, 7, 3))
        depth, out = depth * groups, out * groups
        pad = int(rng.integers(2))
        step, factor = real(rng, 0.01, 0.1), real(rng, 0.001, 0.02)
        side = -(-7 // stride) if pad == SAME else (7 - k) // stride + 1
        shape, result, weights = (2, 7, 7, depth), (2, side, side, out), (out, k, k, depth // groups)
        fields: dict[str, int] = {}
        if op == "DEPTHWISE_CONV_2D":
            out = depth * int(rng.integers(1, 3))
            weights, result = (1, k, k, out), (2, side, side, out)
            fields["DepthMultiplier"] = out // depth
        if op == "FULLY_CONNECTED":
            shape, weights, result = (3, 5 * depth), (out, 5 * depth), (3, out)
        else:
            fields |= {"Padding": pad, "StrideH": stride, "StrideW": stride}
            fields |= {"DilationHFactor": 1, "DilationWFactor": 1}
        x = m.input("x", shape, "uint8", step, zero(rng))
        w = m.const("w", rng.integers(0, 256, weights), "uint8", scale=factor, zero=zero(rng))
        b = m.const("b", rng.integers(-9000, 9000, out), "int32", scale=float(np.float32(step * factor)))
        taps = np.prod(weights) / out
        scale = real(rng, 0.5, 2) * step * factor * 100 * float(np.sqrt(taps))
        y = m.output("y", result, "uint8", scale, zero(rng))
        options = {"CONV_2D": "Conv2D", "DEPTHWISE_CONV_2D": "DepthwiseConv2D", "FULLY_CONNECTED": "FullyConnected"}
        m.op(op, [x, w, b], [y], f"{options[op]}Options", FusedActivationFunction=activation(rng), **fields)
        return m.build()

    return make


def binary(op: str) -> Callable[[Rng], bytes]:
    def make(rng: Rng) -> bytes:
        m = ModelFile()
        a = m.input("a", (2, 5, 4), "uint8", real(rng, 0.01, 0.1), zero(rng))
        b = m.input("b", (2, 5, 4) if rng.random() < 0.6 else (4,), "uint8", real(rng, 0.01, 0.1), zero(rng))
        y = m.output("y", (2, 5, 4), "uint8", real(rng, 0.02, 0.2), zero(rng))
        m.op(op, [a, b], [y], FUSED[op], FusedActivationFunction=activation(rng))
        return m.build()

    return make


def pool(op: str) -> Callable[[Rng], bytes]:
    def make(rng: Rng) -> bytes:
        m = ModelFile()
        k, stride, pad = int(rng.integers(1, 8)), int(rng.integers(1, 3)), int(rng.integers(0, 2))
        side = -(-7 // stride) if pad == SAME else (7 - k) // stride + 1
        meaning = (real(rng, 0.01, 0.1), zero(rng))
        x = m.input("x", (1, 7, 7, 3), "uint8", *meaning)
        y = m.output("y", (1, side, side, 3), "uint8", *meaning)
        m.op(op, [x], [y], "Pool2DOptions", Padding=pad, StrideH=stride, StrideW=stride, FilterHeight=k,
             FilterWidth=k, FusedActivationFunction=activation(rng))  # fmt: skip
        return m.build()

    return make


def concatenation(rng: Rng) -> bytes:
    """Parts on scales of their own."""
    m = ModelFile()
    counts = [int(n) for n in rng.integers(1, 5, 3)]
    parts = [m.input(f"x{k}", (2, 3, n), "uint8", real(rng, 0.01, 0.1), zero(rng)) for k, n in enumerate(counts)]
    y = m.output("y", (2, 3, sum(counts)), "uint8", real(rng, 0.02, 0.1), zero(rng))
    m.op("CONCATENATION", parts, [y], "ConcatenationOptions", Axis=2)
    return m.build()


def mean(rng: Rng) -> bytes:
    m = ModelFile()
    axes = [(1, 2), (1,), (3,), (2, 3), (0,), (1, 2, 3)][int(rng.integers(6))]
    x = m.input("x", (2, 4, 5, 3), "uint8", real(rng, 0.01, 0.1), zero(rng))
    shape = [1 if k in axes else n for k, n in enumerate((2, 4, 5, 3))]
    y = m.output("y", shape, "uint8", real(rng, 0.01, 0.1), zero(rng))
    m.op("MEAN", [x, m.const("axes", axes)], [y], "ReducerOptions", KeepDims=True)
    return m.build()


def unary(op: str, out: tuple[float, int] | None = None, options: str = "", **fields: Any) -> Callable[[Rng], bytes]:
    """All stored values, on an output that is given, the same, or any."""

    def make(rng: Rng) -> bytes:
        m = ModelFile()
        meaning = (real(rng, 0.005, 0.1), zero(rng))
        x = m.input("x", (4, 64), "uint8", *meaning)
        other = meaning if rng.random() < 0.3 else (real(rng, 0.02, 0.1), zero(rng))
        y = m.output("y", (4, 64), "uint8", *(out or other))
        m.op(op, [x], [y], options, **fields)
        return m.build()

    return make


def moved(op: str, shape: tuple[int, ...], arguments: Any) -> Callable[[Rng], bytes]:
    """An operator that only moves elements."""

    def make(rng: Rng) -> bytes:
        m = ModelFile()
        meaning = (real(rng, 0.01, 0.1), zero(rng))
        x, y = m.input("x", (2, 3, 4), "uint8", *meaning), m.output("y", shape, "uint8", *meaning)
        m.op(op, [x, m.const("c", arguments)], [y])
        return m.build()

    return make


MODELS: dict[str, Callable[[Rng], bytes]] = {
    **{op: weighted(op) for op in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")},
    "CONV_2D in groups": weighted("CONV_2D", 2),
    **{op: binary(op) for op in FUSED},
    **{op: pool(op) for op in ("AVERAGE_POOL_2D", "MAX_POOL_2D")},
    "CONCATENATION": concatenation,
    "MEAN": mean,
    "SOFTMAX": unary("SOFTMAX", (1 / 256, 0), "SoftmaxOptions", Beta=1.0),
    "LOGISTIC": unary("LOGISTIC", (1 / 256, 0)),
    "TANH": unary("TANH", (1 / 128, 128)),
    "RELU": unary("RELU"),
    "RELU6": unary("RELU6"),
    "QUANTIZE": unary("QUANTIZE"),
    "PAD": moved("PAD", (2, 6, 7), [[0, 0], [1, 2], [3, 0]]),
    "RESHAPE": moved("RESHAPE", (6, 4), [6, 4]),
    "TRANSPOSE": moved("TRANSPOSE", (4, 2, 3), [2, 0, 1]),
}  # fmt: skip


@pytest.mark.parametrize("op", MODELS)
def test_u8_equals_litert(op: str) -> None:
    rng = np.random.default_rng(len(op))
    for k in range(12):
        off = 1 if op == "FULLY_CONNECTED" else 0  # LiteRT rounds dense layers once, in double precision
        assert_equals_litert(MODELS[op](rng), runs=4, seed=k, distinct=k == 0, off=off)


def chain(first: str, last: str, x: str = "uint8", y: str = "uint8") -> Module:
    """x -> ``first`` -> ``last`` -> y, each an operator of one tensor, the one between of u8."""
    m = ModelFile()
    a = m.input("x", (1, 2, 2, 3), x, 0.1, 128 if x == "uint8" else 0)
    b = m.tensor("between", (1, 2, 2, 3), "uint8", 0.1, 128)
    c = m.output("y", (1, 2, 2, 3), y, 0.1, 128 if y == "uint8" else 0)
    for op, source, target in ((first, a, b), (last, b, c)):
        m.op(op, [source], [target], "SqueezeOptions" if op == "SQUEEZE" else "")
    return import_tflite(m.build(), "chain")


@pytest.mark.parametrize(
    ("module", "conversions"),
    [
        (chain("SQUEEZE", "SQUEEZE"), 0),  # what is only moved stays as it is
        (chain("RELU", "SQUEEZE"), 2),
        (chain("SQUEEZE", "RELU"), 2),
        (chain("QUANTIZE", "RELU", "int8"), 1),  # i8 all the way but the end
        (chain("RELU", "QUANTIZE", "uint8", "int8"), 1),
    ],
)
def test_tensors_are_converted_once(module: Module, conversions: int) -> None:
    calls = [node for node in module.graphs["main"].body if isinstance(node, Call)]
    assert sum(c.args[0].type.dtype != c.outs[0].type.dtype for c in calls) == conversions


def test_a_zero_point_beyond_u8_is_refused() -> None:
    m = ModelFile()
    m.op("RELU", [m.input("x", (4,), "uint8", 0.1, 300)], [m.output("y", (4,), "uint8", 0.1, 0)])
    with pytest.raises(BuildError) as caught:
        import_tflite(m.build(), "beyond")
    assert "tensor x has the zero point 300, outside u8" in str(caught.value)


def test_u8_weights_on_scales_of_channels_are_refused() -> None:
    m = ModelFile()
    x = m.input("x", (1, 4), "uint8", 0.1, 3)
    w = m.const("w", np.ones((2, 4)), "uint8", scale=[0.5, 0.25], zero=[3, 4])
    m.op("FULLY_CONNECTED", [x, w], [m.output("y", (1, 2), "uint8", 0.1, 0)], "FullyConnectedOptions")
    with pytest.raises(BuildError) as caught:
        import_tflite(m.build(), "channels")
    assert "weights w of u8 have 2 scales instead of one" in str(caught.value)
