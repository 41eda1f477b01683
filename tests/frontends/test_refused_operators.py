"""Operators that are refused, with the reason, and limits of those that are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tflite_files import ModelFile

from sdk.errors import BuildError
from sdk.frontends.outline import Refusal
from sdk.frontends.tflite.importer import import_tflite
from sdk.frontends.tflite.operators import OPERATORS
from sdk.frontends.tflite.operators.refused import REFUSED


def one(op: str, *inputs: Any, custom: str = "", options: str = "", outputs: int = 1, **fields: Any) -> bytes:
    """An operator of inputs (shapes) and constants (arrays as lists)."""
    m = ModelFile()
    numbers = [
        m.input(f"x{k}", given, "float32") if isinstance(given, tuple)
        else m.const(f"c{k}", given, "float32" if isinstance(given, float) else "int32")
        for k, given in enumerate(inputs)
    ]  # fmt: skip
    m.op(op, numbers, [m.output(f"y{k}", (), "float32") for k in range(outputs)], options, custom, **fields)
    return m.build()


def refusal(data: bytes) -> Refusal:
    found: list[Refusal] = []
    with pytest.raises(BuildError, match="cannot be imported"):
        import_tflite(data, "m", refusals=found)
    return found[0]


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_told_with_the_reason(name: str) -> None:
    assert name not in OPERATORS
    found, (why, hint) = refusal(one(name, (2, 3))), REFUSED[name]
    assert (found.why, found.hint) == (f"unsupported operator ({why})", hint)


def test_custom_operators_and_those_of_tensorflow() -> None:
    assert refusal(one("CUSTOM", (2,), custom="Mine")).hint == "import it by --custom FILE.py"
    assert "it is an operator of TensorFlow" in refusal(one("CUSTOM", (2,), custom="FlexErf")).why


def nms(count: int, *, scores: tuple[int, ...] = (4,), overlap: Any = 0.5, sigma: float = 0.0) -> bytes:
    return one("NON_MAX_SUPPRESSION_V5", (4, 4), scores, count, overlap, 0.1, sigma, outputs=3)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (lambda: nms(0), "0 boxes that overlap by less than 0.5"),
        (lambda: nms(3, overlap=2.0), "that overlap by less than 2.0"),
        (lambda: nms(3, overlap=7), "must be one float"),
        (lambda: nms(3, scores=(5,)), "with scores [5]"),
        (lambda: nms(3, sigma=0.5), "scores lowered by overlap"),
        (lambda: one("SEGMENT_SUM", (3, 2), [0, 2, 3]), "they must ascend from 0 without gaps"),
        (lambda: one("SEGMENT_SUM", (3, 2), [1, 1, 2]), "they must ascend from 0 without gaps"),
        (lambda: one("SEGMENT_SUM", (3, 2), [0, 0]), "they must ascend from 0 without gaps"),
        (lambda: one("UNSORTED_SEGMENT_SUM", (3, 2), [0, 0], 3), "3 segments by numbers [2] of [3, 2]"),
        (lambda: one("UNIQUE", (3, 2), outputs=2), "it takes tensors of rank 1"),
        (lambda: one("MATRIX_DIAG", ()), "a scalar is no diagonal"),
        (lambda: one("MATRIX_SET_DIAG", (3, 2), (3,)), "diagonals [3] for matrices [3, 2]"),
        (lambda: one("BUCKETIZE", (3,), options="BucketizeOptions", Boundaries=[2.0, 1.0]), "do not ascend"),
    ],
)
def test_limits_of_operators(data: Callable[[], bytes], why: str) -> None:
    assert why in refusal(data()).why
