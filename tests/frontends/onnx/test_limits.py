"""What a model may ask of the compiler: small files that ask for too much are refused, named, at once; long chains
are not."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sdk.budget import FOLDED, NESTING, NODES, TRIPS, Budget, check_limit
from sdk.compiler.interp.graph import run_graph
from sdk.errors import BuildError
from sdk.frontends.failures import OUT_OF_MEMORY
from sdk.frontends.onnx.importer import import_onnx
from sdk.frontends.onnx.operators import OPERATORS

MEL = {"c": 8000, "d": 0.0, "e": 1.0}  # a rate and the edges of bands
SECONDS = 20.0  # of a busy machine; alone it takes a tenth


def param(name: str, shape: tuple[int, ...] = (3,), kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def file(nodes: list[Any], outputs: list[str], constants: dict[str, Any] | None = None, shape: Any = (3,)) -> Any:
    held = [numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", [param("x", shape)], [onnx.ValueInfoProto(name=n) for n in outputs], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def refused(model: Any, *words: str) -> str:
    start = time.monotonic()
    with pytest.raises(BuildError) as error:
        import_onnx(model, "m")
    assert time.monotonic() - start < SECONDS
    text = str(error.value)
    assert all(word in text for word in words), text
    return text


def loop(counts: list[int]) -> Any:
    """Loops inside one another around ``v = v + v``; the first count is that of the innermost."""
    body = [helper.make_node("Add", ["v0", "v0"], ["r0"])]
    for k, count in enumerate(counts):
        graph = helper.make_graph(
            [*body, helper.make_node("Identity", [f"c{k}"], [f"d{k}"])], f"b{k}",
            [param(f"n{k}", (), TensorProto.INT64), param(f"c{k}", (), TensorProto.BOOL), param(f"v{k}")],
            [param(f"d{k}", (), TensorProto.BOOL), param(f"r{k}")],
        )  # fmt: skip
        body = [
            helper.make_node("Constant", [], [f"m{k}"], value=numpy_helper.from_array(np.array(count))),
            helper.make_node("Constant", [], [f"t{k}"], value=numpy_helper.from_array(np.array(True))),
            helper.make_node("Loop", [f"m{k}", f"t{k}", "x" if k + 1 == len(counts) else f"v{k + 1}"], [f"r{k + 1}"],
                             name=f"loop{k}", body=graph),
        ]  # fmt: skip
    return file(body, [f"r{len(counts)}"])


def functions(depth: int, calls: int, own: int | None = None) -> Any:
    """Functions that each call the one below ``calls`` times; the lowest calls function ``own`` where that is given."""
    made = []
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    for k in range(depth):
        name, domain = (f"f{k - 1}", "own") if k else ("Neg", "") if own is None else (f"f{own}", "own")
        nodes = [helper.make_node(name, [f"a{n}"], [f"a{n + 1}"], domain=domain) for n in range(calls)]
        made.append(helper.make_function("own", f"f{k}", ["a0"], [f"a{calls}"], nodes, imports))
    model = file([helper.make_node(f"f{depth - 1}", ["x"], ["y"], domain="own", name="top")], ["y"])
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.extend(made)
    return model


def test_a_budget_counts_in_total_and_names_limit_and_way_out() -> None:
    budget = Budget()
    budget.spend(TRIPS, TRIPS.maximum - 1, "node a")
    assert budget.affords(TRIPS, 1)
    assert not budget.affords(TRIPS, 1)
    with pytest.raises(BuildError) as error:
        budget.spend(TRIPS, 1, "node b")
    assert f"node b asks for {TRIPS.maximum + 1}" in error.value.message
    assert (error.value.why, error.value.hint) == (TRIPS.why, TRIPS.hint)
    budget.spend(NODES, 5, "others are counted apart")
    with pytest.raises(BuildError, match=r"about 2\*\*70"):
        check_limit(FOLDED, 1 << 70, "x")


def test_nested_functions_are_counted_before_they_are_written_out() -> None:
    text = refused(functions(26, 2), "node 0 f25 top", str(NODES.maximum))
    assert NODES.hint in text
    assert len(import_onnx(functions(10, 2), "m").graphs["main"].body) == 1 << 10


def test_functions_inside_one_another() -> None:
    assert len(import_onnx(functions(NESTING.maximum, 1), "m").graphs["main"].body) == 1
    refused(functions(NESTING.maximum + 2, 1), "levels of functions and sub-graphs")
    refused(functions(5, 1, own=3), "calls itself", "own::f3")


def test_trips_of_loops_inside_one_another_are_counted_in_total() -> None:
    refused(loop([1000, 1000, 1000]), "Loop loop1 asks for")
    refused(loop([1 << 62]), str(1 << 62))
    module = import_onnx(loop([3, 4]), "m")
    assert len(module.graphs["main"].body) == 12
    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(next(iter(run_graph(module, "main", {"x": x}).values())), x * 2.0**12)


def test_a_loop_of_no_steps_hands_on_what_it_is_given() -> None:
    module = import_onnx(loop([0]), "m")
    assert next(iter(run_graph(module, "main", {"x": np.ones(3, np.float32)}).values())).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("op", "inputs", "constants", "given", "words"),
    [
        ("Pad", ["x", "p"], {"p": [0, 1 << 62]}, {}, ("pads of op pad", str(1 << 62))),
        ("Pad", ["x", "p"], {"p": [0, 1 << 30]}, {}, ()),
        ("Expand", ["x", "p"], {"p": [1 << 45, 1]}, {}, ("shape of op",)),
        ("Tile", ["x", "p"], {"p": [1 << 40]}, {}, ("of op",)),
        ("Resize", ["x", "", "s"], {"s": np.array([1e9], "f")}, {"mode": "linear"}, ("Resize y",)),
        ("Resize", ["x", "", "", "p"], {"p": [1 << 28]}, {"mode": "cubic"}, ("Resize y",)),
        ("Resize", ["x", "", "s"], {"s": np.array([1e-9], "f")}, {"mode": "linear", "antialias": 1}, ("Resize",)),
        ("ConstantOfShape", ["p"], {"p": [1 << 20, 1 << 21]}, {}, ("elements of a tensor",)),
        ("Unsqueeze", ["x", "p"], {"p": list(range(1, 40))}, {}, ("axes of a tensor",)),
        ("Range", ["a", "b", "c"], {"a": 0, "b": 1 << 62, "c": 1}, {}, ("Range",)),
        ("OneHot", ["i", "d", "v"], {"i": [1, 2], "d": 1 << 40, "v": [0.0, 1.0]}, {}, ("OneHot",)),
        ("EyeLike", ["x"], {}, {"k": 1 << 62}, ("EyeLike",)),
        ("MelWeightMatrix", list("abcde"), {"a": 1 << 40, "b": 64, **MEL}, {}, ("of constants",)),
        ("MelWeightMatrix", list("abcde"), {"a": 8, "b": 1 << 40, **MEL}, {}, ("of constants",)),
        ("SplitToSequence", ["c", "n"], {"c": np.ones(200_000, "f"), "n": 1}, {}, ("in parts of 1 asks for 200000",)),
        ("Split", ["c"], {"c": np.ones((0, 2), "f")}, {"num_outputs": 1 << 62}, (f"num_outputs is {1 << 62}",)),
        ("DFT", ["c", "n"], {"c": np.ones((1, 4, 1), "f"), "n": 1000003}, {}, ("prime length 1000003", "of constants")),
        ("Clip", ["c", "lo"], {"c": np.ones(3, np.uint8), "lo": np.float32(1e9)}, {}, ("of u8, not [] of f32",)),
        ("Clip", ["x", "lo"], {"lo": np.array([0, 1], "f")}, {}, ("of f32, not [2] of f32",)),
    ],
)  # fmt: skip
def test_sizes_without_measure(op: str, inputs: list[str], constants: Any, given: Any, words: tuple[str, ...]) -> None:
    model = file([helper.make_node(op, inputs, ["y"], **given)], ["y"], constants)
    if words:
        refused(model, "node 0", *words)
    else:
        assert import_onnx(model, "m").graphs["main"].results[0].type.size == 3 + (1 << 30)


@pytest.mark.parametrize("key", ["kernel_shape", "strides", "dilations", "pads"])
def test_windows_without_measure(key: str) -> None:
    given = {"kernel_shape": [2, 2]} | {key: [1 << 62] * (4 if key == "pads" else 2)}
    refused(file([helper.make_node("MaxPool", ["x"], ["y"], **given)], ["y"], shape=(1, 2, 8, 8)), "node 0 MaxPool")


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "words"),
    [
        ("Relu", ["x", "x"], ["y"], "2 inputs, Relu of opset 18 at most 1"),
        ("Add", ["x", "x", "x"], ["y"], "3 inputs, Add of opset 18 at most 2"),
        ("Relu", ["x"], ["y", "z"], "2 outputs, Relu of opset 18 at most 1"),
        ("Add", ["x"], ["y"], "takes 2 arguments"),
        ("MatMul", [], ["y"], "input 0 is missing"),
    ],
)
def test_surplus_and_missing_inputs(op: str, inputs: list[str], outputs: list[str], words: str) -> None:
    refused(file([helper.make_node(op, inputs, outputs)], ["y"]), f"node 0 {op}", words)


def test_inputs_left_out_at_the_end_are_none() -> None:
    assert import_onnx(file([helper.make_node("Clip", ["x", "", ""], ["y"])], ["y"]), "m")


def test_a_function_asked_for_more_than_it_gives() -> None:
    model = functions(2, 1)
    model.graph.node[0].output.append("more")
    refused(model, "node 0 f1 top", "1 outputs is asked for 2")


def test_how_often_something_is_not_zero_may_be_known() -> None:
    model = file([helper.make_node("Compress", ["x", "flags"], ["y"])], ["y"], {"flags": [True, False, True]})
    module = import_onnx(model, "m")
    x = np.array([1, 2, 3], np.float32)
    assert run_graph(module, "main", {"x": x})["y"].tolist() == [1, 3]


def test_memory_that_runs_out_is_an_error_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def hungry(node: Any) -> Any:
        return np.zeros(1 << 46)

    monkeypatch.setitem(OPERATORS, "Relu", hungry)
    refused(file([helper.make_node("Relu", ["x"], ["y"])], ["y"]), "node 0 Relu", OUT_OF_MEMORY)


def test_a_chain_that_doubles_is_not_computed_in_memory() -> None:
    nodes = [helper.make_node("Concat", [f"w{k}", f"w{k}"], [f"w{k + 1}"], axis=0) for k in range(60)]
    refused(file([*nodes, helper.make_node("Size", ["w60"], ["y"])], ["y"], {"w0": np.ones(4, np.float32)}), "Concat")
