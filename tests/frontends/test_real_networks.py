"""Small float networks as converters write them: whole, with sizes that stay open, with weights of half precision."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nets import Net

from sdk.compiler.interp.graph import run_graph
from sdk.compiler.ir.graph import Call
from sdk.compiler.ir.module import Module
from sdk.frontends.base import ModelFile as File
from sdk.frontends.tflite import FRONTEND
from sdk.frontends.tflite.engine import LiteRt
from sdk.frontends.tflite.importer import import_tflite

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(9)
WINDOW = {"Padding": 0, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}


def perceptron() -> bytes:
    net = Net()
    x = net.dense(net.dense(net.image(1, 12), 16, act=1), 10)
    return net.finished(net.made("SOFTMAX", [x], (1, 10), "SoftmaxOptions", Beta=1.0))


def residual(halves: bool = False) -> bytes:
    """Convolutions with a branch around them, the mean of each channel, a dense layer."""
    net = Net()
    x = net.conv(net.image(1, 8, 6, 3), 8, halves=halves)
    y = net.conv(net.conv(x, 8, halves=halves), 8, act=0)
    x = net.made("ADD", [x, y], (1, 8, 6, 8), "AddOptions", FusedActivationFunction=1)
    x = net.made("MAX_POOL_2D", [x], (1, 4, 3, 8), "Pool2DOptions", Padding=0, StrideH=2, StrideW=2, FilterHeight=2,
                 FilterWidth=2)  # fmt: skip
    mean = net.made("MEAN", [x, net.const("axes", [1, 2])], (1, 8), "ReducerOptions", KeepDims=False)
    return net.finished(net.dense(mean, 5, halves=halves), net.dense(net.flat(x), 4))


def inverted() -> bytes:
    """A block of MobileNetV3: depthwise, squeezed and excited by hard swish."""
    net = Net()
    x = net.conv(net.image(1, 6, 6, 4), 12, 1, act=3)
    x = net.made("DEPTHWISE_CONV_2D", [x, net.weights(1, 3, 3, 12), net.weights(12)], (1, 6, 6, 12),
                 "DepthwiseConv2DOptions", DepthMultiplier=1, **WINDOW)  # fmt: skip
    x = net.made("HARD_SWISH", [x], (1, 6, 6, 12))
    s = net.made("MEAN", [x, net.const("axes", [1, 2])], (1, 1, 1, 12), "ReducerOptions", KeepDims=True)
    s = net.made("LOGISTIC", [net.conv(net.conv(s, 4, 1), 12, 1, act=0)], (1, 1, 1, 12))
    x = net.made("MUL", [x, s], (1, 6, 6, 12), "MulOptions")
    return net.finished(net.conv(x, 4, 1, act=0))


def attention() -> bytes:
    """Attention of two heads over 5 positions, normalised by operators of one kind each."""
    net = Net()
    x = net.image(1, 5, 8)
    perm, shape = net.const("perm", [0, 2, 1, 3]), net.const("heads", [-1, 5, 2, 4])
    heads = []
    for _ in range(3):
        y = net.made("RESHAPE", [net.dense(x, 8, keep=True), shape], (1, 5, 2, 4), "ReshapeOptions")
        heads.append(net.made("TRANSPOSE", [y, perm], (1, 2, 5, 4)))
    q, k, v = heads
    scores = net.made("BATCH_MATMUL", [q, k], (1, 2, 5, 5), "BatchMatMulOptions", AdjX=False, AdjY=True)
    scores = net.made("MUL", [scores, net.const("half", np.float32(0.5), "float32")], (1, 2, 5, 5), "MulOptions")
    share = net.made("SOFTMAX", [scores], (1, 2, 5, 5), "SoftmaxOptions", Beta=1.0)
    y = net.made("BATCH_MATMUL", [share, v], (1, 2, 5, 4), "BatchMatMulOptions", AdjX=False, AdjY=False)
    y = net.made("TRANSPOSE", [y, perm], (1, 5, 2, 4))
    y = net.made("RESHAPE", [y, net.const("joined", [-1, 5, 8])], (1, 5, 8), "ReshapeOptions")
    x = net.made("ADD", [x, net.dense(y, 8, keep=True)], (1, 5, 8), "AddOptions")
    last = net.const("last", [2])
    mean = net.made("MEAN", [x, last], (1, 5, 1), "ReducerOptions", KeepDims=True)
    square = net.made("SQUARED_DIFFERENCE", [x, mean], (1, 5, 8))
    spread = net.made("MEAN", [square, last], (1, 5, 1), "ReducerOptions", KeepDims=True)
    spread = net.made("ADD", [spread, net.const("eps", np.float32(1e-3), "float32")], (1, 5, 1), "AddOptions")
    x = net.made("SUB", [x, mean], (1, 5, 8), "SubOptions")
    return net.finished(net.made("MUL", [x, net.made("RSQRT", [spread], (1, 5, 1))], (1, 5, 8), "MulOptions"))


def hourglass() -> bytes:
    """An image made smaller and larger again, joined with what it was."""
    net = Net()
    x = net.conv(net.image(1, 8, 8, 3), 4)
    y = net.made("AVERAGE_POOL_2D", [x], (1, 4, 4, 4), "Pool2DOptions", Padding=1, StrideH=2, StrideW=2,
                 FilterHeight=2, FilterWidth=2)  # fmt: skip
    y = net.conv(y, 6)
    size = net.const("size", [8, 8])
    y = net.made("RESIZE_BILINEAR", [y, size], (1, 8, 8, 6), "ResizeBilinearOptions", HalfPixelCenters=True)
    y = net.made("CONCATENATION", [x, y], (1, 8, 8, 10), "ConcatenationOptions", Axis=3)
    y = net.conv(net.made("LEAKY_RELU", [y], (1, 8, 8, 10), "LeakyReluOptions", Alpha=0.2), 2, 1, act=0)
    return net.finished(net.made("ARG_MAX", [y, net.const("axis", 3)], (1, 8, 8), "ArgMaxOptions", "int32",
                                 OutputType=2))  # fmt: skip


NETS: dict[str, Callable[[], bytes]] = {
    "perceptron": perceptron, "residual": residual, "half precision": lambda: residual(True), "inverted": inverted,
    "attention": attention, "hourglass": hourglass,
}  # fmt: skip


def agree(data: bytes, module: Module, batch: int, dims: dict[str, int]) -> None:
    graph = module.graphs["main"]
    engine = LiteRt(File(Path("net.tflite"), data, FRONTEND), graph)
    (x,) = graph.params
    for _ in range(3):
        shape = (batch, *(d for d in x.type.shape[1:] if isinstance(d, int)))
        given = {x.name: RNG.standard_normal(shape).astype(np.float32)}
        want, got = engine.step(given, dims), run_graph(module, "main", given, None, dims)
        for name, a in want.items():
            assert got[name].shape == a.shape
            np.testing.assert_allclose(got[name], a, atol=2e-6 * max(1.0, float(np.abs(a).max())), rtol=0)


@pytest.mark.parametrize("name", NETS)
def test_of_one_image(name: str) -> None:
    data = NETS[name]()
    agree(data, import_tflite(data, "net"), 1, {})


@pytest.mark.parametrize("name", NETS)
def test_of_an_open_batch(name: str) -> None:
    data = NETS[name]()
    module = import_tflite(data, "net", dims={"x_0": (1, 4)})
    for batch in (1, 3):
        agree(data, module, batch, {"x_0": batch})


@pytest.mark.parametrize("dims", [{}, {"x_0": (1, 4)}])
def test_nothing_is_left_of_shapes_and_stored_weights(dims: dict[str, tuple[int, ...]]) -> None:
    module = import_tflite(residual(True), "net", dims=dims)
    calls = [node.callee for node in module.graphs["main"].body if isinstance(node, Call)]
    kept = {"conv2d", "relu", "add", "max_pool2d", "reduce_mean", "reshape", "matmul"}
    assert set(calls) == kept, "sizes are dims, and half floats are constants"
    assert {c.type.dtype.bits for c in module.consts.values()} == {32}
