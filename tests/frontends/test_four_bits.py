"""Weights of 4 bits, two in a byte, against tflite-micro bit for bit; with scales for blocks of rows against LiteRT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tflite
from reference import assert_bit_exact
from tflite_files import ModelFile

from sdk.compiler.interp.graph import run_graph
from sdk.errors import BuildError
from sdk.frontends.base import ModelFile as File
from sdk.frontends.tflite import FRONTEND
from sdk.frontends.tflite.engine import LiteRt
from sdk.frontends.tflite.importer import import_tflite
from sdk.frontends.tflite.suited import unsuited

OPTIONS = {"FULLY_CONNECTED": "FullyConnected", "CONV_2D": "Conv2D", "DEPTHWISE_CONV_2D": "DepthwiseConv2D"}


def packed(weights: np.ndarray) -> np.ndarray:
    """Two elements a byte, the lower bits first; an odd one has a byte of its own."""
    flat = np.append(weights.reshape(-1), np.zeros(weights.size % 2, np.int64))
    return ((flat[0::2] & 15) | (flat[1::2] & 15) << 4).astype(np.uint8).view(np.int8)


def network(op: str, rng: np.random.Generator, bytes_more: int = 0) -> bytes:
    m = ModelFile()
    out, depth, kernel = (int(n) for n in rng.integers(1, 6, 3))
    shapes = {
        "FULLY_CONNECTED": ((2, depth), (2, out), (out, depth)),
        "CONV_2D": ((1, 5, 5, depth), (1, 5, 5, out), (out, kernel, kernel, depth)),
        "DEPTHWISE_CONV_2D": ((1, 5, 5, depth), (1, 5, 5, depth), (1, kernel, kernel, depth)),
    }
    source, target, shape = shapes[op]
    scales = [float(np.float32(s)) for s in rng.uniform(0.01, 0.05, 1 if op == "FULLY_CONNECTED" else target[-1])]
    data = np.append(packed(rng.integers(-7, 8, shape)), np.zeros(bytes_more, np.int8))
    axis = 3 if op == "DEPTHWISE_CONV_2D" else 0
    ins = [
        m.input("x", source, "int8", 0.05, -3),
        m.tensor("w", shape, "int8", scales, axis=axis, data=data, type=tflite.TensorType.INT4),
        m.const("b", rng.integers(-500, 500, target[-1]), scale=[0.05 * s for s in scales]),
    ]
    steps = {} if op == "FULLY_CONNECTED" else {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
    steps |= {"DepthMultiplier": 1} if op == "DEPTHWISE_CONV_2D" else {}
    m.op(op, ins, [m.output("y", target, "int8", 0.05, 4)], f"{OPTIONS[op]}Options", **steps)
    return m.build()


@pytest.mark.parametrize("op", OPTIONS)
def test_weights_of_four_bits(op: str) -> None:
    rng = np.random.default_rng(3)
    for k in range(8):
        assert_bit_exact(network(op, rng), runs=3, seed=k, distinct=False)


def test_bytes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BuildError) as caught:
        import_tflite(network("CONV_2D", np.random.default_rng(3), 1), "more")
    assert "of 4 bits needs" in (caught.value.why or "")


def by_blocks(
    shape: tuple[int, int], size: int, lookup: bool = False, bias: bool = True, seed: int = 0, **wrong: Any
) -> bytes:
    """A layer, or rows of a table, of weights with a scale for each ``size`` elements of a row."""
    rng, (rows, columns) = np.random.default_rng(seed), shape
    m, op = ModelFile(), "EMBEDDING_LOOKUP" if lookup else "FULLY_CONNECTED"
    x = m.input("x", (3,) if lookup else (3, columns), "int32" if lookup else "float32")
    scales = m.const("scales", rng.uniform(0.01, 0.05, wrong.get("scales", (rows, columns // size))), "float16")
    zeros = m.const("zeros", wrong.get("zeros", np.zeros(rows * columns // size)))
    blocks = (scales, zeros if "zeros" in wrong else -1, wrong.get("block", size))
    data = packed(rng.integers(-7, 8, shape))
    w = m.tensor("w", shape, "int8", data=data, type=tflite.TensorType.INT4, blocks=blocks)
    y = m.output("y", (3, columns if lookup else rows), "float32")
    if wrong.get("op"):
        m.op("NEG", [w], [y])
    elif lookup:
        m.op(op, [x, w], [y])
    else:
        more = [m.const("b", rng.standard_normal(rows), "float32")] if bias else [-1]
        m.op(op, [x, w, *more], [y], "FullyConnectedOptions", FusedActivationFunction=wrong.get("activation", 0))
    return m.build()


@pytest.mark.parametrize(("lookup", "bias"), [(False, True), (False, False), (True, True)])
def test_a_scale_for_each_block(lookup: bool, bias: bool) -> None:
    """Against LiteRT's usual kernels: its reference kernels leave such results 0."""
    for seed, (shape, size) in enumerate([((8, 64), 32), ((5, 96), 32), ((4, 32), 4), ((7, 32), 32)]):
        data, rng = by_blocks(shape, size, lookup, bias, seed), np.random.default_rng(seed)
        module = import_tflite(data, "m")
        given = {"x": rng.integers(0, shape[0], 3).astype(np.int32)}
        if not lookup:
            given = {"x": rng.standard_normal((3, shape[1])).astype(np.float32)}
        want = LiteRt(File(Path("m.tflite"), data, FRONTEND), module.graphs["main"]).step(given, {})["y"]
        got = run_graph(module, "main", given)["y"]
        assert np.abs(want).max() > 0.1
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_an_activation_after_blocks() -> None:
    """LiteRT's kernels leave it out: they are no reference for such a layer."""
    plain, held = (by_blocks((8, 64), 32, activation=k) for k in (0, tflite.ActivationFunctionType.RELU))
    assert unsuited(plain, "litert") is None
    assert "leaves out the activation" in (unsuited(held, "litert") or "")
    given = {"x": np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)}
    want, got = (run_graph(import_tflite(data, "m"), "main", given)["y"] for data in (plain, held))
    np.testing.assert_array_equal(got, np.maximum(want, 0))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"block": 0}, "in blocks of 0"),
        ({"block": 5}, "in blocks of 5"),
        ({"block": -8}, "in blocks of -8"),
        ({"scales": (4, 3)}, "12 scales of float16 for 4 rows of 2 blocks"),
        ({"zeros": [0] * 7 + [1]}, "have zero points"),
        ({"op": True}, "supported in EMBEDDING_LOOKUP and FULLY_CONNECTED"),
    ],
)
def test_blocks_that_are_refused(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(BuildError) as caught:
        import_tflite(by_blocks((4, 32), 16, **wrong), "m")
    assert why in str(caught.value)
