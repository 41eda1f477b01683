"""Operators of com.microsoft beside attention and quantised products, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import Array, agree, fused, one_node, run, weights_of
from onnx import TensorProto

RNG = np.random.default_rng(3)


def reals(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def bytes_of(kind: str, *shape: int) -> Array:
    info = np.iinfo(kind)
    return RNG.integers(info.min, info.max + 1, shape).astype(kind)


def test_operators_that_onnx_has_taken_over() -> None:
    fused("GatherND", {"x": reals(4, 3), "i": np.array([[1, 2], [0, 0]])}, constants=["i"])
    fused("Trilu", {"x": reals(4, 3), "k": np.array(1)}, constants=["k"], upper=0)
    fused(
        "Pad", {"x": reals(4, 3), "p": np.array([1, 0, 0, 2]), "v": np.array([2.0], np.float32)}, constants=["p", "v"]
    )
    fused("Pad", {"x": reals(4, 3), "p": np.array([1, 0, 0, 2])}, constants=["p"], mode="reflect")
    fused("ExpandDims", {"x": reals(4, 3), "a": np.array(-1, np.int32)}, constants=["a"])
    fused("Range", {"a": np.array(2.0, np.float32), "b": np.array(7.5, np.float32)}, constants=["a", "b"])
    grid = RNG.uniform(-1.2, 1.2, (2, 3, 5, 2)).astype(np.float32)
    fused("GridSample", {"x": reals(2, 3, 4, 5), "g": grid}, mode="bilinear", padding_mode="border")
    inputs = {"x": reals(1, 2, 4, 4), "w": reals(2, 3, 3, 3), "p": np.array([1, 0, 0, 1]), "b": reals(3)}
    fused("ConvTransposeWithDynamicPads", inputs, constants=["w", "p", "b"], strides=[2, 2])


@pytest.mark.parametrize(("axis", "size", "step"), [(-1, 3, 1), (0, 2, 2), (1, 4, 3)])
def test_unfold(axis: int, size: int, step: int) -> None:
    fused("UnfoldTensor", {"x": reals(5, 6, 7)}, dim=axis, size=size, step=step)


def test_distances_and_products() -> None:
    for metric in ("euclidean", "sqeuclidean"):
        fused("CDist", {"a": reals(4, 3), "b": reals(5, 3)}, metric=metric)
    pair = {
        "a": RNG.integers(-900, 900, (3, 4)).astype(np.int16),
        "b": RNG.integers(-900, 900, (4, 2)).astype(np.int16),
    }
    fused("MatMulInteger16", pair, kinds={"y": TensorProto.INT32})


def test_gates() -> None:
    fused("GatedAdd", {"x": reals(2, 3, 8), "y": reals(2, 3, 8), "g": reals(2, 3, 1)}, outputs=["o"])
    fused("ScaledSiLU", {"x": reals(3, 8)}, alpha=1.3)
    fused("ScaledSiLU", {"x": reals(3, 8), "s": np.array(0.6, np.float32)})
    fused("GatedRMSNorm", {"x": reals(2, 3, 8), "s": reals(4), "g": reals(2, 3, 8)}, activation="silu", epsilon=1e-4)
    fused("GatedRMSNorm", {"x": reals(3, 8), "s": reals(8), "g": reals(3, 8)}, activation="sigmoid")
    fused("BranchwiseRMSNorm", {"x": reals(3, 2, 8)}, epsilon=1e-3)
    fused("BranchwiseRMSNorm", {"x": reals(3, 16), "s": reals(16)}, num_branches=2)


def test_images_with_channels_last() -> None:
    """Which onnxruntime has for half floats only: the same as FusedConv with channels first."""
    x, w, b, z = reals(2, 5, 6, 3), reals(4, 3, 3, 3), reals(4), reals(2, 5, 6, 4)
    how: dict[str, Any] = {
        "domain": "com.microsoft",
        "activation": "Relu",
        "pads": [1, 1, 1, 1],
        "constants": ["w", "b"],
    }
    last = one_node("NhwcFusedConv", {"x": x, "w": w, "b": b, "z": z}, **how)
    first = {"x": x.transpose(0, 3, 1, 2), "w": w, "b": b, "z": z.transpose(0, 3, 1, 2)}
    want = run(one_node("FusedConv", first, **how), first)[1]["y"]
    agree(run(last, {"x": x, "z": z})[1]["y"], want.transpose(0, 2, 3, 1))


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", [False, True])
def test_rows_of_packed_tables(bits: int, zeros: bool) -> None:
    rows, width, block = 7, 40, 16
    blocks = -(-width // block)
    inputs = {
        "t": bytes_of("uint8", rows, width * bits // 8), "i": np.array([[3, 0], [6, -1]]), "s": reals(rows, blocks),
    }  # fmt: skip
    if zeros:
        inputs["z"] = bytes_of("uint8", rows, -(-blocks * bits // 8))
    constants = [name for name in ("t", "s", "z") if name in inputs]
    fused("GatherBlockQuantized", inputs, constants=constants, bits=bits, block_size=block, quantize_axis=1)


@pytest.mark.parametrize("kind", [0, 1])
def test_weights_from_a_table_of_numbers(kind: int) -> None:
    inputs = {"x": reals(3, 32), "b": bytes_of("uint8", 32 * 5 // 2), "s": np.abs(reals(10))}
    fused("MatMulBnb4", inputs, constants=["b", "s"], K=32, N=5, block_size=16, quant_type=kind)


def test_quantised_embeddings() -> None:
    inputs: dict[str, Array] = {
        "ids": np.array([[1, 3, 0], [2, 2, 4]], np.int32),
        "seg": np.array([[0, 1, 1], [0, 0, 1]], np.int32),
    }
    sizes = {"word": (5, 8), "place": (4, 8), "segment": (2, 8), "gamma": (8,), "beta": (8,)}
    inputs |= {name: bytes_of("uint8", *shape) for name, shape in sizes.items()}
    inputs["mask"] = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    inputs |= {f"{name}_s": np.array(0.01 + 0.002 * k, np.float32) for k, name in enumerate(sizes)}
    inputs |= {f"{name}_z": np.array(100 + k, np.uint8) for k, name in enumerate(sizes)}
    fused(
        "QEmbedLayerNormalization", inputs, constants=[n for n in inputs if n not in ("ids", "seg", "mask")],
        outputs=["y", "count"], kinds={"count": TensorProto.INT32}, epsilon=1e-5,
    )  # fmt: skip


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_quantised_lstm(direction: str) -> None:
    """onnxruntime rounds what goes in to 8 bits, we do not: near, and exactly the LSTM of the weights made real."""
    import onnxruntime

    ways, size, width = (2 if direction == "bidirectional" else 1), 4, 6
    inputs: dict[str, Array] = {
        "x": reals(5, 2, width), "w": weights_of(RNG, "int8", ways, width, 4 * size),
        "r": weights_of(RNG, "int8", ways, size, 4 * size),
        "b": reals(ways, 8 * size), "ws": np.full(ways, 0.01, np.float32), "wz": np.zeros(ways, np.int8),
        "rs": np.full(ways, 0.008, np.float32), "rz": np.zeros(ways, np.int8),
    }  # fmt: skip
    order = ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
    how: dict[str, Any] = {"hidden_size": size, "direction": direction}
    model = one_node(
        "DynamicQuantizeLSTM",
        inputs,
        order=order,
        constants=[n for n in inputs if n != "x"],
        domain="com.microsoft",
        **how,
    )
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    got = run(model, inputs)[1]["y"]
    np.testing.assert_allclose(got, session.run(None, {"x": inputs["x"]})[0], atol=0.03)
    wide = {k: (inputs[k] * inputs[f"{k}s"].reshape(ways, 1, 1)).astype(np.float32).transpose(0, 2, 1) for k in "wr"}
    plain = {"x": inputs["x"], **wide, "b": inputs["b"]}
    agree(got, run(one_node("LSTM", plain, constants=["w", "r", "b"], **how), plain)[1]["y"])
