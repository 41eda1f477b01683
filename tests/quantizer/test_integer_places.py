"""Where integers begin and end: each operator with an integer kernel gets it, and is what onnxruntime computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from float_nets import net, node, run, sqnr
from onnx import helper

import sdk
from sdk.quantizer.engine import Engine

RNG = np.random.default_rng(0)


def reals(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


W, B, DW = reals(4, 3, 3, 3, scale=0.3), reals(4), reals(4, 1, 3, 3, scale=0.3)
CONV = node("Conv", "x w b", "c", pads=[1, 1, 1, 1])
RESIZE = helper.make_node("Resize", ["c", "", "scales"], ["y"], "y", mode="nearest", nearest_mode="floor",
                          coordinate_transformation_mode="asymmetric")  # fmt: skip
# What follows a convolution x -> c [1, 4, 8, 8], and the constants of that. The last tensor is the output.
TAILS: dict[str, tuple[list[onnx.NodeProto], dict[str, Any]]] = {
    "relu": ([node("Relu", "c", "y")], {}),
    "relu6": ([node("Clip", "c lo hi", "y")], {"lo": np.float32(0), "hi": np.float32(6)}),
    "normalised": (
        [node("BatchNormalization", "c s o m v", "n"), node("Relu", "n", "y")],
        {"s": reals(4) + 2, "o": reals(4), "m": reals(4), "v": np.ones(4, np.float32)},
    ),
    "residual": ([node("Relu", "c", "r"), node("Conv", "r w2", "d", kernel_shape=[1, 1]), node("Add", "d r", "a"),
                  node("Relu", "a", "y")], {"w2": reals(4, 4, 1, 1)}),
    "normalised sum": (
        [node("Add", "c c2", "a"), node("BatchNormalization", "a s o m v", "n"), node("Relu", "n", "y")],
        {"s": reals(4) + 2, "o": reals(4), "m": reals(4), "v": np.ones(4, np.float32)},
    ),
    "difference": ([node("Relu", "c", "r"), node("Sub", "c r", "y")], {}),
    "depthwise": ([node("Conv", "c dw", "d", group=4), node("HardSwish", "d", "y")], {"dw": DW}),
    "silu": ([node("Sigmoid", "c", "s"), node("Mul", "c s", "y")], {}),
    "written out": (
        [node("Mul", "c h", "t"), node("Tanh", "t", "u"), node("Add", "u one", "v"), node("Mul", "c v", "y")],
        {"h": np.float32(0.5), "one": np.float32(1)},
    ),
    "gate": (
        [node("GlobalAveragePool", "c", "g"), node("Conv", "g wg", "k"), node("Sigmoid", "k", "s"),
         node("Mul", "c s", "y")],
        {"wg": reals(4, 4, 1, 1)},
    ),
    "concat": ([node("Relu", "c", "r"), node("MaxPool", "c", "p", kernel_shape=[3, 3], pads=[1] * 4),
                node("Concat", "r p c", "y", axis=1)], {}),
    "pools": ([node("AveragePool", "c", "p", kernel_shape=[2, 2], strides=[2, 2]), node("MaxPool", "p", "y",
               kernel_shape=[2, 2], strides=[2, 2])], {}),
    "resize": ([RESIZE], {"scales": np.asarray([1, 1, 2, 2], np.float32)}),
    "moves": (
        [node("Pad", "c pads", "p"), node("Slice", "p begin end", "s"), node("Transpose", "s", "t", perm=[0, 2, 3, 1]),
         node("Flatten", "t", "f"), node("MatMul", "f wm", "m"), node("Add", "m bm", "y")],
        {"pads": np.asarray([0, 0, 1, 1, 0, 0, 1, 1]), "begin": np.asarray([0, 0, 1, 0]),
         "end": np.asarray([1, 4, 9, 9]), "wm": reals(288, 5, scale=0.1), "bm": reals(5)},
    ),
    "mean": ([node("ReduceMean", "c", "g", axes=[2, 3], keepdims=0), node("Gemm", "g wf bf", "y", transB=1, alpha=0.5,
              beta=2.0)], {"wf": reals(6, 4), "bf": reals(6)}),
    "constant tensor": ([node("Mul", "c k", "m"), node("Relu", "m", "y")], {"k": reals(1, 4, 8, 8)}),
    "split": ([node("Split", "c", "p q", axis=1), node("Sigmoid", "q", "s"), node("Mul", "p s", "y")], {}),
    "leaky": ([node("LeakyRelu", "c", "l", alpha=0.1), node("Conv", "l w2", "d"), node("Gelu", "d", "g"),
               node("Elu", "g", "y")], {"w2": reals(4, 4, 1, 1)}),
}  # fmt: skip


def model_of(name: str) -> onnx.ModelProto:
    nodes, constants = TAILS[name]
    more = [node("Conv", "x w3 b", "c2", pads=[1] * 4)] if any("c2" in n.input for n in nodes) else []
    extra = {"w3": reals(4, 3, 3, 3, scale=0.3)} if more else {}
    opset = 20 if name == "leaky" else 14
    return net([CONV, *more, *nodes], [1, 3, 8, 8], ["y"], opset, w=W, b=B, **extra, **constants)


@pytest.mark.parametrize("name", TAILS)
def test_every_layer_is_integers(name: str) -> None:
    model = model_of(name)
    samples = reals(8, 3, 8, 8)
    for to in ("int8", "int16x8"):
        made = sdk.quantize(model, {"x": samples}, to=to)
        engine = Engine(made.model, {"x": (1, 3, 8, 8)}, integers=True)
        if to == "int8":
            floats = {c.callee for c in engine.module.graphs["main"].body if c.out.type.dtype.is_float}
            assert floats <= {"dequantize", "reshape", "transpose"}, sorted(floats)
        one = samples[:1]
        want, theirs, ours = run(model, {"x": one})["y"], run(made.model, {"x": one})["y"], engine.run({"x": one})["y"]
        step = np.abs(want).max() / (127 if to == "int8" else 4000)
        assert np.abs(ours - theirs).max() <= 3.1 * step, "as onnxruntime, but for roundings"
        assert sqnr(want, ours) > 25, sqnr(want, ours)


def test_a_layer_kept_in_floats_is_computed_in_floats() -> None:
    samples = reals(4, 3, 8, 8)
    made = sdk.quantize(model_of("residual"), {"x": samples}, keep=["d"])
    kinds = {row.name: row.type for row in made.report.rows}
    assert kinds == {"c": "int8", "d": "float", "a": "int8"}
    engine = Engine(made.model, {"x": (1, 3, 8, 8)}, integers=True)
    floats = [c.callee for c in engine.module.graphs["main"].body if c.out.type.dtype.is_float]
    assert floats.count("conv2d") == 1
    assert "Conv" in [n.op_type for n in made.model.graph.node if "w2" in n.input]


def test_layers_that_do_harm_are_kept() -> None:
    first, samples = reals(6, 6), reals(64, 6)
    samples[:, 0] *= 1000  # one scale for all of an input that is mostly small
    first[0] /= 1000
    model = net([node("Gemm", "x w", "a"), node("Relu", "a", "r"), node("Gemm", "r w2", "y")], ["n", 6], ["y"], w=first,
                w2=reals(6, 6))  # fmt: skip
    measured = sdk.quantize(model, {"x": samples}, sensitivity=True).report
    alone = {row.name: row.sqnr_db for row in measured.rows}
    assert set(alone) == {"a", "y"}
    assert all(v is not None for v in alone.values())
    limit = -(sum(v or 0 for v in alone.values()) / 2)
    kept = sdk.quantize(model, {"x": samples}, keep_above=limit)
    worst = min(alone, key=lambda name: alone[name] or 0)
    assert {row.name for row in kept.report.rows if row.type == "float"} == {worst}
    assert measured.rows[measured.worst or 0].name == worst
    assert worst == "a"
    assert kept.report.sqnr_db > measured.sqnr_db + 10


def test_a_layer_is_kept_in_floats_with_its_clamp() -> None:
    """What is clamped away is not stored: its range would make the steps of the rest coarse."""
    limits = {"lo": np.float32(0), "hi": np.float32(6)}
    nodes = [CONV, node("Clip", "c lo hi", "r"), node("Conv", "r v", "d"), node("Clip", "d lo hi", "e"),
             node("Conv", "e v", "y")]  # fmt: skip
    model = net(nodes, [1, 3, 8, 8], ["y"], w=3 * W, b=B, v=reals(4, 4, 1, 1, scale=3), **limits)
    samples = {"x": reals(16, 1, 3, 8, 8)}
    every, kept, both = (sdk.quantize(model, samples, keep=k, correct_bias=False) for k in ((), ("d",), ("d", "e")))
    assert kept.report.sqnr_db == both.report.sqnr_db > every.report.sqnr_db
    stored = {n.input[0] for n in kept.model.graph.node if n.op_type == "QuantizeLinear"}
    assert "d" not in stored
    assert "e" in stored
    nodes = [node("MatMul", "x w", "m"), node("Add", "m b", "s"), node("Relu", "s", "r"), node("MatMul", "r v", "y")]
    sums = net(nodes, [2, 6], ["y"], w=reals(6, 6), b=reals(6), v=reals(6, 6))
    made = sdk.quantize(sums, {"x": reals(20, 2, 6)}, keep="m")
    assert not {n.input[0] for n in made.model.graph.node if n.op_type == "QuantizeLinear"} & {"m", "s"}


def test_several_outputs_and_readers() -> None:
    pool = node("MaxPool", "r", "p", kernel_shape=[2, 2])
    nodes = [CONV, node("Relu", "c", "r"), node("Softmax", "r", "s", axis=1), pool]
    model = net(nodes, [1, 3, 8, 8], ["r", "s", "p", "x2"], 14, w=W, b=B)
    model.graph.node.append(node("Identity", "x", "x2"))
    samples = reals(4, 3, 8, 8)
    for integer_io in (False, True):
        made = sdk.quantize(model, {"x": samples}, integer_io=integer_io).model
        assert [o.name for o in made.graph.output] == ["r", "s", "p", "x2"]
        given = {"x": samples[:1]}
        if integer_io:
            given = {"x": RNG.integers(-128, 127, (1, 3, 8, 8)).astype(np.int8)}
        ours = Engine(made, {"x": (1, 3, 8, 8)}, integers=True).run(given)
        for name, theirs in run(made, given).items():
            assert np.abs(ours[name].astype(float) - theirs).max() <= (1 if theirs.dtype == np.int8 else 0.05), name


@pytest.mark.parametrize("opset", [13, 21])
def test_products_of_several_matrices(opset: int) -> None:
    nodes = [node("MatMul", "x w", "m"), node("Add", "b m", "a"), node("Relu", "a", "r"), node("MatMul", "r w2", "y")]
    model = net(nodes, ["n", 6, 32], ["y"], opset, w=reals(32, 8), b=reals(8), w2=reals(8, 5))
    samples = reals(8, 6, 32)
    made = sdk.quantize(model, {"x": samples}).model
    engine = Engine(made, {"x": samples.shape}, integers=True)
    assert [c.callee for c in engine.module.graphs["main"].body].count("dense") == 2
    ours, theirs = engine.run({"x": samples})["y"], run(made, {"x": samples})["y"]
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")  # or sums saturate on processors without VNNI
    optimised = onnxruntime.InferenceSession(made.SerializeToString(), options).run(None, {"x": samples})[0]
    step = np.abs(ours).max() / 127
    assert np.abs(ours - theirs).max() <= 1.01 * step
    assert np.abs(ours - optimised).max() <= 2.01 * step
    assert sqnr(run(model, {"x": samples})["y"], ours) > 30


def test_operators_of_several_results_stay_floats() -> None:
    top = helper.make_node("TopK", ["f", "five"], ["t", "places"], "t")
    nodes = [CONV, node("Flatten", "c", "f"), top, node("Relu", "t", "r"), node("Gemm", "r w2", "y")]
    model = net(nodes, [1, 3, 8, 8], ["y"], 17, w=W, b=B, five=np.asarray([5]), w2=reals(5, 3))
    samples = reals(4, 3, 8, 8)
    made = sdk.quantize(model, {"x": samples})
    assert {row.name: row.type for row in made.report.rows} == {"c": "int8", "t": "float", "r": "int8", "y": "int8"}
    ours = Engine(made.model, {"x": (1, 3, 8, 8)}, integers=True).run({"x": samples[:1]})["y"]
    assert np.allclose(ours, run(made.model, {"x": samples[:1]})["y"], atol=0.02 * np.abs(ours).max())
