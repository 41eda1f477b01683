"""Sequences and optional values, whose elements the import knows, against ONNX's reference."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from harness import agree, model_of, run
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from sdk import onnx_backend
from sdk.errors import BuildError
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
