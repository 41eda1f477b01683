"""Operators of com.microsoft on quantised tensors, against onnxruntime: where that rounds in another order, integers
may be one step apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import Array, fused, one_node, weights_of
from onnx import TensorProto

from sdk.errors import BuildError
from sdk.frontends.onnx.importer import import_onnx

RNG = np.random.default_rng(13)
KINDS = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}


def reals(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def stored(kind: str, *shape: int) -> Array:
    info = np.iinfo(kind)
    return RNG.integers(info.min, info.max + 1, shape).astype(kind)


def parameters(name: str, kind: str, scale: float) -> dict[str, Array]:
    zero = 128 if kind == "uint8" else -3
    return {f"{name}s": np.array(scale, np.float32), f"{name}z": np.array(zero, kind)}


def check(op: str, inputs: dict[str, Array], kind: str, **how: Any) -> None:
    fixed = [n for n in inputs if n[-1] in "sz"]
    fused(op, inputs, constants=fixed, kinds={"y": KINDS[kind]}, steps=1, **how)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_binary(op: str, kind: str) -> None:
    a, b = {"a": stored(kind, 2, 3, 4)}, {"b": stored(kind, 3, 1)}
    ends = parameters("y", kind, 0.11)
    check(op, {**a, **parameters("a", kind, 0.07), **b, **parameters("b", kind, 0.03), **ends}, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_unary(kind: str) -> None:
    x = {"x": stored(kind, 2, 3, 8), **parameters("x", kind, 0.05)}
    check("QLinearLeakyRelu", {**x, **parameters("y", kind, 0.06)}, kind, alpha=0.2)
    check("QLinearSigmoid", {**x, **parameters("y", kind, 1 / 256)}, kind)
    for axis, opset in ((-1, 13), (1, 13), (1, 11)):
        check("QLinearSoftmax", {**x, **parameters("y", kind, 1 / 256)}, kind, axis=axis, meant=opset)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("last", [0, 1])
def test_pools(kind: str, last: int) -> None:
    x = {"x": stored(kind, 2, 6, 7, 3) if last else stored(kind, 2, 3, 6, 7), **parameters("x", kind, 0.05)}
    ends = parameters("y", kind, 0.04)
    check("QLinearGlobalAveragePool", {**x, **ends}, kind, channels_last=last)
    check("QLinearAveragePool", {**x, **ends}, kind, channels_last=last, kernel_shape=[3, 2], strides=[2, 2])
    check(
        "QLinearAveragePool", {**x, **ends}, kind, channels_last=last, kernel_shape=[3, 3], pads=[1, 1, 1, 1],
        count_include_pad=1,
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_maximum_of_channels_last(kind: str) -> None:
    how = {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [0, 1, 1, 0]}
    fused("NhwcMaxPool", {"x": stored(kind, 1, 6, 7, 3)}, kinds={"y": KINDS[kind]}, **how)


@pytest.mark.parametrize("kind", KINDS)
def test_joins_and_choices(kind: str) -> None:
    a = {"a": stored(kind, 2, 3), **parameters("a", kind, 0.05)}
    b = {"b": stored(kind, 2, 4), **parameters("b", kind, 0.02)}
    ends = parameters("y", kind, 0.06)
    check("QLinearConcat", {**ends, **a, **b}, kind, axis=1)
    flags = {"c": RNG.random((2, 3)) > 0.5}
    b["b"] = stored(kind, 2, 3)
    check("QLinearWhere", {**flags, **a, **b, **ends}, kind)


@pytest.mark.parametrize("last", [0, 1])
def test_convolution(last: int) -> None:
    x = stored("uint8", 1, 5, 6, 3) if last else stored("uint8", 1, 3, 5, 6)
    inputs = {"x": x, **parameters("x", "uint8", 0.05), "w": weights_of(RNG, "int8", 4, 3, 3, 3)}
    inputs |= {"ws": np.array([0.01, 0.02, 0.03, 0.04], np.float32), "wz": np.zeros(4, np.int8)}
    inputs |= {**parameters("y", "uint8", 2.0), "b": RNG.integers(-999, 999, 4).astype(np.int32)}
    fixed = [n for n in inputs if n != "x"]
    fused("QLinearConv", inputs, constants=fixed, kinds={"y": TensorProto.UINT8}, steps=1, channels_last=last)


@pytest.mark.parametrize("real", [True, False])
@pytest.mark.parametrize("scales", [1, 5])
def test_gemm(real: bool, scales: int) -> None:
    inputs: dict[str, Array] = {"a": stored("uint8", 3, 4), **parameters("a", "uint8", 0.05)}
    inputs |= {"b": weights_of(RNG, "int8", 5, 4), "bs": np.linspace(0.01, 0.03, scales).astype(np.float32)}
    inputs |= {"bz": np.zeros(scales, np.int8), "c": RNG.integers(-999, 999, 5).astype(np.int32)}
    if scales == 1:
        inputs |= {"bs": inputs["bs"].reshape(()), "bz": inputs["bz"].reshape(())}
    ends = {} if real else parameters("y", "uint8", 0.4)
    kind = {} if real else {"y": TensorProto.UINT8}
    fixed = [n for n in (*inputs, *ends) if n != "a"]
    fused("QGemm", {**inputs, **ends}, constants=fixed, kinds=kind, steps=1, transB=1)


@pytest.mark.parametrize("kind", KINDS)
def test_products_of_integers_as_reals(kind: str) -> None:
    inputs = {"a": stored("uint8", 2, 3, 8), "b": weights_of(RNG, kind, 8, 5), "s": np.array(0.02, np.float32)}
    inputs |= {"t": RNG.random(5).astype(np.float32), "az": np.array(99, np.uint8), "bz": stored(kind, 5)}
    inputs["c"] = reals(5)
    order = ["a", "b", "s", "t", "az", "bz", "c"]
    fused("MatMulIntegerToFloat", inputs, order=order, constants=order[1:])
    fused("MatMulIntegerToFloat", inputs, order=order)


@pytest.mark.parametrize("kind", KINDS)
def test_dynamic_quantisation(kind: str) -> None:
    inputs = {"a": reals(2, 3, 8), "b": weights_of(RNG, kind, 8, 5), "s": np.array(0.02, np.float32)}
    inputs |= {"z": np.array(7, kind), "c": reals(5)}
    fused("DynamicQuantizeMatMul", inputs, constants=["b", "s", "z", "c"])
    inputs["a"] = np.zeros((2, 3, 8), np.float32)
    fused("DynamicQuantizeMatMul", inputs, constants=["b", "s", "z", "c"])


# onnxruntime has none of 8 bits with real zero points
@pytest.mark.parametrize(("bits", "zeros"), [(4, "none"), (4, "packed"), (4, "real"), (8, "none"), (8, "packed")])
@pytest.mark.parametrize(("depth", "block"), [(64, 16), (40, 32), (48, 16)])
def test_weights_of_few_bits(bits: int, depth: int, block: int, zeros: str) -> None:
    blocks = -(-depth // block)
    inputs = {"a": reals(2, 3, depth), "b": stored("uint8", 5, blocks, block * bits // 8)}
    inputs["s"] = RNG.random(5 * blocks).astype(np.float32)
    if zeros == "packed":
        inputs["z"] = stored("uint8", 5 * -(-blocks * bits // 8))
    elif zeros == "real":
        inputs["z"] = (RNG.random(5 * blocks) * 15).astype(np.float32)
    order = [*inputs, *([] if "z" in inputs else [""]), "", "c"]
    inputs["c"] = reals(5)
    fused(
        "MatMulNBits", inputs, order=order, constants=list(inputs)[1:], K=depth, N=5, bits=bits, block_size=block,
        accuracy_level=1,
    )  # fmt: skip


def test_weights_only_known_at_run_time_are_refused() -> None:
    inputs = {"a": reals(3, 16), "b": stored("uint8", 5, 1, 8), "s": reals(5)}
    model = one_node("MatMulNBits", inputs, domain="com.microsoft", K=16, N=5, bits=4, block_size=16)
    with pytest.raises(BuildError, match="must be constants"):
        import_onnx(model, "m")
