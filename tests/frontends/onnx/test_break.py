"""Models that were found to break the build: names, sizes as expressions, sizes below 0, hints."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from harness import agree, model_of, reference
from onnx import helper

from sdk.boards import load_board
from sdk.compiler.interp.plan import run_plan
from sdk.compiler.sym import evaluate
from sdk.driver import BuildOptions
from sdk.driver.pipeline import default_passes, lower_module
from sdk.errors import SdkError
from sdk.frontends.onnx.importer import import_onnx
from sdk.frontends.onnx.operators import OPERATORS
from sdk.frontends.onnx.refused import REFUSED

X = np.arange(12, dtype=np.float32).reshape(3, 4) - 6


def outputs_of(model: onnx.ModelProto) -> tuple[str, ...]:
    module = import_onnx(model, "m", dims={"n": (1, 8)})
    low = lower_module(module, default_passes(load_board("host"), BuildOptions()))
    return low.plans["main"].outputs


def test_outputs_keep_their_names_when_they_are_views() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["z"]), helper.make_node("Reshape", ["z", "s"], ["y"])]
    model = model_of(nodes, {"x": X, "s": np.array([-1])}, ["z", "y"], constants=["s"], shapes={"x": ["n", 4]})
    assert outputs_of(model) == ("z", "y")
    nodes = [helper.make_node("Reshape", ["x", "s"], ["y"]), helper.make_node("Identity", ["y"], ["w"])]
    model = model_of(nodes, {"x": X, "s": np.array([-1])}, ["y", "w"], constants=["s"], shapes={"x": ["n", 4]})
    assert outputs_of(model) == ("y", "w")
    module = import_onnx(model, "m", dims={"n": (1, 8)})
    low = lower_module(module, default_passes(load_board("host"), BuildOptions()))
    for name, value in reference(model, {"x": X}).items():
        agree(run_plan(low, "main", {"x": X})[name], value)


def test_outputs_keep_their_names_beside_constants_of_a_converter() -> None:
    nodes = [helper.make_node("LayerNormalization", ["x", "g"], ["q"], axis=-1)]
    model = model_of(nodes, {"x": X, "g": np.ones(4, np.float32)}, ["q"], constants=["g"], shapes={"x": ["n", 4]})
    assert outputs_of(model) == ("q",)


@pytest.mark.parametrize(
    ("text", "n", "size"),
    [("(n+1)//2", 7, 4), ("n // 2", 7, 3), ("2*n", 3, 6), ("n + 1", 3, 4), ("Max(1, n - 3)", 2, 1), ("n % 4", 7, 3)],
)
def test_sizes_as_expressions(text: str, n: int, size: int) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Relu", ["w"], ["z"])]
    model = model_of(nodes, {"x": X, "w": X}, ["y", "z"], shapes={"x": ["n", 4], "w": [text, 4]})
    graph = import_onnx(model, "m", dims={"n": (1, 8)}).graphs["main"]
    extent = graph.params[1].type.shape[0]
    assert evaluate(extent, {graph.dims[0]: n}) == size


@pytest.mark.parametrize("text", ["n/2", "n**2", "batch size", "floor(n/2)", "n if n else 1", "(" * 300])
def test_other_texts_are_names(text: str) -> None:
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": X}, ["y"], shapes={"x": [text, 4]})
    with pytest.raises(SdkError, match="open sizes without bounds"):
        import_onnx(model, "m", dims={})


def refused(model: onnx.ModelProto, **dims: tuple[int, int]) -> SdkError:
    with pytest.raises(SdkError) as found:
        import_onnx(model, "m", dims=dims)
    return found.value


@pytest.mark.parametrize("op", ["Conv", "MaxPool"])
def test_a_bound_too_small_for_a_window_names_the_node(op: str) -> None:
    x, w = np.ones((1, 2, 9), np.float32), np.ones((3, 2, 5), np.float32)
    node = helper.make_node(op, ["x", "w"][: 2 if op == "Conv" else 1], ["y"], name="front", kernel_shape=[5])
    given = {"x": x, "w": w} if op == "Conv" else {"x": x}
    model = model_of([node], given, ["y"], constants=["w"] if op == "Conv" else [], shapes={"x": [1, 2, "n"]})
    error = refused(model, n=(1, 9))
    assert f"{op} front" in str(error.where)
    assert "n - 4 elements" in str(error.where)
    assert "--dim" in str(error.hint)
    assert import_onnx(model, "m", dims={"n": (5, 9)}).graphs


def test_sizes_that_must_agree_get_a_hint_about_sizes() -> None:
    node = helper.make_node("Add", ["x", "w"], ["y"], name="sum")
    model = model_of([node], {"x": X, "w": X}, ["y"], shapes={"x": ["n", 4], "w": ["m", 4]})
    error = refused(model, n=(0, 8), m=(0, 8))  # none that is 0 broadcasts
    assert "Add sum" in str(error.where)
    assert "n and m are not known to be equal" in str(error.where)
    assert "same name" in str(error.hint)


def test_operators_that_are_refused_say_why() -> None:
    assert not set(REFUSED) & set(OPERATORS)
    node = helper.make_node("StringNormalizer", ["x"], ["y"], name="clean")
    error = refused(model_of([node], {"x": X}, ["y"]))
    assert "unsupported operator StringNormalizer of opset 18: text is not supported" in str(error.where)
    assert "before the model" in str(error.hint)
    node = helper.make_node("ReorderInput", ["x"], ["y"], domain="com.microsoft.nchwc")
    error = refused(model_of([node], {"x": X}, ["y"], domain="com.microsoft.nchwc"))
    assert '"extended"' in str(error.hint)
