"""Convolution2DTransposeBias: the numbers of LiteRT's TRANSPOSE_CONV with the same weights, and what is refused."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from reference import litert_outputs
from tflite_files import ModelFile

from sdk.compiler.interp.graph import run_graph
from sdk.errors import BuildError
from sdk.frontends.tflite.importer import import_tflite

RNG = np.random.default_rng(0)
CASES = [
    ((1, 4, 5, 3), (2, 2, 2, 3), (2, 2), 1, (8, 10)),
    ((2, 4, 4, 2), (5, 3, 3, 2), (2, 2), 1, (8, 8)),
    ((1, 5, 3, 2), (1, 4, 4, 2), (2, 1), 1, (10, 3)),
    ((1, 3, 3, 4), (2, 3, 2, 4), (2, 3), 2, (7, 8)),
]


def model(
    shape: tuple[int, ...], kernel: tuple[int, ...], size: tuple[int, ...], options: bytes | None, bias: bool = True,
    **given: Any,
) -> bytes:  # fmt: skip
    """The custom operator, or TRANSPOSE_CONV where there are no options of it."""
    m, rng = ModelFile(), np.random.default_rng(1)
    x, w = m.input("x", shape, "float32"), m.const("w", rng.standard_normal(kernel), "float32")
    b = m.const("b", rng.standard_normal(kernel[0]), "float32")
    out = (shape[0], *size, kernel[0])
    y = m.output("y", out, "float32")
    if options is None:
        m.op("TRANSPOSE_CONV", [m.const("out", out), w, x, b], [y], "TransposeConvOptions", **given)
    else:
        m.op("CUSTOM", [x, w, b] if bias else [x, w], [y], custom="Convolution2DTransposeBias", flags=options)
    return m.build()


@pytest.mark.parametrize("case", CASES)
def test_as_transpose_conv(case: tuple[Any, ...]) -> None:
    shape, kernel, (down, across), kind, size = case
    x = RNG.standard_normal(shape).astype(np.float32)
    plain = model(shape, kernel, size, None, Padding=kind - 1, StrideH=down, StrideW=across)
    ((want,),) = litert_outputs(plain, [[x]])
    options = struct.pack("<3i", kind, across, down)
    for raw in (options, options + bytes(8)):
        got = run_graph(import_tflite(model(shape, kernel, size, raw), "m"), "main", {"x": x})["y"]
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    bare = run_graph(import_tflite(model(shape, kernel, size, options, bias=False), "m"), "main", {"x": x})["y"]
    assert np.ptp((got - bare).reshape(-1, kernel[0]), axis=0).max() < 1e-5 < np.abs(got - bare).max()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (b"", "its options are 0 bytes"),
        (bytes(13), "its options are 13 bytes"),
        (struct.pack("<3i", 0, 2, 2), "its options are a padding 0"),
        (struct.pack("<3i", 1, 0, 2), "strides 2 and 0"),
        (struct.pack("<3i", 1, 2, 1 << 30), "strides 1073741824"),
        (struct.pack("<4i", 1, 2, 2, 1), "an activation [1]"),
    ],
)
def test_options_that_are_refused(options: bytes, why: str) -> None:
    with pytest.raises(BuildError, match="cannot be imported") as error:
        import_tflite(model((1, 4, 4, 2), (2, 2, 2, 2), (8, 8), options), "m")
    assert why in str(error.value)


def test_a_size_that_the_file_does_not_tell() -> None:
    m = ModelFile()
    x, w = m.input("x", (1, 2, 2, 1), "float32"), m.const("w", np.ones((1, 2, 2, 1)), "float32")
    m.op("CUSTOM", [x, w], [m.output("y", (), "float32")], custom="Convolution2DTransposeBias",
         flags=struct.pack("<3i", 1, 2, 2))  # fmt: skip
    with pytest.raises(BuildError, match="cannot be imported") as error:
        import_tflite(m.build(), "m")
    assert "the file does not tell the size of its output" in str(error.value)
