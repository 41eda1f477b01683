"""What the ONNX importer itself does: sizes, shape arithmetic, functions, branches, loops, names, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from harness import agree, compare, model_of, one_node, reference, run
from onnx import TensorProto, helper

from sdk.compiler.ir.graph import Call, Value
from sdk.compiler.ir.module import Module
from sdk.compiler.sym import floordiv, prove_eq
from sdk.errors import BuildError, UsageError
from sdk.frontends.onnx.context import OnnxNode
from sdk.frontends.onnx.importer import InputsDecideError, import_onnx

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 4)).astype(np.float32)
node = helper.make_node


def calls(module: Module) -> list[str]:
    return [n.callee for n in module.graphs["main"].body if isinstance(n, Call)]


def chain(nodes: list[Any], dims: dict[str, Any] | None = None, sizes: tuple[Any, ...] = ("b", 3, "n"),
          output: str = "y", x: np.ndarray = X, **constants: np.ndarray) -> Module:  # fmt: skip
    """Imports nodes on one input ``x``, compares with onnxruntime at its sizes."""
    inputs = {"x": x, **constants}
    model = model_of(nodes, inputs, [output], constants=list(constants), shapes={"x": sizes})
    module, got = run(model, inputs, dims or {"b": (1, 4), "n": (1, 16)})
    agree(got[output], np.asarray(reference(model, inputs)[output]))
    return module


# -- sizes ----


def test_open_sizes_need_bounds_and_all_are_named() -> None:
    model = one_node("Relu", {"x": X}, shapes={"x": ["batch", 3, None]})
    with pytest.raises(UsageError) as error:
        import_onnx(model, "m")
    assert "batch, x_dim2" in error.value.message
    assert "--dim batch=1:64 --dim x_dim2=1:64" in str(error.value)


def test_sizes_become_dims_or_numbers() -> None:
    model = one_node("Relu", {"x": X}, shapes={"x": ["batch", 3, None]})
    main = import_onnx(model, "m", dims={"batch": 4, "x_dim2": (8, 64, 8)}).graphs["main"]
    assert [(v.name, v.lo, v.hi, v.multiple) for v in main.dims] == [("x_dim2", 8, 64, 8)]
    assert main.params[0].type.shape[:2] == (4, 3)


def test_inputs_share_a_size_and_sizes_follow_from_others() -> None:
    shapes = {"a": ["n"], "b": ["2*n"], "c": ["n + 1"]}
    inputs = {k: np.zeros(2, np.float32) for k in shapes}
    model = model_of([node("Concat", ["a", "b", "c"], ["y"], axis=0)], inputs, ["y"], shapes=shapes)
    main = import_onnx(model, "m", dims={"n": (1, 8)}).graphs["main"]
    assert len(main.dims) == 1
    assert str(main.results[0].type.shape[0]) == "4*n + 1"


def test_unknown_dims_are_refused() -> None:
    model = one_node("Relu", {"x": X}, shapes={"x": ["batch", 3, 4]})
    with pytest.raises(UsageError, match="no dim seq"):
        import_onnx(model, "m", dims={"batch": 1, "seq": 3})


# -- arithmetic on sizes ----


def test_shape_arithmetic_leaves_no_run_time_work() -> None:
    module = chain(
        [
            node("Shape", ["x"], ["s"]),
            node("Gather", ["s", "zero"], ["b"]),
            node("Gather", ["s", "two"], ["n"]),
            node("Mul", ["n", "three"], ["m"]),
            node("Unsqueeze", ["b", "axes"], ["b1"]),
            node("Unsqueeze", ["m", "axes"], ["m1"]),
            node("Concat", ["b1", "m1"], ["shape"], axis=0),
            node("Reshape", ["x", "shape"], ["y"]),
        ],
        zero=np.array(0), two=np.array(2), three=np.array(3), axes=np.array([0]),
    )  # fmt: skip
    assert calls(module) == ["reshape"]
    assert [str(d) for d in module.graphs["main"].results[0].type.shape] == ["b", "3*n"]


def test_expand_by_where_as_exporters_write_it() -> None:
    module = chain(
        [
            node("Shape", ["x"], ["s"]),
            node("Gather", ["s", "two"], ["n"]),
            node("Concat", ["five", "n"], ["raw"], axis=0),
            node("Equal", ["raw", "minus"], ["open"]),
            node("Where", ["open", "ones", "raw"], ["shape"]),
            node("Slice", ["x", "zero", "one", "zero"], ["first"]),
            node("Slice", ["first", "zero", "one", "one"], ["row"]),
            node("Squeeze", ["row", "both"], ["flat"]),
            node("Expand", ["flat", "shape"], ["y"]),
        ],
        two=np.array([2]), five=np.array([5]), minus=np.array([-1]), ones=np.array([1, 1]), zero=np.array([0]),
        one=np.array([1]), both=np.array([0, 1]),
    )  # fmt: skip
    assert calls(module).count("broadcast_to") == 1
    assert "where" not in calls(module)


def test_sizes_as_data() -> None:
    chain(
        [
            node("Shape", ["x"], ["s"]),
            node("Gather", ["s", "two"], ["n"]),
            node("Range", ["zero", "n", "one"], ["row"]),
            node("Add", ["row", "n"], ["y"]),
        ],
        two=np.array(2), zero=np.array(0), one=np.array(1),
    )  # fmt: skip
    chain([node("Shape", ["x"], ["y"])])
    chain([node("Size", ["x"], ["y"])])


def test_float_detours_of_sizes_are_exact() -> None:
    module = chain(
        [
            node("Shape", ["x"], ["s"]),
            node("Slice", ["s", "two", "three"], ["n"]),
            node("Cast", ["n"], ["f"], to=TensorProto.FLOAT),
            node("Mul", ["f", "half"], ["g"]),
            node("Floor", ["g"], ["h"]),
            node("Cast", ["h"], ["k"], to=TensorProto.INT64),
            node("Slice", ["x", "zero", "k", "two"], ["y"]),
        ],
        {"b": 2, "n": (2, 16)},
        two=np.array([2]), three=np.array([3]), half=np.array([0.5], np.float32), zero=np.array([0]),
    )  # fmt: skip
    main = module.graphs["main"]
    assert prove_eq(main.results[0].type.shape[2], floordiv(main.dims[0].expr, 2)) is True


def test_reductions_and_comparisons_of_sizes() -> None:
    module = chain(
        [
            node("Shape", ["x"], ["s"]),
            node("ReduceProd", ["s"], ["all"]),
            node("Reshape", ["x", "all"], ["y"]),
        ]
    )
    assert calls(module) == ["reshape"]


def test_numbers_fold_through_any_operator() -> None:
    inputs = {"x": X, "base": np.array([2, 3, 4]), "power": np.array([1, 1, 1])}
    model = model_of(
        [node("Pow", ["base", "power"], ["shape"]), node("Reshape", ["x", "shape"], ["y"])],
        inputs, ["y"], constants=["base", "power"],
    )  # fmt: skip
    module, _ = run(model, inputs)
    assert calls(module) == ["reshape"]


# -- refusals ----


def test_every_unsupported_node_is_reported_with_its_name() -> None:
    nodes = [node("Nonsense", ["x"], ["a"], name="first"), node("Relu", ["a"], ["b"]),
             node("Strange", ["b"], ["y"], name="second", domain="my.own")]  # fmt: skip
    model = model_of(nodes, {"x": X}, ["y"], domain="my.own")
    with pytest.raises(BuildError) as error:
        import_onnx(model, "m")
    assert "2 nodes" in error.value.message
    assert "node 0 Nonsense first: unsupported operator Nonsense" in str(error.value)
    assert "node 2 Strange second: unsupported operator my.own::Strange" in str(error.value)
    assert "--custom" in str(error.value)


def test_custom_operators() -> None:
    def strange(n: OnnxNode) -> Value:
        return n.call("mul", n.x(0), n.scalar(n.float("by"), n.type(0)))

    model = model_of([node("Strange", ["x"], ["y"], domain="my.own", by=2.0)], {"x": X}, ["y"], domain="my.own")
    module = import_onnx(model, "m", custom_ops={"my.own::Strange": strange})
    assert calls(module) == ["mul"]


@pytest.mark.parametrize("wanted", [[5, 5], [-1, 7], [2, -1, -1], [0, 0, 0, 0], [-2, 12]])
def test_shapes_that_cannot_hold(wanted: list[int]) -> None:
    model = one_node("Reshape", {"x": X, "s": np.array(wanted)}, constants=["s"])
    with pytest.raises(BuildError, match="the_Reshape"):
        import_onnx(model, "m")


def test_a_reshape_that_may_not_hold() -> None:
    shapes = {"x": ["n", 3]}
    model = one_node("Reshape", {"x": X[0, :, :3], "s": np.array([4, -1])}, constants=["s"], shapes=shapes)
    with pytest.raises(BuildError, match="not known to divide by 4"):
        import_onnx(model, "m", dims={"n": (1, 8)})
    assert import_onnx(model, "m", dims={"n": (4, 8, 4)})


def test_sizes_that_must_be_equal() -> None:
    shapes = {"a": [2, "n"], "b": ["m", 2]}
    inputs = {k: np.zeros((2, 2), np.float32) for k in shapes}
    model = model_of([node("MatMul", ["a", "b"], ["y"], name="product")], inputs, ["y"], shapes=shapes)
    with pytest.raises(BuildError) as error:
        import_onnx(model, "m", dims={"n": (2, 8), "m": (2, 9)})
    assert "MatMul product" in str(error.value)


def test_inputs_that_decide_shapes() -> None:
    model = one_node("Reshape", {"x": X, "s": np.array([4, 6])})
    with pytest.raises(InputsDecideError) as error:
        import_onnx(model, "m")
    assert error.value.inputs == ("s",)
    module = import_onnx(model, "m", fixed={"s": np.array([4, 6])})
    assert [p.name for p in module.graphs["main"].params] == ["x"]
    with pytest.raises(UsageError, match="the input s"):
        import_onnx(model, "m", fixed={"s": np.array([4.0, 6.0])})


# -- functions, branches, loops ----


def test_operators_that_onnx_defines_by_others() -> None:
    compare("MeanVarianceNormalization", {"x": RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)}, opset=13)
    compare("AffineGrid", {"t": RNG.standard_normal((2, 2, 3)).astype(np.float32), "s": np.array([2, 1, 3, 4])},
            constants=["s"], opset=20, against="onnx")  # fmt: skip


def test_functions_of_the_model() -> None:
    body = [
        node("Constant", [], ["k"], value=helper.make_tensor("k", TensorProto.FLOAT, [], [2.0])),
        node("Mul", ["a", "k"], ["t"]),
        onnx.helper.make_node("Softmax", ["t"], ["b"]),
    ]
    attribute = body[2].attribute.add()
    attribute.name, attribute.ref_attr_name, attribute.type = "axis", "where", onnx.AttributeProto.INT
    function = helper.make_function("my.own", "Twice", ["a"], ["b"], body, [helper.make_opsetid("", 18)], ["where"])
    model = model_of([node("Twice", ["x"], ["y"], name="outer", domain="my.own", where=1)], {"x": X}, ["y"],
                     domain="my.own")  # fmt: skip
    model.functions.append(function)
    module, got = run(model, {"x": X})
    e = np.exp(2 * X - (2 * X).max(1, keepdims=True))
    agree(got["y"], e / e.sum(1, keepdims=True))
    assert {n.source for n in module.graphs["main"].body if isinstance(n, Call)} == {"Twice outer"}


def branch(op: str, name: str) -> onnx.GraphProto:
    return helper.make_graph([node(op, ["x"], [name])], name, [], [onnx.ValueInfoProto(name=name)])


def test_a_branch_chosen_at_import() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]), node("Gather", ["s", "one"], ["n"]), node("Equal", ["n", "three"], ["c"]),
        node("If", ["c"], ["y"], then_branch=branch("Relu", "p"), else_branch=branch("Neg", "q")),
    ]  # fmt: skip
    assert calls(chain(nodes, one=np.array(1), three=np.array(3))) == ["relu"]


def test_a_branch_chosen_at_run_time() -> None:
    nodes = [
        node("ReduceMax", ["x"], ["m"], keepdims=0), node("Greater", ["m", "limit"], ["c"]),
        node("If", ["c"], ["y"], then_branch=branch("Relu", "p"), else_branch=branch("Neg", "q")),
    ]  # fmt: skip
    for limit in (0.0, 100.0):
        chain(nodes, limit=np.array(limit, np.float32))


def test_loops_of_a_known_count_are_written_out() -> None:
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [node("Identity", ["go"], ["more"]), node("Mul", ["v", "x"], ["w"]), node("ReduceSum", ["w", "axes"], ["r"])],
        "body",
        [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("v", TensorProto.FLOAT, [2, 3, 4])],
        [info("more", TensorProto.BOOL, []), info("w", TensorProto.FLOAT, None), info("r", TensorProto.FLOAT, None)],
    )
    nodes = [node("Loop", ["count", "go_on", "x"], ["last", "rows"], body=body)]
    inputs = {"x": X, "count": np.array(3), "go_on": np.array(True), "axes": np.array([1])}
    model = model_of(nodes, inputs, ["last", "rows"], constants=["count", "go_on", "axes"])
    _, got = run(model, inputs)
    for name, want in reference(model, inputs).items():
        agree(got[name], np.asarray(want))


# -- names ----


def test_outputs_keep_their_names() -> None:
    inputs = {"x": X, "w": np.ones(3, np.float32)}
    nodes = [node("Identity", ["x"], ["same"]), node("Relu", ["x"], ["one"]), node("Identity", ["one"], ["two"]),
             node("Shape", ["x"], ["shape"])]  # fmt: skip
    names = ["same", "one", "two", "shape", "w"]
    model = model_of(nodes, inputs, names, constants=["w"])
    _, got = run(model, inputs)
    assert list(got) == ["same", "one", "two", "shape", "w_out"] or list(got) == names
    agree(got["two"], np.maximum(X, 0))


def test_calls_name_their_node() -> None:
    model = one_node("Relu", {"x": X})
    main = import_onnx(model, "m").graphs["main"]
    assert [n.source for n in main.body if isinstance(n, Call)] == ["Relu the_Relu"]
