"""Operators that move elements: every node case of ONNX, symbolic sizes, what becomes a view or nothing at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import compare, one_node, run
from node_cases import cases_of, check

from sdk.compiler.ir.graph import Call
from sdk.compiler.ir.module import Module
from sdk.errors import BuildError


@pytest.mark.parametrize("name", cases_of("Concat", "EyeLike", "Transpose"))
def test_node_case(name: str) -> None:
    check(name)


@pytest.mark.parametrize("name", cases_of("CenterCropPad", "Pad", "Slice", "Split", "Tile", "Trilu"))
def test_node_case_with_known_sizes(name: str) -> None:
    check(name, known=range(1, 5))


X = np.arange(2 * 7 * 3, dtype=np.float32).reshape(2, 7, 3)
SIZES = {"shapes": {"x": ("b", "n", 3)}, "dims": {"b": (1, 4), "n": (4, 300)}}

EMPTY = {"shapes": {"x": (2, "n", 3)}, "dims": {"n": (0, 9)}}


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def ops_of(module: Module) -> list[str]:
    return [n.callee for n in module.graphs["main"].body if isinstance(n, Call)]


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ([1], [1 << 62], [1], [1]),
        ([0], [-1], [1], [1]),
        ([-3], [1 << 62], [1], [1]),
        ([-1], [-(1 << 62)], [1], [-1]),
        ([5], [0], [1], [-2]),
        ([0, 1], [1, 100], [0, 1], [1, 3]),
        ([3], [2], [1], [1]),
        ([-400], [-500], [1], [-1]),  # from the first element, as the standard holds such a start to it
    ],
)
def test_slices_of_symbolic_sizes(starts: list[int], ends: list[int], axes: list[int], steps: list[int]) -> None:
    given = {"x": X, "starts": ints(*starts), "ends": ints(*ends), "axes": ints(*axes), "steps": ints(*steps)}
    compare("Slice", given, constants=("starts", "ends", "axes", "steps"), **SIZES)


def test_a_slice_of_everything_is_nothing() -> None:
    given = {"x": X, "starts": ints(0, 0), "ends": ints(1 << 62, 1 << 62)}
    assert ops_of(compare("Slice", given, constants=("starts", "ends"), **SIZES)) == ["reshape"]


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pads_of_symbolic_sizes(mode: str) -> None:
    given = {"x": X, "pads": ints(0, 2, 0, 1, 1, 0)}
    compare("Pad", given, constants=("pads",), opset=19, mode=mode, **SIZES)


@pytest.mark.parametrize("mode", ["constant", "edge"])
def test_negative_pads_cut(mode: str) -> None:
    given = {"x": X, "pads": ints(0, -2, 1, 1, 1, -1)}
    compare("Pad", given, constants=("pads",), opset=13, mode=mode, **SIZES)


@pytest.mark.parametrize("repeats", [(2, 1, 3), (1, 1, 1), (1, 3, 1)])
def test_tiles_of_symbolic_sizes(repeats: tuple[int, ...]) -> None:
    compare("Tile", {"x": X, "repeats": ints(*repeats)}, constants=("repeats",), **SIZES)


def test_parts_of_symbolic_sizes() -> None:
    compare("Split", {"x": X}, outputs=("p", "q", "r"), axis=2, num_outputs=3, **SIZES)
    given = {"x": X.reshape(2, 3, 7)[:, :, :6].copy()}
    how: dict[str, Any] = {"shapes": {"x": ("b", 3, "n")}, "dims": {"b": (1, 4), "n": (2, 300, 2)}}
    compare("Split", given, outputs=("p", "q"), axis=2, num_outputs=2, **how)


def test_joined_symbolic_sizes() -> None:
    how: dict[str, Any] = {
        "shapes": {"x": ("b", "past", 3), "y": ("b", "n", 3)},
        "dims": {"b": (1, 4), "past": (0, 300), "n": (1, 300)},
    }
    compare("Concat", {"x": X, "y": X[:, :2].copy()}, outputs=("z",), axis=1, **how)
    compare("Concat", {"x": X[:, :0].copy(), "y": X}, outputs=("z",), axis=1, **how)


@pytest.mark.parametrize("upper", [0, 1])
def test_triangles(upper: int) -> None:
    compare("Trilu", {"x": X, "k": np.array(1, dtype=np.int64)}, constants=("k",), opset=14, upper=upper, **SIZES)


def test_what_is_not_known_when_the_model_is_built_is_refused() -> None:
    model = one_node("Slice", {"x": X, "starts": ints(0), "ends": ints(1)})
    with pytest.raises(BuildError) as caught:
        run(model, {})
    assert "input 1 must be known" in str(caught.value.where)


# --- Squeeze --------------------------------------------------------------------

ROW = {"x": np.arange(3, dtype=np.float32).reshape(1, 3, 1)}


@pytest.mark.parametrize("axes", [None, ints()])
def test_squeeze_without_axes_drops_all_of_one(axes: np.ndarray | None) -> None:
    given = ROW if axes is None else {**ROW, "a": axes}
    module = compare("Squeeze", given, constants=[n for n in given if n != "x"])
    assert module.graphs["main"].results[0].type.rank == 1


def test_squeeze_without_axes_keeps_an_open_size_that_is_never_one() -> None:
    how = {"shapes": {"x": (1, "n", 1)}, "dims": {"n": (2, 8)}}
    module = compare("Squeeze", ROW, **how)
    assert [str(d) for d in module.graphs["main"].results[0].type.shape] == ["n"]


@pytest.mark.parametrize("bounds", [(1, 8), (0, 1)])
def test_squeeze_without_axes_of_an_open_size_that_may_be_one_is_refused(bounds: tuple[int, int]) -> None:
    with pytest.raises(BuildError) as refused:
        run(one_node("Squeeze", ROW, shapes={"x": (1, "n", 1)}), ROW, {"n": bounds})
    assert "whether the size n is 1 depends on its value; name the axes" in f"{refused.value.where}"


def test_squeeze_of_named_axes_keeps_an_open_size() -> None:
    named = {**ROW, "a": ints(0, 2)}
    module = compare("Squeeze", named, constants=["a"], shapes={"x": (1, "n", 1)}, dims={"n": (1, 8)})
    assert [str(d) for d in module.graphs["main"].results[0].type.shape] == ["n"]


@pytest.mark.parametrize(
    ("op", "given", "how"),
    [
        ("Slice", {"x": X, "starts": ints(-9), "ends": ints(-8), "axes": ints(2), "steps": ints(-1)}, {}),
        ("Slice", {"x": X[:, :0], "starts": ints(-9), "ends": ints(-8), "axes": ints(1), "steps": ints(-1)}, {}),
        ("Expand", {"x": np.float32(3), "shape": ints(2)}, {}),
        ("Expand", {"x": np.float32(3), "shape": ints()}, {}),
        ("Tile", {"x": X, "repeats": ints(0, 1, 0)}, {}),
        ("Tile", {"x": X[:, :0], "repeats": ints(2, 3, 2)}, {}),
        ("ReduceSum", {"x": X[:1, :0], "axes": ints(0)}, {"keepdims": 0}),
        ("ReduceL2", {"x": X[:, :0], "axes": ints(2)}, {"keepdims": 0}),
        ("MatMul", {"a": X[0, :5, 0].copy(), "b": X[0, :5, :0].copy()}, {}),
        ("Pad", {"x": X[:, :0], "pads": ints(1, 0, 0, 0, 0, 2)}, {"mode": "edge"}),
    ],
)
def test_nothing_and_single_numbers(op: str, given: dict[str, Any], how: dict[str, Any]) -> None:
    inputs = {name: np.ascontiguousarray(v) if np.ndim(v) else np.asarray(v) for name, v in given.items()}
    compare(op, inputs, constants=[n for n, v in inputs.items() if v.dtype == np.int64], opset=19, **how)


def test_what_nothing_is_padded_with_is_read_nowhere() -> None:
    for mode in ("edge", "reflect", "wrap"):
        model = one_node("Pad", {"x": X, "p": ints(0, 2, 0, 0, 1, 0)}, constants=("p",), opset=19, mode=mode, **EMPTY)
        for size in (0, 1, 3):
            x = X[:, :size].copy()
            _, got = run(model, {"x": x}, EMPTY["dims"])
            want = np.pad(x, [(0, 0), (2, 1), (0, 0)], mode) if size else np.zeros((2, 3, 3), np.float32)
            np.testing.assert_array_equal(got["y"], want)
