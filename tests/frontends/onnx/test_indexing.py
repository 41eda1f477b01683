"""Operators that choose by position: every node case of ONNX, positions outside, known runs as slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import compare, one_node, run
from node_cases import cases_of, check

from sdk.compiler.ir.graph import Call
from sdk.compiler.ir.module import Module

INDEXING = (
    "Gather", "GatherElements", "GatherND", "ReverseSequence", "Scatter", "ScatterElements", "ScatterND",
    "TensorScatter",
)  # fmt: skip


@pytest.mark.parametrize("name", cases_of(*INDEXING))
def test_node_case(name: str) -> None:
    check(name)


@pytest.mark.parametrize("name", cases_of("OneHot", "TopK"))
def test_node_case_with_known_sizes(name: str) -> None:
    check(name, known=[1])


RNG = np.random.default_rng(7)
TABLE = RNG.standard_normal((50, 8)).astype(np.float32)
IDS = RNG.integers(-50, 50, (2, 6))
SIZES: dict[str, Any] = {"shapes": {"ids": ("b", "n")}, "dims": {"b": (1, 4), "n": (1, 300)}}


def ops_of(module: Module) -> list[str]:
    return [n.callee for n in module.graphs["main"].body if isinstance(n, Call)]


def test_an_embedding_of_symbolic_sizes() -> None:
    module = compare("Gather", {"table": TABLE, "ids": IDS}, constants=("table",), **SIZES)
    assert ops_of(module) == ["gather"]


def test_positions_outside_read_zero_and_write_nothing() -> None:
    ids = np.array([0, 50, -51, 1 << 40, -(1 << 40), 49])
    model = one_node("Gather", {"table": TABLE, "ids": ids})
    got = run(model, {"table": TABLE, "ids": ids})[1]["y"]
    np.testing.assert_array_equal(got[[0, 5]], TABLE[[0, 49]])
    assert not got[1:5].any()
    given = {"table": TABLE, "ids": ids.reshape(6, 1), "updates": np.ones((6, 8), np.float32)}
    got = run(one_node("ScatterND", given), given)[1]["y"]
    want = TABLE.copy()
    want[[0, 49]] = 1
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("ids", [[3], [-1], [0, 1, 2], [5, 3, 1], [-3, -2]])
def test_a_known_run_of_positions_is_a_slice(ids: list[int]) -> None:
    given = {"x": TABLE, "ids": np.array(ids)}
    module = compare("Gather", given, constants=("ids",))
    assert ops_of(module) == ["slice"]


def test_a_known_position_in_an_open_size() -> None:
    how: dict[str, Any] = {"shapes": {"x": ("n", 8)}, "dims": {"n": (1, 300)}, "constants": ("ids",)}
    assert ops_of(compare("Gather", {"x": TABLE, "ids": np.array(-1)}, **how)) == ["slice", "reshape"]
    assert ops_of(compare("Gather", {"x": TABLE, "ids": np.array(7)}, **how)) == ["gather"]


@pytest.mark.parametrize("largest", [0, 1])
def test_the_best_of_a_symbolic_size(largest: int) -> None:
    x = RNG.integers(0, 5, (3, 9)).astype(np.float32)
    how: dict[str, Any] = {"shapes": {"x": ("b", "n")}, "dims": {"b": (1, 4), "n": (4, 300)}, "constants": ("k",)}
    compare("TopK", {"x": x, "k": np.array([4])}, outputs=("v", "i"), largest=largest, **how)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "min", "max"])
def test_scatters_of_symbolic_sizes(reduction: str) -> None:
    at = RNG.permutation(50)[:5].astype(np.int64)
    how: dict[str, Any] = {"dims": {"n": (5, 300), "k": (1, 9)}, "opset": 18, "reduction": reduction}
    given = {"x": TABLE, "at": at.reshape(5, 1), "u": RNG.standard_normal((5, 8)).astype(np.float32)}
    compare("ScatterND", given, shapes={"x": ("n", 8), "at": ("k", 1), "u": ("k", 8)}, **how)
    given["at"] = np.repeat(at.reshape(5, 1), 8, axis=1)
    compare("ScatterElements", given, shapes={"x": ("n", 8), "at": ("k", 8), "u": ("k", 8)}, **how)


@pytest.mark.parametrize("name", cases_of("Col2Im", "MaxUnpool"))
def test_windows_put_back(name: str) -> None:
    check(name, known=[2] if "unpool" in name else [1, 2])
