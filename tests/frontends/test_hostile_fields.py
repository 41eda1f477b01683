"""Fields of .tflite files that contradict the rest, and ONNX nodes that do: refused with the tensor or node named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tflite_files import ModelFile

from sdk.errors import BuildError
from sdk.frontends.tflite.importer import import_tflite


def add() -> ModelFile:
    m = ModelFile()
    a = m.input("a", (1, 4), "int8", 0.5, 0)
    b = m.tensor("b", (1, 4), "int8", 0.25, 1)
    y = m.output("y", (1, 4), "int8", 0.5, 0)
    m.op("RELU", [a], [b])
    m.op("ADD", [a, b], [y], "AddOptions", FusedActivationFunction=0)
    return m


def conv() -> ModelFile:
    m = ModelFile()
    x = m.input("x", (1, 6, 6, 2), "int8", 0.5, 0)
    w = m.const("w", [[[[1, 2]] * 3] * 3] * 4, "int8", scale=[0.1] * 4)
    b = m.const("b", [1, 2, 3, 4], "int32", scale=[0.05] * 4)
    y = m.output("y", (1, 4, 4, 4), "int8", 0.5, 0)
    m.op("CONV_2D", [x, w, b], [y], "Conv2DOptions", Padding=1, StrideH=1, StrideW=1, DilationHFactor=1,
         DilationWFactor=1, FusedActivationFunction=0)  # fmt: skip
    return m


def moved(op: str, numbers: list[int], shape: tuple[int, ...], options: str = "", **given: Any) -> ModelFile:
    """``op`` with one list of numbers on a tensor [2, 3, 4]."""
    m = ModelFile()
    x = m.input("x", (2, 3, 4), "int8", 0.5, 0)
    n = m.const("n", numbers)
    y = m.output("y", shape, "int8", 0.5, 0)
    m.op(op, [x, n], [y], options, **given)
    return m


def option(name: str, value: int) -> Callable[[ModelFile], None]:
    return lambda m: m.operators[0].fields.__setitem__(name, value)


def tensor(k: int, name: str, value: Any) -> Callable[[ModelFile], None]:
    return lambda m: setattr(m.tensors[k], name, value)


def operator(name: str, value: Any, k: int = 0) -> Callable[[ModelFile], None]:
    return lambda m: setattr(m.operators[k], name, value)


def other_options(m: ModelFile) -> None:
    """Options of another operator in place of those that it reads."""
    m.operators[0].options = "Pool2DOptions"
    m.operators[0].fields = {"StrideH": 1, "StrideW": 1}


def refused(m: ModelFile) -> str:
    with pytest.raises(BuildError) as error:
        import_tflite(m.build(), "m")
    return str(error.value)


def test_what_is_changed_below_is_whole() -> None:
    for m in (add(), conv(), moved("TRANSPOSE", [2, 0, 1], (4, 2, 3)), moved("RESHAPE", [6, 4], (6, 4))):
        assert import_tflite(m.build(), "m").graphs["main"].body


@pytest.mark.parametrize("name", ["StrideH", "DilationWFactor"])
@pytest.mark.parametrize("value", [0, -1, -(1 << 31), (1 << 31) - 1])
def test_windows(name: str, value: int) -> None:
    m = conv()
    option(name, value)(m)
    assert "CONV_2D -> y" in refused(m)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (operator("inputs", [0, 1, 99]), "number 99 of 4"),
        (operator("inputs", [0, 1, -2]), "number -2 of 4"),
        (operator("inputs", [0, -1, 2]), "CONV_2D -> y"),
        (operator("inputs", [-1, 1, 2]), "CONV_2D -> y"),
        (operator("inputs", [0, 1, 2, 2]), "4 inputs, CONV_2D at most 3"),
        (operator("inputs", []), "CONV_2D"),
        (operator("inputs", [3, 1, 2]), "y"),
        (operator("outputs", []), "CONV_2D"),
        (operator("outputs", [7]), "number 7 of 4"),
        (operator("outputs", [0]), "x"),
        (operator("outputs", [1]), "w"),
        (other_options, "CONV_2D -> y: the option"),
        (operator("options", ""), "CONV_2D -> y: the option"),
        (operator("code", 200), "unsupported operator"),
        (tensor(0, "shape", (1, 6, -6, 2)), "tensor x"),
        (tensor(0, "shape", (1, 1 << 30, 1 << 30, 2)), "tensor x"),
        (tensor(0, "shape", (1,) * 9), "tensor x"),
        (tensor(0, "shape", (6, 6, 2)), "CONV_2D -> y"),
        (tensor(1, "shape", (4, 3, 3, 3)), "w has 72 bytes"),
        (tensor(1, "scales", [0.1] * 3), "tensor w has 3 scales"),
        (tensor(1, "zero_points", [0] * 3), "w"),
        (tensor(1, "axis", 3), "CONV_2D -> y"),
        (tensor(1, "axis", -9), "CONV_2D -> y"),
        (tensor(1, "axis", (1 << 31) - 1), "CONV_2D -> y"),
        (tensor(2, "shape", (2, 3)), "b has"),
        (tensor(3, "shape", (1, 4, 4, 5)), "y"),
        (tensor(3, "scales", []), "y"),
        (tensor(3, "zero_points", [1 << 40]), "y"),
        (tensor(0, "type", 5), "x"),  # STRING
        (tensor(0, "type", 99), "x"),
    ],
)
def test_contradictions(change: Callable[[ModelFile], None], words: str) -> None:
    m = conv()
    change(m)
    assert words in refused(m)


def test_an_operator_without_outputs_is_refused() -> None:
    m = add()
    m.operators[0].outputs = []
    refused(m)


def test_operators_in_a_cycle() -> None:
    m = add()
    m.operators[0].inputs = [2]
    assert "used before it is computed" in refused(m)


def test_two_operators_that_make_one_tensor() -> None:
    m = add()
    m.op("RELU", [0], [1])
    text = refused(m)
    assert "node 2 RELU -> b" in text
    assert "is an input of the model or computed before" in text


def test_no_operators_and_no_outputs() -> None:
    m = ModelFile()
    m.input("x", (1, 4), "int8", 0.5, 0)
    assert "output" in refused(m)


def test_inits_that_refer_to_one_another() -> None:
    def init(target: int) -> ModelFile:
        m = ModelFile()
        m.op("CALL_ONCE", [], [], "CallOnceOptions", InitSubgraphIndex=target)
        return m

    main = add()
    main.op("CALL_ONCE", [], [], "CallOnceOptions", InitSubgraphIndex=1)
    with pytest.raises(BuildError, match="CALL_ONCE in the init subgraph"):
        import_tflite(main.build(init(2), init(1)), "m")


@pytest.mark.parametrize(
    ("op", "numbers", "shape"),
    [
        ("TRANSPOSE", [0, 0, 1], (2, 2, 3)),
        ("TRANSPOSE", [0, 1], (2, 3, 4)),
        ("TRANSPOSE", [0, 1, 3], (2, 3, 4)),
        ("TRANSPOSE", [0, 1, -(1 << 31)], (2, 3, 4)),
        ("RESHAPE", [5, 5], (5, 5)),
        ("RESHAPE", [-1, -1], (6, 4)),
        ("RESHAPE", [1 << 30, 1 << 30], (6, 4)),
        ("RESHAPE", [-5, 24], (6, 4)),
        ("PAD", [1, 1], (2, 3, 4)),
        ("PAD", [0, 0, 0, 0, 0, -1], (2, 3, 3)),
        ("PAD", [0, 0, 0, 0, 0, (1 << 31) - 1], (2, 3, 4)),
        ("MEAN", [7], (2, 3)),
        ("MEAN", [-9], (2, 3)),
    ],
)
def test_numbers_out_of_range(op: str, numbers: list[int], shape: tuple[int, ...]) -> None:
    options = {"MEAN": {"options": "ReducerOptions", "KeepDims": 0}}.get(op, {})
    assert f"node 0 {op} -> y" in refused(moved(op, numbers, shape, **options))
