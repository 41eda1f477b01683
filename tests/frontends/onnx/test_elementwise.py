"""Elementwise, comparing and converting operators: every node case of ONNX, and what those do not reach."""

from __future__ import annotations

import numpy as np
import pytest
from node_cases import cases_of, check
from onnx import TensorProto, helper

from sdk.compiler.interp.graph import run_graph
from sdk.errors import BuildError
from sdk.frontends.onnx.importer import import_onnx

ELEMENTWISE = (
    "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Celu Clip "
    "Cos Cosh Div Elu Erf Exp Floor Gelu HardSigmoid HardSwish LeakyRelu Log Max Mean Min Mish Mod Mul Neg Or PRelu "
    "Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum SwiGLU Swish Tan Tanh "
    "ThresholdedRelu Xor BitCast Cast CastLike Equal Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Where"
)


@pytest.mark.parametrize("name", cases_of(*ELEMENTWISE.split()))
def test_node_case(name: str) -> None:
    check(name)


def run(op: str, *arrays: np.ndarray, opset: int = 18, known: tuple[int, ...] = (), **given: object) -> np.ndarray:
    """One node of ``op``; the inputs ``known`` are constants of the model."""
    names = [f"x{k}" for k in range(len(arrays))]
    kinds = [helper.np_dtype_to_tensor_dtype(a.dtype) for a in arrays]
    params = [helper.make_tensor_value_info(n, k, a.shape) for n, k, a in zip(names, kinds, arrays, strict=True)]
    consts = [
        helper.make_tensor(n, k, a.shape, a.reshape(-1)) for n, k, a in zip(names, kinds, arrays, strict=True)
    ]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **given)],
        "g",
        [p for k, p in enumerate(params) if k not in known],
        [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)],
        [consts[k] for k in known],
    )
    module = import_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]), "m")
    inputs = {n: a for k, (n, a) in enumerate(zip(names, arrays, strict=True)) if k not in known}
    return run_graph(module, "main", inputs)["y"]


X = np.linspace(-3, 3, 24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize("op", ["Not"])
def test_not(op: str) -> None:
    np.testing.assert_array_equal(run(op, X > 0), X <= 0)


@pytest.mark.parametrize(
    ("exponent", "wanted"),
    [
        (2.0, X * X),
        (3.0, X * X * X),
        (1.0, X),
        (0.5, np.sqrt(np.abs(X))),
        (-1.0, 1 / X),
        (-0.5, 1 / np.sqrt(np.abs(X))),
    ],
)
def test_powers_known_at_import(exponent: float, wanted: np.ndarray) -> None:
    x = np.abs(X) if exponent % 1 else X
    got = run("Pow", x, np.array(exponent, dtype=np.float32), known=(1,))
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_a_power_of_integers_by_a_float_is_truncated() -> None:
    got = run("Pow", np.array([2, 3, 5], dtype=np.int32), np.array([0.5, 2, 3], dtype=np.float32))
    np.testing.assert_array_equal(got, np.array([1, 9, 125], dtype=np.int32))


@pytest.mark.parametrize(
    ("op", "opset", "limits", "given", "wanted"),
    [
        ("Clip", 10, (), {"min": -1.0, "max": 2.0}, np.clip(X, -1, 2)),
        ("Clip", 10, (), {}, X),
        ("Clip", 13, (-1.0, 2.0), {}, np.clip(X, -1, 2)),
        ("Clip", 13, (0.0,), {}, np.maximum(X, 0)),
        ("Clip", 13, (-0.5,), {}, np.maximum(X, -0.5)),
    ],
)
@pytest.mark.parametrize("baked", [True, False])
def test_clip(
    op: str, opset: int, limits: tuple[float, ...], given: dict[str, float], wanted: np.ndarray, baked: bool
) -> None:
    arrays = [X, *(np.array(v, dtype=np.float32) for v in limits)]
    known = tuple(range(1, len(arrays))) if baked else ()
    np.testing.assert_array_equal(run(op, *arrays, opset=opset, known=known, **given), wanted)


def test_prelu_of_one_slope_is_a_leaky_relu() -> None:
    got = run("PRelu", X, np.array([0.25], dtype=np.float32), known=(1,))
    np.testing.assert_allclose(got, np.where(X < 0, X * np.float32(0.25), X))


LOW32, LOW64 = -(1 << 31), -(1 << 63)


@pytest.mark.parametrize(
    ("to", "wanted"),
    [
        (TensorProto.INT8, [0, 0, 0, 0, 0, 44, -44, -1]),
        (TensorProto.UINT8, [0, 0, 0, 0, 0, 44, 212, 255]),
        (TensorProto.UINT16, [0, 0, 0, 0, 0, 300, 65236, 65535]),
        (TensorProto.INT32, [LOW32, LOW32, LOW32, LOW32, LOW32, 300, -300, -1]),
        (TensorProto.UINT32, [0, 0, 0, 0, 0, 300, (1 << 32) - 300, (1 << 32) - 1]),
        (TensorProto.INT64, [LOW64, LOW64, LOW64, LOW64, LOW64, 300, -300, -1]),
        (TensorProto.UINT64, [1 << 63, 0, 1 << 63, 0, 1 << 63, 300, (1 << 64) - 300, (1 << 64) - 1]),
    ],
)
def test_casts_of_floats_beyond_an_integer_type_are_those_of_onnxruntime(to: int, wanted: list[int]) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e20, -1e20, 300.7, -300.7, -1.9], dtype=np.float32)
    kind = helper.tensor_dtype_to_np_dtype(to)
    np.testing.assert_array_equal(run("Cast", x, to=to), np.array(wanted, dtype=kind))


def test_a_conversion_to_a_foreign_type_is_refused() -> None:
    with pytest.raises(BuildError) as caught:
        run("Cast", X, to=TensorProto.STRING, opset=19)
    assert "string" in (caught.value.where or "")


def test_integer_division_by_zero_is_zero() -> None:
    a, b = np.array([7, -7, -(2**31), 5], dtype=np.int32), np.array([2, 2, -1, 0], dtype=np.int32)
    np.testing.assert_array_equal(run("Div", a, b), np.array([3, -3, -(2**31), 0], dtype=np.int32))
