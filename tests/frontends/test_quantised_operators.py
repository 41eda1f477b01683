"""Operators on quantised tensors beyond those of test_operators.py, against LiteRT's reference kernels and, where it
has them, tflite-micro, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from meanings import bytes_of, meaning, real
from reference import assert_bit_exact, assert_equals_litert, random_inputs
from tflite_files import ModelFile

from sdk.compiler.interp.graph import run_graph
from sdk.errors import BuildError
from sdk.frontends.tflite.importer import import_tflite
from sdk.frontends.tflite.suited import unsuited

Rng = np.random.Generator
Make = Callable[[Rng, str], bytes]
SAME = 0


def unary(op: str, options: str = "", **fields: Any) -> Make:
    """Any stored values, to a scale that is the same or another."""

    def make(rng: Rng, dtype: str) -> bytes:
        m, source = ModelFile(), meaning(rng, dtype)
        other = source[0] * real(rng, 0.3, 3), meaning(rng, dtype)[1]
        target = source if rng.random() < 0.3 else other
        x = m.input("x", (4, 256), dtype, *source)
        m.op(op, [x], [m.output("y", (4, 256), dtype, float(np.float32(target[0])), target[1])], options, **fields)
        return m.build()

    return make


def pair(op: str, same: bool = False, boolean: bool = False) -> Make:
    """Two tensors, the second one perhaps broadcast."""

    def make(rng: Rng, dtype: str) -> bytes:
        m, a, b, out = ModelFile(), *(meaning(rng, dtype) for _ in range(3))
        if same:
            b = out = a
        shape = (2, 5, 16) if rng.random() < 0.6 else (16,)
        ins = [m.input("a", (2, 5, 16), dtype, *a), m.input("b", shape, dtype, *b)]
        y = m.output("y", (2, 5, 16), "bool") if boolean else m.output("y", (2, 5, 16), dtype, *out)
        m.op(op, ins, [y])
        return m.build()

    return make


def prelu(rng: Rng, dtype: str) -> bytes:
    m = ModelFile()
    x = m.input("x", (1, 4, 4, 16), dtype, *meaning(rng, dtype))
    scale, zero = meaning(rng, dtype, 0.001, 0.01)
    kind = "int8" if dtype == "int16" else dtype
    slope = m.const("slope", bytes_of(rng, kind, (1, 1, 16)), kind, scale=scale, zero=zero)
    m.op("PRELU", [x, slope], [m.output("y", (1, 4, 4, 16), dtype, *meaning(rng, dtype))])
    return m.build()


def resize(op: str) -> Make:
    def make(rng: Rng, dtype: str) -> bytes:
        m, own = ModelFile(), meaning(rng, dtype)
        rows, cols, height, width = (int(n) for n in rng.integers(1, 14, 4))
        corners = bool(rng.integers(2))
        x, y = m.input("x", (2, rows, cols, 3), dtype, *own), m.output("y", (2, height, width, 3), dtype, *own)
        kind = "ResizeBilinearOptions" if op == "RESIZE_BILINEAR" else "ResizeNearestNeighborOptions"
        m.op(op, [x, m.const("size", [height, width])], [y], kind, AlignCorners=corners,
             HalfPixelCenters=not corners and bool(rng.integers(2)))  # fmt: skip
        return m.build()

    return make


def transpose_conv(rng: Rng, dtype: str, computed: bool = False) -> bytes:
    m = ModelFile()
    rows, cols = (int(n) for n in rng.integers(1, 7, 2))
    kernel, stride = rng.integers(1, 6, 2).tolist(), rng.integers(1, 4, 2).tolist()
    depth, out, pad = int(rng.integers(1, 5)), int(rng.integers(1, 5)), int(rng.integers(2))
    sizes = [
        max(1, n * s - int(rng.integers(0, s))) if pad == SAME else (n - 1) * s + k
        for n, s, k in zip((rows, cols), stride, kernel, strict=True)
    ]
    source = meaning(rng, dtype)
    scales = [real(rng, 0.001, 0.02) for _ in range(1 if dtype == "uint8" else out)]
    kind, zero = ("uint8", int(rng.integers(0, 256))) if dtype == "uint8" else ("int8", 0)
    weights = bytes_of(rng, dtype, (out, *kernel, depth))
    ins = [
        m.const("shape", [2, *sizes, out]),
        m.input("w", weights.shape, kind, scales, zero) if computed
        else m.const("w", weights, kind, scale=scales, zero=zero),
        m.input("x", (2, rows, cols, depth), dtype, *source),
    ]
    if rng.random() < 0.7:
        found = [float(np.float32(source[0]) * np.float32(s)) for s in scales]
        ins.append(m.const("b", rng.integers(-5000, 5000, out), "int64" if dtype == "int16" else "int32", scale=found))
    y = m.output("y", (2, *sizes, out), dtype, source[0] * max(scales) * 300, meaning(rng, dtype)[1])
    m.op("TRANSPOSE_CONV", ins, [y], "TransposeConvOptions", Padding=pad, StrideH=stride[0], StrideW=stride[1])
    return m.build()


def reduction(op: str, same: bool = True) -> Make:
    def make(rng: Rng, dtype: str) -> bytes:
        m, own = ModelFile(), meaning(rng, dtype)
        axes, shape = [((1,), (2, 9)), ((2,), (2, 3)), ((1, 2), (2,)), ((0,), (3, 9))][int(rng.integers(4))]
        x = m.input("x", (2, 3, 9), dtype, *own)
        y = m.output("y", shape, dtype, *(own if same else meaning(rng, dtype, 0.05, 0.5)))
        m.op(op, [x, m.const("axes", axes)], [y], "ReducerOptions", KeepDims=False)
        return m.build()

    return make


def search(op: str) -> Make:
    def make(rng: Rng, dtype: str) -> bytes:
        m = ModelFile()
        x, y = m.input("x", (2, 3, 9), dtype, *meaning(rng, dtype)), m.output("y", (2, 3), "int32")
        m.op(op, [x, m.const("axis", 2)], [y], "ArgMaxOptions" if op == "ARG_MAX" else "ArgMinOptions", OutputType=2)
        return m.build()

    return make


def moved(op: str, shape: Any, out: Any, *consts: Any, options: str = "", outputs: int = 1, **fields: Any) -> Make:
    """An operator that only moves elements."""

    def make(rng: Rng, dtype: str) -> bytes:
        m, own = ModelFile(), meaning(rng, dtype)
        x = m.input("x", shape, dtype, *own)
        given = [m.const(f"c{k}", c) for k, c in enumerate(consts)]
        m.op(op, [x, *given], [m.output(f"y{k}", out, dtype, *own) for k in range(outputs)], options, **fields)
        return m.build()

    return make


def pack(rng: Rng, dtype: str) -> bytes:
    m, own = ModelFile(), meaning(rng, dtype)
    parts = [m.input(f"x{k}", (2, 3), dtype, *own) for k in range(3)]
    m.op("PACK", parts, [m.output("y", (2, 3, 3), dtype, *own)], "PackOptions", Axis=1, ValuesCount=3)
    return m.build()


def positive(op: str) -> Make:
    """A function that the reference computes from 0 on only."""

    def make(rng: Rng, dtype: str) -> bytes:
        m, scale = ModelFile(), meaning(rng, dtype)[0]
        zero = -128 if dtype == "int8" else 0
        x = m.input("x", (4, 256), dtype, scale, zero)
        if dtype == "int16":  # what is above is what it is, what is below becomes 0
            above = m.tensor("above", (4, 256), dtype, scale, zero)
            m.op("RELU", [x], [above])
            x = above
        target = scale ** (0.5 if op == "SQRT" else -0.5) / (12 if dtype == "int8" else 3000)
        y = m.output("y", (4, 256), dtype, float(np.float32(target)), meaning(rng, dtype)[1])
        m.op(op, [x], [y])
        return m.build()

    return make


def to_stated(op: str, stated: dict[str, tuple[float, int]], out: str = "", options: str = "", **fields: Any) -> Make:
    """A function whose output's scale is given by its type."""

    def make(rng: Rng, dtype: str) -> bytes:
        m = ModelFile()
        source = meaning(rng, dtype)
        if dtype == "int16" and rng.random() < 0.5:
            source = float(rng.choice([2.0**-12, 2.0**-11, 2.0**-13, 3 / 4096, 0.5])), 0
        x = m.input("x", (4, 100), dtype, *source)
        m.op(op, [x], [m.output("y", (4, 100), out or dtype, *stated[out or dtype])], options, **fields)
        return m.build()

    return make


def matmul(rng: Rng, dtype: str) -> bytes:
    m, a, b, out = ModelFile(), *(meaning(rng, dtype) for _ in range(3))
    turned = [bool(n) for n in rng.integers(0, 2, 2)]
    rows, inner, columns = (int(n) for n in rng.integers(1, 20, 3))
    left = (3, inner, rows) if turned[0] else (3, rows, inner)
    right = (columns, inner) if turned[1] else (inner, columns)
    right = (3, *right) if rng.random() < 0.4 else right
    fixed = rng.random() < 0.4
    x = m.input("a", left, dtype, *a)
    other = {"scale": b[0], "zero": b[1]}
    w = m.const("b", bytes_of(rng, dtype, right), dtype, **other) if fixed else m.input("b", right, dtype, *b)
    scale = float(np.float32(a[0] * b[0] * 40 * (200 if dtype == "int16" else 1)))
    y = m.output("y", (3, rows, columns), dtype, scale, out[1])
    m.op("BATCH_MATMUL", [x, w], [y], "BatchMatMulOptions", AdjX=turned[0], AdjY=turned[1])
    return m.build()


def computed_weights(op: str) -> Make:
    """A layer whose weights are an input."""

    def make(rng: Rng, dtype: str) -> bytes:
        m, own = ModelFile(), meaning(rng, dtype)
        depth, out = (int(n) for n in rng.integers(1, 9, 2))
        shapes = {
            "FULLY_CONNECTED": ((3, depth), (out, depth), (3, out)),
            "CONV_2D": ((1, 5, 6, depth), (out, 3, 2, depth), (1, 5, 6, out)),
            "DEPTHWISE_CONV_2D": ((1, 5, 6, depth), (1, 3, 2, depth), (1, 5, 6, depth)),
        }
        x_shape, shape, y_shape = shapes[op]
        kind = "uint8" if dtype == "uint8" else "int8"
        zero = int(rng.integers(0, 256)) if kind == "uint8" else 0
        if op == "FULLY_CONNECTED" and dtype == "int8" and rng.random() < 0.3:
            zero = int(rng.integers(-128, 128))
        x, w = m.input("x", x_shape, dtype, *own), m.input("w", shape, kind, 0.01, zero)
        bias = rng.integers(-2000, 2000, y_shape[-1])
        b = m.const("b", bias, "int64" if dtype == "int16" else "int32", scale=float(np.float32(own[0] * 0.01)))
        y = m.output("y", y_shape, dtype, float(np.float32(own[0] * 0.5)), meaning(rng, dtype)[1])
        windows = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1, "Padding": SAME}
        name = {"FULLY_CONNECTED": "FullyConnected", "CONV_2D": "Conv2D"}.get(op, "DepthwiseConv2D")
        more = {} if op == "FULLY_CONNECTED" else windows | ({"DepthMultiplier": 1} if op[0] == "D" else {})
        m.op(op, [x, w, b], [y], f"{name}Options", **more)
        return m.build()

    return make


def rounded_once(rng: Rng, dtype: str) -> bytes:
    """A layer whose sums are what the bias says, around the ends of steps: there one rounding and two differ."""
    m, count = ModelFile(), 64
    scale, weight, out = real(rng, 0.01, 0.1), real(rng, 0.001, 0.01), real(rng, 0.01, 0.05)
    ratio = float(np.float64(np.float32(scale)) * np.float64(np.float32(weight)) / np.float64(np.float32(out)))
    ends = np.ceil((rng.integers(-120, 120, count) - 0.5) / ratio) + rng.integers(-1, 2, count)
    x = m.input("x", (1, 4), dtype, scale, 7)
    w = m.const("w", np.full((count, 4), 9), dtype, scale=weight, zero=9)
    b = m.const("b", ends.astype(np.int64), scale=float(np.float32(scale * weight)))
    m.op("FULLY_CONNECTED", [x, w, b], [m.output("y", (1, count), dtype, out, 128)], "FullyConnectedOptions")
    return m.build()


def converted(kind: str) -> Make:
    """QUANTIZE from the type asked for to ``kind``."""

    def make(rng: Rng, dtype: str) -> bytes:
        ends = [(0.002, 0) if k == "int32" else meaning(rng, k) for k in (dtype, kind)]
        m = ModelFile()
        x = m.input("x", (3, 50), dtype, *ends[0])
        m.op("QUANTIZE", [x], [m.output("y", (3, 50), kind, *ends[1])])
        return m.build()

    return make


def chosen(rng: Rng, dtype: str) -> bytes:
    m, own = ModelFile(), meaning(rng, dtype)
    x = m.input("x", (3, 11), dtype, *own)
    m.op("TOPK_V2", [x, m.const("k", 4)], [m.output("y", (3, 4), dtype, *own), m.output("at", (3, 4), "int32")])
    return m.build()


def updated(rng: Rng, dtype: str) -> bytes:
    m, own = ModelFile(), meaning(rng, dtype)
    x, part = m.input("x", (4, 7, 3), dtype, *own), m.input("part", (2, 3, 3), dtype, *own)
    start = m.const("start", rng.integers(-2, 8, 3))
    m.op("DYNAMIC_UPDATE_SLICE", [x, part, start], [m.output("y", (4, 7, 3), dtype, *own)])
    return m.build()


def quotient(rng: Rng, dtype: str) -> bytes:
    """Of constants other than 0, so large that LiteRT shifts no quotient by more than 31 bits."""
    m, (scale, zero), (by, middle) = ModelFile(), meaning(rng, dtype), meaning(rng, dtype)
    lo, hi = np.iinfo(dtype).min, np.iinfo(dtype).max
    divisors = rng.integers(lo, hi + 1, 16)
    divisors[divisors == middle] = lo if middle != lo else hi
    x = m.input("x", (5, 16), dtype, scale, zero)
    w = m.const("w", divisors, dtype, scale=by, zero=middle)
    step = float(np.float32(scale / by * real(rng, 0.004, 0.02) / (200 if dtype == "int16" else 1)))
    y = m.output("y", (5, 16), dtype, step, meaning(rng, dtype)[1])
    m.op("DIV", [x, w], [y], "DivOptions", FusedActivationFunction=int(rng.integers(2)))
    return m.build()


LOGISTICS = {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)}
TANHS = {"int16": (1 / 32768, 0)}
LENGTHS = {"int8": (1 / 128, 0), "uint8": (1 / 128, 128)}
WIDE = {"int16": (1 / 65536, -32768)}
I8, U8, I16 = "int8", "uint8", "int16"
MICRO, LITERT = assert_bit_exact, assert_equals_litert
BYTES = ((I8, MICRO), (I8, LITERT), (U8, LITERT))
EVERY = (*BYTES, (I16, LITERT))
Case = tuple[Make, tuple[tuple[str, Any], ...]]
CASES: dict[str, Case] = {
    "LEAKY_RELU": (unary("LEAKY_RELU", "LeakyReluOptions", Alpha=0.37), (*BYTES, (I16, MICRO))),
    "HARD_SWISH": (unary("HARD_SWISH"), BYTES),
    "ELU": (unary("ELU"), ((I8, MICRO),)),
    "GELU": (unary("GELU", "GeluOptions", Approximate=False), ((I8, LITERT), (U8, LITERT))),
    "GELU by tanh": (unary("GELU", "GeluOptions", Approximate=True), ((I8, LITERT), (U8, LITERT))),
    "EXP": (unary("EXP"), ((I8, LITERT),)),
    "LOG": (unary("LOG"), ((I8, LITERT),)),
    "RELU_N1_TO_1": (unary("RELU_N1_TO_1"), ((I8, LITERT), (U8, LITERT))),
    "RELU_0_TO_1": (unary("RELU_0_TO_1"), ((I8, LITERT), (U8, LITERT))),
    "RELU6 to another scale": (unary("RELU6"), ((I8, LITERT), (U8, LITERT), (I16, LITERT))),
    "MAXIMUM": (pair("MAXIMUM", same=True), EVERY),
    "MINIMUM": (pair("MINIMUM", same=True), EVERY),
    "EQUAL": (pair("EQUAL", boolean=True), BYTES),
    "LESS": (pair("LESS", boolean=True), BYTES),
    "GREATER_EQUAL": (pair("GREATER_EQUAL", boolean=True), BYTES),
    "LESS of i16": (pair("LESS", same=True, boolean=True), ((I16, LITERT),)),
    "SQUARED_DIFFERENCE": (pair("SQUARED_DIFFERENCE"), ((I8, MICRO), (I8, LITERT))),
    "PRELU": (prelu, BYTES),
    "RESIZE_BILINEAR": (resize("RESIZE_BILINEAR"), BYTES),
    "RESIZE_NEAREST_NEIGHBOR": (resize("RESIZE_NEAREST_NEIGHBOR"), ((I8, LITERT), (U8, LITERT), (I16, LITERT))),
    "TRANSPOSE_CONV": (transpose_conv, (*EVERY, (I16, MICRO))),
    "SUM": (reduction("SUM", same=False), ((I8, MICRO), (U8, LITERT), (I16, MICRO))),
    "REDUCE_MAX": (reduction("REDUCE_MAX"), ((I8, LITERT), (U8, LITERT), (I16, LITERT))),
    "REDUCE_MIN": (reduction("REDUCE_MIN"), ((I8, LITERT), (U8, LITERT), (I16, LITERT))),
    "ARG_MAX": (search("ARG_MAX"), ((I8, LITERT), (U8, LITERT))),
    "ARG_MIN": (search("ARG_MIN"), ((I8, LITERT), (U8, LITERT))),
    "ABS": (unary("ABS"), ((I8, LITERT), (I16, LITERT))),
    "SQRT": (positive("SQRT"), ((I8, LITERT), (I16, LITERT))),
    "RSQRT": (positive("RSQRT"), ((I8, LITERT), (I16, LITERT))),
    "EXP of i16": (unary("EXP"), ((I16, LITERT),)),
    "LOG of i16": (unary("LOG"), ((I16, LITERT),)),
    "GELU of i16": (unary("GELU", "GeluOptions", Approximate=False), ((I16, LITERT),)),
    "LOGISTIC of i16": (to_stated("LOGISTIC", LOGISTICS), ((I16, LITERT), (I16, MICRO))),
    "TANH of i16": (to_stated("TANH", TANHS), ((I16, LITERT), (I16, MICRO))),
    "SOFTMAX of i16": (to_stated("SOFTMAX", TANHS, options="SoftmaxOptions", Beta=1.0), ((I16, MICRO),)),
    "SOFTMAX to i16": (
        to_stated("SOFTMAX", WIDE, "int16", "SoftmaxOptions", Beta=0.7), ((I8, LITERT), (I8, MICRO), (U8, LITERT))
    ),
    "PRELU of i16": (prelu, ((I16, LITERT),)),
    "BATCH_MATMUL": (matmul, ((I8, MICRO), (I8, LITERT), (I16, MICRO), (I16, LITERT))),
    "weights of FULLY_CONNECTED": (computed_weights("FULLY_CONNECTED"), ((I8, MICRO), (U8, LITERT), (I16, MICRO))),
    "weights of CONV_2D": (computed_weights("CONV_2D"), ((I8, LITERT), (I16, LITERT))),
    "weights of DEPTHWISE_CONV_2D": (computed_weights("DEPTHWISE_CONV_2D"), ((I8, LITERT), (I16, LITERT))),
    "weights of TRANSPOSE_CONV": (partial(transpose_conv, computed=True), ((I8, LITERT), (I16, LITERT))),
    "FULLY_CONNECTED rounds once": (rounded_once, ((U8, LITERT),)),
    "MUL": (pair("MUL"), ((I8, MICRO), (U8, LITERT), (I16, MICRO))),
    "QUANTIZE to i8": (converted("int8"), (("int32", LITERT), ("int32", MICRO), (I16, MICRO), (U8, LITERT))),
    "QUANTIZE to i16": (converted("int16"), (("int32", LITERT), ("int32", MICRO), (I8, MICRO))),
    "QUANTIZE to i32": (converted("int32"), ((I16, LITERT), (I16, MICRO))),
    "TOPK_V2": (chosen, ((I8, LITERT), (U8, LITERT), (I16, LITERT))),
    "DYNAMIC_UPDATE_SLICE": (updated, ((I8, LITERT), (U8, LITERT), (I16, LITERT))),
    "L2_NORMALIZATION": (to_stated("L2_NORMALIZATION", LENGTHS, options="L2NormOptions"), ((I8, LITERT), (U8, LITERT))),
    "DIV": (quotient, ((I8, LITERT), (U8, LITERT), (I16, LITERT))),
    "PACK": (pack, EVERY),
    "UNPACK": (moved("UNPACK", (3, 2, 4), (3, 4), options="UnpackOptions", outputs=2, Axis=1, Num=2), EVERY),
    "MIRROR_PAD": (
        moved("MIRROR_PAD", (2, 4, 5), (2, 6, 7), [[0, 0], [1, 1], [2, 0]], options="MirrorPadOptions", Mode=0),
        ((I8, LITERT), (U8, LITERT), (I16, LITERT)),
    ),
    "TILE": (moved("TILE", (2, 3), (4, 9), [2, 3]), ((I8, LITERT), (U8, LITERT), (I16, LITERT))),
    "BROADCAST_TO": (moved("BROADCAST_TO", (2, 1), (4, 2, 3), [4, 2, 3]), ((I8, LITERT), (U8, LITERT), (I16, LITERT))),
    "GATHER": (
        moved("GATHER", (3, 5, 2), (3, 4, 2), [1, 0, 4, 4], options="GatherOptions", Axis=1),
        ((I8, LITERT), (U8, LITERT), (I16, LITERT)),
    ),
    "REVERSE_V2": (moved("REVERSE_V2", (3, 5, 2), (3, 5, 2), [1]), ((I8, LITERT), (U8, LITERT), (I16, LITERT))),
    "DEPTH_TO_SPACE": (
        moved("DEPTH_TO_SPACE", (1, 2, 3, 8), (1, 4, 6, 2), options="DepthToSpaceOptions", BlockSize=2), BYTES,
    ),
    "SPACE_TO_DEPTH": (
        moved("SPACE_TO_DEPTH", (1, 4, 6, 2), (1, 2, 3, 8), options="SpaceToDepthOptions", BlockSize=2), BYTES,
    ),
    "SPACE_TO_BATCH_ND": (
        moved("SPACE_TO_BATCH_ND", (1, 3, 4, 2), (4, 2, 3, 2), [2, 2], [[1, 0], [0, 2]]),
        ((I8, LITERT), (U8, LITERT)),  # tflite-micro has a border of zeros, whatever stands for 0
    ),
    "BATCH_TO_SPACE_ND": (
        moved("BATCH_TO_SPACE_ND", (4, 2, 3, 2), (1, 3, 5, 2), [2, 2], [[1, 0], [0, 1]]), BYTES,
    ),
}  # fmt: skip
RUNS = [(name, dtype, engine) for name, (_, runs) in CASES.items() for dtype, engine in runs]


@pytest.mark.parametrize(("name", "dtype", "engine"), RUNS, ids=lambda v: getattr(v, "__name__", v))
def test_an_operator_equals_its_reference(name: str, dtype: str, engine: Any) -> None:
    rng = np.random.default_rng(len(name))
    for k in range(6):
        engine(CASES[name][0](rng, dtype), runs=3, seed=k, distinct=False)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_a_matrix_with_a_scale_a_column_is_the_weights_of_a_dense_layer(dtype: str) -> None:
    """LiteRT's BATCH_MATMUL reads one scale alone, so FULLY_CONNECTED of the same numbers is the reference."""
    rng = np.random.default_rng(5)
    for k in range(6):
        turned, (rows, inner, columns) = bool(k % 2), rng.integers(2, 20, 3).tolist()
        source, scales = meaning(rng, dtype), [real(rng, 0.001, 0.02) for _ in range(columns)]
        weights = bytes_of(rng, "int8", (columns, inner))
        target = float(np.float32(source[0] * 0.01 * 70 * (20 if dtype == "int16" else 1))), meaning(rng, dtype)[1]
        files = {}
        for op in ("FULLY_CONNECTED", "BATCH_MATMUL"):
            m, product = ModelFile(), op == "BATCH_MATMUL"
            x, y = m.input("x", (rows, inner), dtype, *source), m.output("y", (rows, columns), dtype, *target)
            given = (weights, 0) if turned or not product else (weights.T, 1)
            w = m.const("w", given[0], "int8", scale=scales, axis=given[1])
            options = ("BatchMatMulOptions", {"AdjX": False, "AdjY": turned}) if product else (
                "FullyConnectedOptions", {})
            m.op(op, [x, w], [y], options[0], **options[1])
            files[op] = m.build()
        assert_bit_exact(files["FULLY_CONNECTED"], runs=3, seed=k, distinct=False)
        modules = [import_tflite(data, "model") for data in files.values()]
        given = random_inputs(modules[0], rng, k)
        dense, product = (run_graph(m, "main", given)["y"] for m in modules)
        np.testing.assert_array_equal(product, dense)
        assert all(unsuited(files["BATCH_MATMUL"], engine) for engine in ("tflite-micro", "litert"))


def test_a_transposed_convolution_whose_shape_the_run_gives_has_the_shape_of_the_file() -> None:
    """tflite-micro reads no shape at all."""
    rng = np.random.default_rng(9)
    for dtype in (I8, I16):
        m = ModelFile()
        shape, x = m.input("shape", (4,), "int32"), m.input("x", (2, 3, 4, 5), dtype, 0.02, 0)
        scales = [0.01, 0.02, 0.015]
        w = m.const("w", bytes_of(rng, dtype, (3, 2, 4, 5)), "int8", scale=scales)
        kind = "int64" if dtype == I16 else "int32"
        b = m.const("b", rng.integers(-500, 500, 3), kind, scale=[0.02 * s for s in scales])
        y = m.output("y", (2, 6, 8, 3), dtype, 0.05 if dtype == I16 else 2.0, 0)
        m.op("TRANSPOSE_CONV", [shape, w, x, b], [y], "TransposeConvOptions", Padding=SAME, StrideH=2, StrideW=2)
        assert_bit_exact(m.build(), runs=3)


def test_a_transposed_convolution_of_a_shape_that_nobody_knows_is_refused() -> None:
    m = ModelFile()
    shape, x = m.input("shape", (4,), "int32"), m.input("x", (1, 3, 4, 5), I8, 0.02, 0)
    w = m.const("w", np.ones((3, 2, 4, 5)), "int8", scale=[0.01] * 3)
    y = m.output("y", (1, 1, 1, 3), I8, 2.0, 0, signature=(1, -1, -1, 3))
    m.op("TRANSPOSE_CONV", [shape, w, x], [y], "TransposeConvOptions", Padding=SAME, StrideH=2, StrideW=2)
    with pytest.raises(BuildError, match="must hold integers known when the model is built"):
        import_tflite(m.build(), "refused")


def refusal(op: str, ins: list[tuple[Any, ...]], out: tuple[Any, ...], consts: Any = (), **given: Any) -> str:
    """Why one operator is not imported."""
    m = ModelFile()
    x = [m.input(f"x{k}", *one) for k, one in enumerate(ins)] + [m.const(f"c{k}", c) for k, c in enumerate(consts)]
    m.op(op, x, [m.output("y", *out)], **given)
    with pytest.raises(BuildError) as caught:
        import_tflite(m.build(), "refused")
    return str(caught.value)


BYTE, LAYER = (0.05, 3), "FULLY_CONNECTED"
REFUSED: dict[str, tuple[Any, ...]] = {
    "a part of shape ['3', '2'] of ['2', '2']": (
        "DYNAMIC_UPDATE_SLICE", [((2, 2), I8, *BYTE), ((3, 2), I8, *BYTE)], ((2, 2), I8, *BYTE), ([0, 0],)),
    "a layer of INT8, weights of INT8 and a result of INT16": (
        LAYER, [((2, 4), I8, *BYTE), ((3, 4), I8, 0.1, 0)], ((2, 3), I16, 0.1, 0)),
    "a layer of UINT8, weights of INT8": (LAYER, [((2, 4), U8, *BYTE), ((3, 4), I8, 0.1, 0)], ((2, 3), U8, 0.1, 0)),
    "QUANTIZE of i32 to u8": ("QUANTIZE", [((2,), "int32", 0.1, 0)], ((2,), U8, 0.1, 0)),
    "wants one scale of input and output, and the zero point 0": ("NEG", [((2,), I8, *BYTE)], ((2,), I8, *BYTE)),
    "slopes of int8": ("PRELU", [((2,), I16, 0.1, 0), ((2,), I8, 0.1, 0)], ((2,), I16, 0.1, 1)),
    "is too large for a curve of 16 bits": ("TANH", [((2,), I16, 10.0, 0)], ((2,), I16, 2.0**-15, 0)),
    "supported: one, or one for each of the 2 columns of the result, on axis 1": (
        "BATCH_MATMUL", [((2, 2), I8, *BYTE), ((2, 2), I8, (0.1, 0.2), 0)], ((2, 2), I8, *BYTE)),
    "the matrix x1 has the shape [2]": (
        "BATCH_MATMUL", [((2, 2), I8, *BYTE), ((2,), I8, (0.1, 0.2), 0)], ((2, 2), I8, *BYTE)),
    "a product of matrices of UINT8": (
        "BATCH_MATMUL", [((2, 2), U8, *BYTE), ((2, 2), U8, *BYTE)], ((2, 2), U8, *BYTE)),
}  # fmt: skip


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_refused_says_why(words: str) -> None:
    assert words in refusal(*REFUSED[words])
