"""Sequences and optional values, whose elements the import knows, against ONNX's reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from harness import agree, model_of, run
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from sdk import onnx_backend
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.ir.module import Module
from sdk.errors import BuildError, UsageError
from sdk.frontends.base import ModelFile, OpenSizesError
from sdk.frontends.onnx import FRONTEND
from sdk.frontends.onnx.engine import OnnxRuntime
from sdk.frontends.onnx.importer import import_onnx

X = np.arange(24, dtype=np.float32).reshape(4, 6)
node = helper.make_node


def same(nodes: list[onnx.NodeProto], outputs: list[str], **numbers: int | list[int]) -> None:
    """Compares a model of the input x and integer constants with the reference."""
    given = {"x": X, **{k: np.array(v) for k, v in numbers.items()}}
    model = model_of(nodes, given, outputs, constants=list(numbers))
    _, got = run(model, {"x": X})
    for name, want in zip(outputs, ReferenceEvaluator(model).run(None, {"x": X}), strict=True):
        parts = want if isinstance(want, list) else None
        for k, one in enumerate(parts if parts is not None else [want]):
            agree(got[name if parts is None else f"{name}_{k}"], np.asarray(one))


def test_sequences_are_taken_apart() -> None:
    made = [node("Neg", ["x"], ["n"]), node("SequenceConstruct", ["x", "n"], ["s"])]
    made += [node("SequenceInsert", ["s", "x", "zero"], ["t"]), node("SequenceErase", ["t", "minus"], ["u"])]
    made += [node("SequenceLength", ["t"], ["l"]), node("SequenceAt", ["t", "minus"], ["a"])]
    made += [node("ConcatFromSequence", ["t"], ["c"], axis=1), node("ConcatFromSequence", ["u"], ["d"], axis=-1,
                                                                    new_axis=1)]  # fmt: skip
    same(made, ["u", "l", "a", "c", "d"], zero=0, minus=-1)


@pytest.mark.parametrize("sizes", [None, 4, 6, [1, 5], [2, 0, 4]])
@pytest.mark.parametrize("keep", [0, 1])
def test_splits(sizes: int | list[int] | None, keep: int) -> None:
    one = node("SplitToSequence", ["x"] if sizes is None else ["x", "k"], ["s"], axis=1, keepdims=keep)
    same([one], ["s"], **({} if sizes is None else {"k": sizes}))


def test_a_sequence_grows_in_a_loop() -> None:
    text = """
    agraph (float[4, 6] x) => (float[n, 4, 6] y) {
      count = Constant <value_int = 3> ()
      yes = Constant <value = bool {1}> ()
      none = SequenceEmpty ()
      all = Loop (count, yes, none) <body = step (int64 i, bool c, seq(float) s) => (bool d, seq(float) t) {
        d = Identity (c)
        f = Cast <to = 1> (i)
        p = Add (x, f)
        t = SequenceInsert (s, p)
      }>
      y = ConcatFromSequence <axis = 0, new_axis = 1> (all)
    }"""
    graph = onnx.parser.parse_graph(text)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    np.testing.assert_array_equal(run(model, {"x": X})[1]["y"], np.stack([X, X + 1, X + 2]))


SUMMED = """agraph (seq(float[n, 2]) s, float[2] x) => (float[m, 2] y, seq(float[k, 2]) z, int64 count) {
  count = SequenceLength (s)
  minus = Constant <value_int = -1> ()
  last = SequenceAt (s, minus)
  z = SequenceInsert (s, last)
  all = ConcatFromSequence <axis = 0> (s)
  y = Add (all, x)
}"""


def with_sequence(**dims: int | tuple[int, int]) -> tuple[ModelFile, Module]:
    made = helper.make_model(
        onnx.parser.parse_graph(SUMMED), opset_imports=[helper.make_opsetid("", 18)], ir_version=10
    )
    file = ModelFile(Path("m.onnx"), made.SerializeToString(), FRONTEND)
    return file, import_onnx(made, "m", dims=dims)


@pytest.mark.parametrize(
    ("sizes", "dims"),
    [((3, 3), {"n": 3}), ((2,), {"n": (1, 4)}), ((1, 4, 2), {"s_0_n": 1, "s_1_n": (1, 5), "s_2_n": (1, 3)})],
)
def test_sequences_as_inputs(sizes: tuple[int, ...], dims: dict[str, int | tuple[int, int]]) -> None:
    file, module = with_sequence(s_length=len(sizes), **dims)
    given = {f"s_{k}": np.full((n, 2), k + n, np.float32) for k, n in enumerate(sizes)} | {"x": X[0, :2]}
    wanted = OnnxRuntime(file, module.graphs["main"]).step(given, {})
    found = run_graph(module, "main", given)
    assert list(found) == list(wanted) == ["y", *(f"z_{k}" for k in range(len(sizes) + 1)), "count"]
    for name, want in wanted.items():
        agree(np.asarray(found[name]), want)


def test_how_long_a_sequence_is_must_be_said() -> None:
    with pytest.raises(OpenSizesError, match="n, s_length"):
        with_sequence()
    with pytest.raises(UsageError, match=r"cannot lie in 1\.\.3") as caught:
        with_sequence(s_length=(1, 3), n=2)
    assert caught.value.why == "a sequence has one number of elements, up to 1024"
    with pytest.raises(UsageError, match="no dim other"):
        with_sequence(s_length=2, n=2, other=1)
    text = SUMMED.replace("float[2] x", "float[2] s_1").replace("all, x", "all, s_1")
    model = helper.make_model(onnx.parser.parse_graph(text), opset_imports=[helper.make_opsetid("", 18)])
    with pytest.raises(BuildError, match="two inputs are called 's_1'"):
        import_onnx(model, "m", dims={"s_length": 2, "n": 2})


def test_the_backend_takes_lists() -> None:
    model = helper.make_model(
        onnx.parser.parse_graph(SUMMED), opset_imports=[helper.make_opsetid("", 18)], ir_version=10
    )
    rows = [np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)]
    y, z, count = onnx_backend.prepare(model, dims={"n": 2}).run([rows, X[0, :2]])
    np.testing.assert_array_equal(y, np.concatenate(rows) + X[0, :2])
    assert [a.sum() for a in z] == [4, 0, 0]
    assert count == 2


def test_optional_inputs_are_there() -> None:
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, [4, 6])
    inputs = [helper.make_value_info("x", helper.make_optional_type_proto(kind))]
    outputs = [onnx.ValueInfoProto(name=n) for n in ("h", "y")]
    made = [node("OptionalHasElement", ["x"], ["h"]), node("OptionalGetElement", ["x"], ["e"])]
    made.append(node("Neg", ["e"], ["y"]))
    graph = helper.make_graph(made, "g", inputs, outputs)
    _, got = run(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), {"x": X})
    assert got["h"]
    np.testing.assert_array_equal(got["y"], -X)


def test_a_sequence_is_no_tensor() -> None:
    made = [node("SequenceConstruct", ["x", "x"], ["s"]), node("Shape", ["s"], ["y"])]
    with pytest.raises(BuildError, match="one of its inputs is a sequence, or an optional value that is not there"):
        import_onnx(model_of(made, {"x": X}, ["y"]), "m")
    made = [node("SequenceConstruct", ["x"], ["s"]), node("SequenceAt", ["s", "k"], ["y"])]
    with pytest.raises(BuildError, match="position 1 in a sequence of 1"):
        import_onnx(model_of(made, {"x": X, "k": np.array(1)}, ["y"], constants=["k"]), "m")


def test_an_optional_value_that_is_not_there() -> None:
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [4, 6]))
    made = [node("Optional", [], ["o"], type=kind), node("OptionalHasElement", ["o"], ["y"])]
    model = model_of(made, {"x": X}, ["y"])
    assert not run(model, {"x": X})[1]["y"]
    model.graph.output[0].name = "o"
    with pytest.raises(BuildError, match="the output o is an optional value that is not there"):
        import_onnx(model, "m")
    made = [node("SequenceConstruct", ["x"], ["s"]), node("SequenceConstruct", ["s"], ["t"])]
    made.append(node("ConcatFromSequence", ["t"], ["y"], axis=0))
    stands = "a sequence or an optional value without one stands where a tensor is wanted"
    with pytest.raises(BuildError, match=stands):
        import_onnx(model_of(made, {"x": X}, ["y"]), "m")


def test_the_backend_gives_lists() -> None:
    made = [node("Identity", ["x"], ["w"]), node("SplitToSequence", ["x", "k"], ["s"], axis=0)]
    model = model_of(made, {"x": X, "k": np.array(3)}, [], constants=["k"])
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    model.graph.output.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 6]))
    model.graph.output.append(helper.make_value_info("s", helper.make_sequence_type_proto(kind)))
    w, s = onnx_backend.run_model(model, [X])
    np.testing.assert_array_equal(w, X)
    assert [a.shape for a in s] == [(3, 6), (1, 6)]
    np.testing.assert_array_equal(np.concatenate(s), X)
