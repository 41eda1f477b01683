"""Complex numbers in .tflite files, against LiteRT: transforms, their parts, and views between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tflite
from reference import litert_outputs
from tflite_files import ModelFile

from sdk.compiler import ops
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.verify.module import check
from sdk.errors import BuildError
from sdk.frontends.tflite.importer import import_tflite

COMPLEX = {"type": tflite.TensorType.COMPLEX64}
PARTS = ("REAL", "IMAG", "COMPLEX_ABS")


def transform(
    shape: tuple[int, ...], lengths: tuple[int, int], part: str, view: tuple[str, tuple[int, ...], Any] | None = None
) -> bytes:
    """A part of the transform of x, seen in another shape between."""
    m = ModelFile()
    x = m.input("x", shape, "float32")
    bins = (*shape[:-2], lengths[0], lengths[1] // 2 + 1)
    y = m.tensor("y", bins, "float32", **COMPLEX)
    m.op("RFFT2D", [x, m.const("lengths", lengths)], [y], "Rfft2dOptions")
    if view is not None:
        op, bins, given = view
        seen = m.tensor("seen", bins, "float32", **COMPLEX)
        if op == "SQUEEZE":
            m.op(op, [y], [seen], "SqueezeOptions", SqueezeDims=given)
        else:
            m.op(op, [y, m.const("given", given)], [seen])
        y = seen
    m.op(part, [y], [m.output("out", bins, "float32")])
    return m.build()


CASES = {
    "a row": ((1, 16), (1, 16), None),
    "frames": ((3, 1, 64), (1, 64), None),
    "both axes": ((2, 8, 4), (8, 4), None),
    "zeros at the ends": ((5, 3), (8, 8), None),
    "cut": ((2, 9, 40), (4, 32), None),
    "two columns": ((4, 2), (4, 2), None),
    "as rows": ((3, 1, 16), (1, 16), ("RESHAPE", (3, 9), (3, -1))),
    "an axis more": ((2, 4), (2, 4), ("EXPAND_DIMS", (2, 3, 1), -1)),
    "an axis more in front": ((2, 4), (2, 4), ("EXPAND_DIMS", (1, 2, 3), 0)),
    "an axis less": ((3, 1, 8), (1, 8), ("SQUEEZE", (3, 5), (1,))),
}


@pytest.mark.parametrize("name", CASES)
def test_as_litert(name: str) -> None:
    shape, lengths, view = CASES[name]
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    for part in PARTS:
        data = transform(shape, lengths, part, view)
        module = import_tflite(data, "m")
        check(module, ops)
        ((want,),) = litert_outputs(data, [[x]])
        got = run_graph(module, "main", {"x": x})["out"]
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, atol=3e-6 * max(1, np.abs(want).max()), err_msg=part)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (lambda: transform((2, 4), (0, 4), "REAL"), "transforms of lengths [0, 4]"),
        (lambda: transform((4, 1), (4, 1), "REAL"), "transforms of lengths [4, 1]"),  # LiteRT leaves them as they are
        (lambda: transform((2, 4), (2, 4), "REAL", ("RESHAPE", (4, 2), (4, 2))), "do not fit the shape"),
        (lambda: transform((2, 4), (2, 4), "REAL", ("RESHAPE", (4, 2), (4, -1))), "do not fit the shape"),
        (lambda: transform((2, 4), (2, 4), "REAL", ("RESHAPE", (2, 3), (3, 2))), "the file says COMPLEX64[2, 3]"),
        (lambda: transform((2, 4), (2, 4), "NEG"), "it is not supported for complex numbers"),
    ],
)
def test_what_is_refused(data: Any, why: str) -> None:
    with pytest.raises(BuildError, match="cannot be imported") as error:
        import_tflite(data(), "m")
    assert why in str(error.value)


def test_an_operator_of_complex_numbers_on_floats() -> None:
    m = ModelFile()
    m.op("REAL", [m.input("x", (3,), "float32")], [m.output("y", (3,), "float32")])
    with pytest.raises(BuildError, match="cannot be imported") as error:
        import_tflite(m.build(), "m")
    assert "has type FLOAT32, wanted: COMPLEX64" in str(error.value)


@pytest.mark.parametrize("shapes", [((), (2, 3)), ((2, 3), (2, 3)), ((2, 1), (3,))])
def test_custom_operators(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """Numbers made of their parts, and parts of them, by the operators that TensorFlow has for that."""
    rng, whole = np.random.default_rng(0), np.broadcast_shapes(*shapes)
    m = ModelFile()
    parts = [m.input(name, shape, "float32") for name, shape in zip("ab", shapes, strict=True)]
    z = m.tensor("z", whole, "float32", **COMPLEX)
    m.op("CUSTOM", parts, [z], custom="Complex")
    for name in ("Real", "Imag", "ComplexAbs"):
        m.op("CUSTOM", [z], [m.output(name, whole, "float32")], custom=name)
    given = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in zip("ab", shapes, strict=True)}
    got = run_graph(import_tflite(m.build(), "m"), "main", given)
    a, b = (np.broadcast_to(v, whole) for v in given.values())
    for name, want in (("Real", a), ("Imag", b), ("ComplexAbs", np.sqrt(a * a + b * b))):
        np.testing.assert_allclose(got[name], want, rtol=1e-6)


def test_custom_operators_that_take_no_complex_numbers() -> None:
    m = ModelFile()
    z = m.tensor("z", (2,), "float32", **COMPLEX)
    m.op("CUSTOM", [m.input("a", (2,), "float32")] * 2, [z], custom="Complex")
    m.op("CUSTOM", [z, z], [m.output("y", (2,), "float32")], custom="MaxUnpooling2D")
    with pytest.raises(BuildError, match="cannot be imported") as error:
        import_tflite(m.build(), "m")
    assert "it is not supported for complex numbers" in str(error.value)
