"""Weights of 4 bits, two in a byte, against tflite-micro bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import tflite
from reference import assert_bit_exact
from tflite_files import ModelFile

from sdk.errors import BuildError
from sdk.frontends.tflite.importer import import_tflite

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
