"""Operators that rank and keep: every node case of ONNX, and against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from harness import compare
from node_cases import cases_of, check


@pytest.mark.parametrize("name", [n for n in cases_of("Unique") if "with_axis" not in n and "negative_axis" not in n])
def test_unique(name: str) -> None:
    check(name)


@pytest.mark.parametrize("name", cases_of("NonMaxSuppression"))
def test_suppression(name: str) -> None:
    check(name, known=[2, 3, 4])


@pytest.mark.parametrize("in_order", [0, 1])
def test_unique_of_a_symbolic_size(in_order: int) -> None:
    x = np.random.default_rng(2).integers(0, 6, (3, 7)).astype(np.float32)
    outputs = ("v", "first", "which", "many")
    compare("Unique", {"x": x}, outputs=outputs, sorted=in_order, shapes={"x": (3, "n")}, dims={"n": (1, 40)})


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("ordered", [0, 1])
@pytest.mark.parametrize("kind", [np.float32, np.int64, np.int8])
def test_unique_slices(axis: int, ordered: int, kind: type) -> None:
    x = np.random.default_rng(axis + ordered + 1).integers(0, 2, (6, 2, 5)).astype(kind)
    x[4], x[5] = x[1], x[0]
    compare("Unique", {"x": x}, outputs=["y", "i", "r", "c"], axis=axis, sorted=ordered)
