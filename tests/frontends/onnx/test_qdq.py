"""Quantised graphs (QuantizeLinear and DequantizeLinear around float operators) as integers, against onnxruntime.

onnxruntime adds in single precision, we in integers: results differ by one step where a sum is near a half, rarely.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from harness import model_of, reference
from onnx import helper, numpy_helper

from sdk.compiler import ops
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.ir.module import Module
from sdk.compiler.passes.cleanup import Cleanup
from sdk.compiler.passes.fold import Fold
from sdk.compiler.passes.integer import Integer
from sdk.compiler.passes.layout import SinkTransposes
from sdk.compiler.verify.module import check
from sdk.frontends.onnx.importer import import_onnx

RNG = np.random.default_rng(7)


class Qdq:
    """A model under construction: every tensor between two operators is quantised."""

    def __init__(self, *shape: object, kind: type = np.int8) -> None:
        self.kind, self.nodes, self.consts = kind, [], {}
        self.shape = shape
        self.last = self.through("x", 0.02, 3)

    def const(self, data: object) -> str:
        name = f"c{len(self.consts)}"
        self.consts[name] = np.asarray(data)
        return name

    def node(self, op: str, *inputs: str, **given: object) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **given))
        return name

    def through(self, value: str, scale: float, zero: int) -> str:
        zero = zero + 128 if self.kind == np.uint8 else zero
        scale_, zero_ = self.const(np.float32(scale)), self.const(np.asarray(zero, self.kind))
        return self.node("DequantizeLinear", self.node("QuantizeLinear", value, scale_, zero_), scale_, zero_)

    def weights(self, *shape: int, axis: int | None = 0) -> str:
        count = 1 if axis is None else shape[axis]
        scale = (RNG.random(count) * 0.01 + 0.004).astype(np.float32)
        zero = np.zeros(count, np.int8)
        data = RNG.integers(-127, 128, shape).astype(np.int8)
        if axis is None:
            return self.node("DequantizeLinear", self.const(data), self.const(scale[0]), self.const(zero[0]))
        return self.node("DequantizeLinear", self.const(data), self.const(scale), self.const(zero), axis=axis)

    def module(self, out: str, dims: object = None) -> tuple[onnx.ModelProto, Module]:
        x = np.zeros([d if isinstance(d, int) else 1 for d in self.shape], np.float32)
        arrays = {"x": x, **self.consts}
        shapes = {"x": self.shape}
        nodes = [*self.nodes, helper.make_node("Identity", [out], ["y"])]
        model = model_of(nodes, arrays, ["y"], constants=list(self.consts), shapes=shapes)
        module = replace(import_onnx(model, "m", dims=dims or {}), stage="typed")
        check(module, ops)
        return model, module


def integers(module: Module) -> Module:
    found = Cleanup().run(SinkTransposes().run(Fold().run(Cleanup().run(Integer().run(module)))))
    check(found, ops)
    return found


def agrees(model: onnx.ModelProto, module: Module, step: float, shape: tuple[int, ...], share: float = 0.01) -> Module:
    """Only the first ``quantize`` and the last ``dequantize`` are left on reals, and results are at most a step off."""
    found = integers(module)
    body = found.graphs["main"].body
    floats = [n.callee for n in body if n.outs[0].type.dtype.is_float or n.args[0].type.dtype.is_float]
    assert [op for op in floats if op not in ("reshape", "transpose")] == ["quantize", "dequantize"], floats
    x = RNG.standard_normal(shape).astype(np.float32)
    (want,) = reference(model, {"x": x}).values()
    (got,) = run_graph(found, "main", {"x": x}).values()
    assert got.shape == want.shape
    off = np.abs(np.rint((got - want) / step))
    assert off.max() <= 1
    assert (off > 0).mean() <= share
    return found


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_convolution(kind: type, groups: int) -> None:
    q = Qdq(1, 6, 9, 8, kind=kind)
    w, b = q.weights(12, 6 // groups, 3, 3), q.const(RNG.standard_normal(12).astype(np.float32))
    y = q.node("Conv", q.last, w, b, group=groups, pads=[1, 0, 1, 2], strides=[2, 1])
    y = q.through(q.node("Relu", y), 0.03, -128)
    model, module = q.module(y)
    found = agrees(model, module, 0.03, (1, 6, 9, 8))
    assert any(n.callee == ("depthwise_conv2d" if groups == 6 else "conv2d") for n in found.graphs["main"].body)


@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm(transposed: int) -> None:
    q = Qdq(5, 20)
    w = q.weights(*((7, 20) if transposed else (20, 7)), axis=0 if transposed else 1)
    y = q.node("Gemm", q.last, w, q.const(RNG.standard_normal(7).astype(np.float32)), transB=transposed)
    model, module = q.module(q.through(y, 0.05, 4))
    assert any(n.callee == "dense" for n in agrees(model, module, 0.05, (5, 20), 0.03).graphs["main"].body)


def test_matmul_of_any_rank_and_open_sizes() -> None:
    q = Qdq(1, "n", 16)
    model, module = q.module(q.through(q.node("MatMul", q.last, q.weights(16, 9, axis=None)), 0.05, 4), {"n": (1, 9)})
    agrees(model, module, 0.05, (1, 6, 16), 0.02)


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul"])
def test_two_operands(op: str, kind: type) -> None:
    q = Qdq(1, 4, 5, 6, kind=kind)
    other = q.through(q.node("Conv", q.last, q.weights(4, 4, 1, 1)), 0.03, -5)
    model, module = q.module(q.through(q.node(op, q.last, other), 0.05, 4))
    agrees(model, module, 0.05, (1, 4, 5, 6), 0.05)


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_pooling_moves_and_tables(kind: type) -> None:
    q = Qdq(1, 4, 8, 8, kind=kind)
    y = q.through(q.node("MaxPool", q.last, kernel_shape=[2, 2], strides=[2, 2]), 0.02, 3)
    y = q.through(q.node("HardSwish", y), 0.02, -100)
    z = q.through(q.node("Sigmoid", y), 1 / 256, -128)
    y = q.through(q.node("Concat", y, z, axis=1), 0.02, 0)
    y = q.through(q.node("AveragePool", y, kernel_shape=[2, 2], strides=[1, 1]), 0.015, 2)
    y = q.node("Transpose", y, perm=[0, 2, 3, 1])
    y = q.through(q.node("ReduceMean", y, q.const(np.array([1, 2])), keepdims=1), 0.01, 0)
    model, module = q.module(y)
    agrees(model, module, 0.01, (1, 4, 8, 8), 0.15)


@pytest.mark.parametrize("zero", [0, 100])
def test_weights_with_a_zero_point(zero: int) -> None:
    q = Qdq(3, 20)
    data = RNG.integers(0, 256, (20, 7)).astype(np.uint8)
    w = q.node("DequantizeLinear", q.const(data), q.const(np.float32(0.01)), q.const(np.uint8(zero)))
    model, module = q.module(q.through(q.node("MatMul", q.last, w), 0.1, 4))
    agrees(model, module, 0.1, (3, 20), 0.05)


def test_what_has_no_integer_kernel_stays_on_reals() -> None:
    q = Qdq(2, 10)
    y = q.through(q.node("Softmax", q.last, axis=1), 1 / 256, -128)
    model, module = q.module(y)
    found = integers(module)
    assert [n.callee for n in found.graphs["main"].body].count("softmax") == 1
    x = RNG.standard_normal((2, 10)).astype(np.float32)
    (want,) = reference(model, {"x": x}).values()
    (got,) = run_graph(found, "main", {"x": x}).values()
    assert np.abs(got - want).max() <= 1 / 256 + 1e-6


def test_operators_on_quantised_tensors_become_the_same_kernels() -> None:
    x = RNG.integers(0, 256, (1, 3, 6, 7)).astype(np.uint8)
    w = RNG.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)
    arrays = {
        "x": x, "xs": np.float32(0.02), "xz": np.uint8(120), "w": w,
        "ws": (RNG.random(4) * 0.01 + 0.004).astype(np.float32), "wz": np.zeros(4, np.int8),
        "ys": np.float32(0.05), "yz": np.uint8(10), "b": RNG.integers(-500, 500, 4).astype(np.int32),
    }  # fmt: skip
    node = helper.make_node("QLinearConv", list(arrays), ["y"], pads=[1, 1, 1, 1])
    model = model_of([node], arrays, ["y"], constants=list(arrays)[1:])
    found = integers(replace(import_onnx(model, "m"), stage="typed"))
    assert not any(v.type.dtype.is_float for n in found.graphs["main"].body for v in n.outs)
    # onnxruntime's own kernel for u8 and i8 saturates on processors without VNNI
    (want,) = reference(model, arrays, "onnx").values()
    (got,) = run_graph(found, "main", {"x": x}).values()
    assert np.abs(got.astype(int) - want).max() <= 1
    assert (got != want).mean() <= 0.01
    assert numpy_helper.from_array(got).data_type == onnx.TensorProto.UINT8
