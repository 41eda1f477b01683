"""Element types narrower than ours: conversions against ml_dtypes on every kind of value, and what is refused."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from harness import model_of, one_node, run
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from sdk import onnx_backend
from sdk.errors import BuildError
from sdk.frontends.onnx.importer import import_onnx

FLOATS = ["BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT4E2M1"]
LARGEST = {"FLOAT8E4M3FN": 448, "FLOAT8E4M3FNUZ": 240, "FLOAT8E5M2": 57344, "FLOAT8E5M2FNUZ": 57344, "FLOAT4E2M1": 6}


def samples() -> np.ndarray:
    rng = np.random.default_rng(0)
    spread = rng.standard_normal(4000) * 2.0 ** rng.integers(-20, 16, 4000)
    exact = np.ldexp(rng.integers(-64, 64, 2000), rng.integers(-16, 8, 2000))  # with many ties
    return np.concatenate([spread, exact, [0.0, -0.0]]).astype(np.float32)


@pytest.mark.parametrize("name", FLOATS)
def test_rounding_to_small_floats(name: str) -> None:
    code = TensorProto.DataType.Value(name)
    x = samples()
    if name in LARGEST:
        x = np.clip(x, -LARGEST[name], LARGEST[name])
    _, got = run(one_node("Cast", {"x": x}, to=code, opset=23), {"x": x})
    np.testing.assert_array_equal(got["y"], x.astype(helper.tensor_dtype_to_np_dtype(code)).astype(np.float32))


@pytest.mark.parametrize(("saturate", "want"), [(1, [448, -448, 448, np.nan]), (0, [np.nan] * 4)])
def test_beyond_the_largest(saturate: int, want: list[float]) -> None:
    x = np.array([1e6, -1e6, np.inf, np.nan], np.float32)
    model = one_node("Cast", {"x": x}, to=TensorProto.FLOAT8E4M3FN, saturate=saturate, opset=23)
    np.testing.assert_array_equal(run(model, {"x": x})[1]["y"], np.array(want, np.float32))


@pytest.mark.parametrize("name", ["INT4", "UINT4"])
@pytest.mark.parametrize("kind", [np.float32, np.int32, np.uint8])
def test_low_bits(name: str, kind: type) -> None:
    code = TensorProto.DataType.Value(name)
    x = np.arange(0 if kind is np.uint8 else -40, 40).astype(kind)
    _, got = run(one_node("Cast", {"x": x}, to=code, opset=23), {"x": x})
    narrow = helper.tensor_dtype_to_np_dtype(code)
    np.testing.assert_array_equal(got["y"], x.astype(np.int32).astype(narrow).astype(np.int32))


def test_weights_of_four_bits() -> None:
    x = np.arange(12).reshape(3, 4).astype(np.float32)
    weights = helper.make_tensor("w", TensorProto.INT4, [4, 2], [1, -2, 3, -4, 5, -6, 7, -8])
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["d"]), helper.make_node("MatMul", ["x", "d"], ["y"])]
    model = model_of(nodes, {"x": x, "s": np.array(0.5, np.float32)}, ["y"], constants=["s"], opset=21)
    model.graph.initializer.append(weights)
    _, got = run(model, {"x": x})
    want = x @ (np.array([1, -2, 3, -4, 5, -6, 7, -8], np.float32).reshape(4, 2) * 0.5)
    np.testing.assert_allclose(got["y"], want)


def test_arithmetic_in_eight_bit_floats_is_refused() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], to=TensorProto.FLOAT8E5M2),
        helper.make_node("Add", ["a", "a"], ["y"]),
    ]
    x = np.ones(1, np.float32)
    model = model_of(nodes, {"x": x}, ["y"], opset=21)
    with pytest.raises(BuildError, match="float8e5m2"):
        import_onnx(model, "m")


@pytest.mark.parametrize("name", [*FLOATS[1:], "INT4", "UINT4", "INT2", "UINT2"])
@pytest.mark.parametrize("block", [0, 2])
@pytest.mark.parametrize("how", ["initializer", "constant", "attribute"])
def test_quantising_to_narrow_types(name: str, block: int, how: str) -> None:
    code = TensorProto.DataType.Value(name)
    x = (samples()[:24] * 3).reshape(3, 8)
    scale = np.geomspace(0.25, 1.3, 12 if block else 8).astype(np.float32).reshape((3, 4) if block else 8)
    zero = np.zeros(scale.shape) if name.startswith("FLOAT") else np.arange(scale.size).reshape(scale.shape) % 2
    stored = helper.make_tensor("z", code, scale.shape, zero.reshape(-1).astype(np.float32).tolist())
    given = {"axis": 1, "block_size": block} if block else {"axis": 1}
    if how == "attribute":
        given["output_dtype"] = code
    first = ["x", "s"] if how == "attribute" else ["x", "s", "z"]
    nodes = [helper.make_node("QuantizeLinear", first, ["q"], **given)]
    given.pop("output_dtype", None)
    nodes.append(helper.make_node("DequantizeLinear", ["q", *first[1:]], ["y"], **given))
    if how == "constant":
        nodes.insert(0, helper.make_node("Constant", [], ["z"], value=stored))
    model = model_of(nodes, {"x": x, "s": scale}, ["q", "y"], constants=["s"], opset=25)
    model.ir_version = 13
    if how == "initializer":
        model.graph.initializer.append(stored)
    _, got = run(model, {"x": x})
    want = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_array_equal(got["q"].astype(np.float32), want[0].astype(np.float32))
    np.testing.assert_array_equal(got["y"], want[1])


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_powers_of_two(mode: str) -> None:
    exact = 2.0 ** np.arange(-149, 128)
    x = np.concatenate([exact, exact * 1.5, exact * 1.75, -exact, [0, np.inf, np.nan, 3e38]]).astype(np.float32)
    _, got = run(one_node("Cast", {"x": x}, to=TensorProto.FLOAT8E8M0, round_mode=mode, opset=24), {"x": x})
    want = numpy_helper.to_float8e8m0(x, True, mode).astype(np.float32)
    np.testing.assert_array_equal(got["y"], want)


def test_reals_in_the_type_that_the_node_states() -> None:
    x = np.arange(-4, 4, dtype=np.int8)
    s = np.array(0.3, np.float32)
    model = one_node("DequantizeLinear", {"x": x, "s": s}, constants=["s"], output_dtype=TensorProto.FLOAT16, opset=23)
    _, got = run(model, {"x": x})
    np.testing.assert_array_equal(got["y"], (x * s).astype(np.float16))


def test_the_backend_keeps_the_types_of_the_model() -> None:
    bfloat = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "x"], ["y"])],
        "square",
        [info("x", TensorProto.BFLOAT16, [3])],
        [info("y", TensorProto.BFLOAT16, [3])],
    )
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    (y,) = onnx_backend.run_model(model, [np.array([1.5, -2.0, 3.0], bfloat)])
    assert y.dtype == bfloat
    np.testing.assert_array_equal(y.astype(np.float32), [2.25, 4.0, 9.0])
