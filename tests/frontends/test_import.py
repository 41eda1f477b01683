"""What an imported module looks like: names, scales, states, open dims, custom and unsupported operators."""

from __future__ import annotations

import numpy as np
import pytest
from reference import assert_bit_exact
from streaming import streaming_file
from test_operators import CASES
from tflite_files import ModelFile

from sdk.compiler.interp.graph import run_graph
from sdk.compiler.ir.graph import Call, ReadState, WriteState
from sdk.compiler.ir.types import Quant
from sdk.compiler.ops import registry
from sdk.compiler.verify.module import verify
from sdk.errors import BuildError, UsageError
from sdk.frontends.tflite.context import OpNode
from sdk.frontends.tflite.importer import import_tflite


@pytest.mark.parametrize("case", CASES)
def test_module_is_well_formed(case: str) -> None:
    assert verify(import_tflite(CASES[case], "model"), registry) == []


def test_names_and_quantisation_come_from_the_file() -> None:
    module = import_tflite(streaming_file(), "my model")
    graph = module.graphs["main"]
    assert module.name == "my_model"
    assert module.stage == "imported"
    assert [p.name for p in graph.params] == ["serving_x_0"]
    assert [r.name for r in graph.results] == ["serving_y_0"]
    assert graph.params[0].type.quant == Quant(float(np.float32(0.1)), 4)
    assert graph.results[0].type.quant == Quant(float(np.float32(0.2)), 1)
    sources = [n.source for n in graph.body if isinstance(n, Call)]
    assert sources == ["CONCATENATION longer", "STRIDED_SLICE after", "ADD serving/y:0"]


def test_long_names_become_short_unique_identifiers() -> None:
    m = ModelFile()
    x = m.input(
        "model/block/layer_with_a_rather_long_name/" + "deep/" * 20 + "x;other", (1, 4), "int8", 0.1, 0
    )
    y = m.output(
        "model/block/layer_with_a_rather_long_name/" + "deep/" * 20 + "x;again", (1, 4), "int8", 0.1, 0
    )
    m.op("RELU", [x], [y])
    graph = import_tflite(m.build(), "1st")
    names = [*graph.graphs["main"].params, *graph.graphs["main"].results]
    assert len({v.name for v in names}) == 2
    assert all(v.name.isidentifier() and len(v.name) <= 44 for v in names)
    assert graph.name == "t_1st"


def test_variables_become_states() -> None:
    module = assert_bit_exact(streaming_file(), runs=20)
    assert module.states["window"].init == 4
    kinds = [type(n) for n in module.graphs["main"].body if not isinstance(n, Call)]
    assert kinds == [ReadState, WriteState]


def test_variables_start_from_the_init_subgraph() -> None:
    module = assert_bit_exact(streaming_file([1, -2, 3, 4, 5, -6, 7, 8]), runs=20)
    init = module.consts[str(module.states["window"].init)]
    assert init.data.reshape(-1).tolist() == [1, -2, 3, 4, 5, -6, 7, 8]


def open_dense() -> bytes:
    m = ModelFile()
    x = m.input("x", (1, 6), "int8", 0.1, 3, signature=(-1, 6))
    w = m.const("w", np.arange(30).reshape(5, 6) - 11, "int8", scale=0.02)
    b = m.const("b", np.arange(5) * 100, "int32", scale=0.002)
    y = m.tensor("hidden", (1, 5), "int8", 0.2, -5)
    o = m.output("y", (1, 5), "int8", 1 / 256, -128)
    m.op("FULLY_CONNECTED", [x, w, b], [y], "FullyConnectedOptions")
    m.op("SOFTMAX", [y], [o], "SoftmaxOptions", Beta=1.0)
    return m.build()


def test_open_extents_become_dims_where_bounds_are_given() -> None:
    module = import_tflite(open_dense(), "model", dims={"x_0": (1, 8)})
    graph = module.graphs["main"]
    assert [(v.name, v.lo, v.hi) for v in graph.dims] == [("x_0", 1, 8)]
    assert str(graph.results[0].type.shape[0]) == "x_0"
    assert verify(module, registry) == []
    fixed = import_tflite(open_dense(), "model")
    assert fixed.graphs["main"].dims == ()
    x = np.random.default_rng(0).integers(-128, 128, (7, 6)).astype(np.int8)
    rows = run_graph(module, "main", {"x": x})["y"]
    for k in range(7):
        np.testing.assert_array_equal(rows[k : k + 1], run_graph(fixed, "main", {"x": x[k : k + 1]})["y"])


def test_unknown_dim_names_the_open_ones() -> None:
    with pytest.raises(UsageError, match="no dim n") as error:
        import_tflite(open_dense(), "model", dims={"n": (1, 8)})
    assert error.value.hint == "open dims: x_0"
    with pytest.raises(UsageError) as error:
        import_tflite(CASES["dense"], "model", dims={"n": (1, 8)})
    assert error.value.hint == "every extent of this model is fixed"


def test_all_unsupported_operators_are_reported_at_once() -> None:
    m = ModelFile()
    x = m.input("x", (1, 8), "int8", 0.1, 0)
    a, b = m.tensor("after_conv", (1, 8), "int8", 0.1, 0), m.tensor("after_relu", (1, 8), "int8", 0.1, 0)
    c = m.output("out", (1, 8), "int8", 0.1, 0)
    m.op("RANDOM_UNIFORM", [x], [a])
    m.op("RELU", [a], [b])
    m.op("CUSTOM", [b], [c], custom="MyFilter")
    with pytest.raises(
        BuildError, match="2 operators of the model cannot be imported: MyFilter, RANDOM_UNIFORM"
    ) as error:
        import_tflite(m.build(), "model")
    assert error.value.where is not None
    assert "node 0 RANDOM_UNIFORM -> after_conv: unsupported operator" in error.value.where
    assert "node 2 MyFilter -> out: unsupported custom operator" in error.value.where


def test_tensors_that_an_operator_does_not_take_are_refused_with_their_type() -> None:
    m = ModelFile()
    x, y = m.input("x", (1, 8), "int64"), m.output("y", (1, 8), "int64")
    m.op("RELU", [x], [y])
    with pytest.raises(BuildError, match="1 operator") as error:
        import_tflite(m.build(), "model")
    assert "INT64, supported: f32" in str(error.value)


def test_custom_operator_by_hook() -> None:
    m = ModelFile()
    x = m.input("x", (1, 8), "int8", 0.1, 0)
    y = m.output("y", (1, 8), "int8", 0.1, 0)
    m.op("CUSTOM", [x], [y], custom="Negate")

    def negate(node: OpNode) -> None:
        table = np.clip(-np.arange(-128, 128), -128, 127).astype(np.int8)
        node.call("lookup", node.input(0), node.const("table", table))

    module = import_tflite(m.build(), "model", custom_ops={"Negate": negate})
    x_value = np.array([[-128, -3, 0, 5, 127, 1, 2, 3]], dtype=np.int8)
    found = run_graph(module, "main", {"x": x_value})["y"]
    assert found.tolist() == [[127, 3, 0, -5, -127, -1, -2, -3]]


def test_equal_constants_are_shared() -> None:
    m = ModelFile()
    x = m.input("x", (1, 6), "int8", 1 / 256, -128)
    first = m.tensor("first", (1, 6), "int8", 1 / 256, -128)
    y = m.output("y", (1, 6), "int8", 1 / 256, -128)
    m.op("SOFTMAX", [x], [first], "SoftmaxOptions", Beta=1.0)
    m.op("SOFTMAX", [first], [y], "SoftmaxOptions", Beta=1.0)
    assert len(import_tflite(m.build(), "model").consts) == 1


# --- tensors of no elements, scales that nothing computes with -------------------------


def _joined(first: int, second: int, scale: float = 0.1, constant: bool = False) -> bytes:
    m = ModelFile()
    x = m.input("x", (2, first), "int8", scale)
    empty = np.zeros((2, second), np.int8)
    y = m.const("y", empty, "int8", scale=scale) if constant else m.input("y", (2, second), "int8", scale)
    o = m.output("o", (2, first + second), "int8", scale)
    m.op("CONCATENATION", [x, y], [o], "ConcatenationOptions", Axis=1, FusedActivationFunction=0)
    return m.build()


def _viewed(shape: tuple[int, ...], to: tuple[int, ...], scale: float = 0.1) -> bytes:
    m = ModelFile()
    x, target = m.input("x", shape, "int8", scale), m.const("s", np.array(to, np.int32))
    m.op("RESHAPE", [x, target], [m.output("o", to, "int8", scale)], "ReshapeOptions")
    return m.build()


EMPTY = {
    "an empty operand": _joined(0, 3),
    "an empty constant": _joined(3, 0, constant=True),
    "a scalar, whose target shape is empty": _viewed((1, 1), ()),
}


@pytest.mark.parametrize("what", EMPTY)
def test_tensors_of_no_elements(what: str) -> None:
    assert_bit_exact(EMPTY[what])


def test_nothing_but_empty_tensors() -> None:  # tflite-micro has no memory for them
    graph = import_tflite(_viewed((2, 0), (0, 3)), "model")
    found = run_graph(graph, "main", {"x": np.zeros((2, 0), np.int8)})
    assert found["o"].shape == (0, 3)


@pytest.mark.parametrize("scale", [float("inf"), float("nan"), 0.0, -1.0])
def test_a_scale_that_nothing_computes_with_does_no_harm(scale: float) -> None:
    module = assert_bit_exact(_viewed((2, 3), (3, 2), scale))
    graph = module.graphs["main"]
    assert [v.type.quant for v in (*graph.params, *graph.results)] == [None, None]
    if scale == scale:
        assert_bit_exact(_joined(1, 2, scale))
