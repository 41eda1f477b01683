"""Reductions, searches, running sums and the softmax family: every node case of ONNX, old opsets, symbolic sizes."""

from __future__ import annotations

import numpy as np
import pytest
from node_cases import cases_of, check
from onnx import TensorProto, helper

from sdk.compiler.interp.graph import run_graph
from sdk.frontends.onnx.importer import import_onnx

REDUCING = (
    "ArgMax ArgMin CumProd CumSum Hardmax LogSoftmax ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax "
    "ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Softmax"
)


@pytest.mark.parametrize("name", cases_of(*REDUCING.split()))
def test_node_case(name: str) -> None:
    check(name)


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def import_one(
    op: str, shape: tuple[object, ...], opset: int, kind: int = TensorProto.FLOAT, **given: object
) -> object:
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], ["y"], **given)],
        "g",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)],
    )
    dims = {d: (1, 8) for d in shape if isinstance(d, str)}
    return import_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]), "m", dims=dims)


X = np.random.default_rng(5).standard_normal((2, 3, 4, 5)).astype(np.float32)


@pytest.mark.parametrize("axis", range(4))
def test_softmax_before_opset_13_takes_all_axes_from_one_on(axis: int) -> None:
    flat = softmax(X.reshape(int(np.prod(X.shape[:axis])), -1), 1).reshape(X.shape)
    module = import_one("Softmax", X.shape, 11, axis=axis)
    np.testing.assert_allclose(run_graph(module, "main", {"x": X})["y"], flat, rtol=1e-5)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_softmax_of_symbolic_sizes(axis: int) -> None:
    module = import_one("Softmax", ("b", "n", 4, "m"), 13, axis=axis)
    np.testing.assert_allclose(run_graph(module, "main", {"x": X})["y"], softmax(X, axis), rtol=1e-5)


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(("op", "fn"), [("ReduceMean", np.mean), ("ReduceMax", np.max), ("ReduceL1", None)])
def test_reductions_by_attribute_and_symbolic_sizes(op: str, fn: object, keepdims: int) -> None:
    module = import_one(op, ("b", "n", "k", 5), 13, axes=[1, -1], keepdims=keepdims)
    wanted = np.abs(X).sum((1, 3), keepdims=bool(keepdims)) if fn is None else fn(X, (1, 3), keepdims=bool(keepdims))
    np.testing.assert_allclose(run_graph(module, "main", {"x": X})["y"], wanted, rtol=1e-5)


def test_the_mean_of_integers_is_truncated() -> None:
    module = import_one("ReduceMean", (2, 3), 13, TensorProto.INT32, axes=[1], keepdims=0)
    x = np.array([[1, 2, 5], [-1, -2, -5]], dtype=np.int32)
    np.testing.assert_array_equal(run_graph(module, "main", {"x": x})["y"], [2, -2])
