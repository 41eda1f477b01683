"""Which engine ``sdk verify`` compares a .tflite file with: not one whose kernels compute otherwise than TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tflite_files import ModelFile as Writer

from sdk.driver.reference import open_reference
from sdk.errors import BuildError
from sdk.frontends.base import ModelFile
from sdk.frontends.tflite import FRONTEND
from sdk.frontends.tflite.importer import import_tflite


def reference(data: bytes, against: str = "auto") -> str:
    return open_reference(against, ModelFile(Path("m.tflite"), data, FRONTEND), import_tflite(data, "m")).name


def one(op: str, kind: str, scales: tuple[float, float], zeros: tuple[int, int], shape: tuple[int, ...] = (8,),
        out: tuple[int, ...] = (8,), consts: Any = (), to: str = "") -> bytes:  # fmt: skip
    m = Writer()
    x = m.input("x", shape, kind, scales[0], zeros[0])
    y = m.output("y", out, to or kind, *(() if to else (scales[1], zeros[1])))
    m.op(op, [x, *(m.const(f"c{k}", c) for k, c in enumerate(consts))], [y])
    return m.build()


def quotient(ratio: float, divisors: int | None = None) -> bytes:
    """``divisors`` are constants from 1 up to that."""
    m, kind = Writer(), "int8"
    x = m.input("x", (8,), kind, 0.02, 3)
    if divisors is None:
        w = m.input("w", (8,), kind, 0.02, 0)
    else:
        w = m.const("w", np.linspace(1, divisors, 8).astype(np.int8), kind, scale=0.02)
    y = m.output("y", (8,), kind, float(np.float32(1 / ratio)))
    m.op("DIV", [x, w], [y], "DivOptions", FusedActivationFunction=0)
    return m.build()


def signal() -> bytes:
    m = Writer()
    x, w = m.input("x", (8,), "float32"), m.tensor("w", (8,), "int16", data=np.arange(8))
    m.op("NEG", [x], [m.output("z", (8,), "float32")])
    y = m.output("y", (8,), "int16")
    m.op("CUSTOM", [m.input("s", (8,), "int16"), w], [y], custom="SignalWindow", flags={"shift": 12})
    return m.build()


def depthwise(scales: int, channels: int = 4) -> bytes:
    """Of dynamic range: an image of floats, weights of int8."""
    m = Writer()
    x, y = m.input("x", (1, 4, 4, channels), "float32"), m.output("y", (1, 4, 4, channels), "float32")
    w = m.const("w", np.ones((1, 3, 3, channels)), "int8", scale=[0.01] * scales, axis=3 if scales > 1 else 0)
    m.op("DEPTHWISE_CONV_2D", [x, w, m.const("b", np.zeros(channels), "float32")], [y], "DepthwiseConv2DOptions",
         Padding=0, StrideH=1, StrideW=1, DilationHFactor=1, DilationWFactor=1, DepthMultiplier=1)  # fmt: skip
    return m.build()


@pytest.mark.parametrize(("data", "engine"), [
    (lambda: one("RELU6", "int8", (0.02, 0.02), (3, 3)), "tflite-micro"),
    (lambda: one("RELU6", "int8", (0.02, 0.03), (3, 3)), "litert"),
    (lambda: one("RELU", "int8", (0.02, 0.03), (3, 3)), "tflite-micro"),
    (lambda: one("RSQRT", "int8", (0.02, 0.03), (-128, 3)), "tflite-micro"),
    (lambda: one("RSQRT", "int16", (0.02, 0.03), (0, 0)), "litert"),
    (lambda: one("SPACE_TO_BATCH_ND", "int8", (0.1, 0.1), (3, 3), (1, 4, 4, 1), (4, 2, 2, 1),
                 ([2, 2], [[0, 0], [0, 0]])), "litert"),
    (lambda: one("SPACE_TO_BATCH_ND", "int8", (0.1, 0.1), (0, 0), (1, 4, 4, 1), (4, 2, 2, 1),
                 ([2, 2], [[0, 0], [0, 0]])), "tflite-micro"),
    (lambda: quotient(100.0, 120), "litert"),
    (lambda: quotient(5.0, 12), "litert"),
    (signal, "tflite-micro"),
    (lambda: depthwise(4), "litert"),
    (lambda: depthwise(1, 1), "litert"),
])  # fmt: skip
def test_the_engine_that_computes_it_as_meant(data: Callable[[], bytes], engine: str) -> None:
    assert reference(data()) == engine


@pytest.mark.parametrize("data", [lambda: quotient(50.0), lambda: quotient(20.0, 120)])
def test_quotients_that_no_engine_computes(data: Callable[[], bytes]) -> None:
    with pytest.raises(BuildError) as error:
        reference(data())
    assert "shifts small quotients by 32 bits or more" in str(error.value.why)
    assert error.value.hint == "use --against interp"
    assert reference(data(), "interp") == "interp"


def test_a_depthwise_layer_whose_channels_have_one_scale() -> None:
    """LiteRT reads memory behind the scale, and gives anything."""
    with pytest.raises(BuildError) as error:
        reference(depthwise(1))
    assert "where there is one for all" in str(error.value.why)
    assert reference(depthwise(1), "interp") == "interp"
