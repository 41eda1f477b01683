"""What is done to floats before they become integers changes no result: folding, equalising, writing as ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from float_nets import net, node, run, sqnr

from sdk.compiler.interp.graph import run_graph
from sdk.driver.importing import import_model
from sdk.driver.options import BuildOptions
from sdk.errors import SdkError
from sdk.frontends import recognise
from sdk.frontends.base import ModelFile
from sdk.graph import ModuleBuilder, f32
from sdk.quantizer.bias import correct_biases
from sdk.quantizer.data import checked
from sdk.quantizer.engine import tensor_types
from sdk.quantizer.equalise import equalise
from sdk.quantizer.export import exported
from sdk.quantizer.fold_channels import fold_channels
from sdk.quantizer.net import Net
from sdk.quantizer.place import place
from sdk.quantizer.prepare import plain_products, prepared
from sdk.quantizer.ranges import BINS, Grid, Seen, calibrate, chosen, merged
from sdk.quantizer.source import float_model
from sdk.quantizer.write import write
from tests.generate import generate, values

RNG = np.random.default_rng(5)


def reals(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def ready(model: onnx.ModelProto, samples: np.ndarray) -> tuple[Net, Any, Any]:
    """The prepared net, its samples and types."""
    made = prepared(model, 13)
    data = checked(made.proto(), {"x": samples}, None)
    plain_products(made)
    types = tensor_types(made.proto(), data.shapes)
    fold_channels(made, types)
    return made, data, types


def statistics(channels: int) -> dict[str, np.ndarray]:
    return {"s": reals(channels), "o": reals(channels), "m": reals(channels), "v": np.abs(reals(channels)) + 0.1}


FOLDED: dict[str, tuple[list[onnx.NodeProto], tuple[int, ...], dict[str, Any], set[str]]] = {
    "conv": ([node("Conv", "x w", "c"), node("BatchNormalization", "c s o m v", "y", epsilon=1e-3)], (2, 3, 5, 5),
             {"w": reals(6, 3, 3, 3), **statistics(6)}, {"Conv"}),
    "conv of one axis": ([node("Conv", "x w b", "c"), node("BatchNormalization", "c s o m v", "y")], (2, 3, 7),
                         {"w": reals(6, 3, 3), "b": reals(6), **statistics(6)}, {"Conv"}),
    "transposed, in groups": (
        [node("ConvTranspose", "x w b", "c", group=2, strides=[2, 2]), node("BatchNormalization", "c s o m v", "y")],
        (2, 4, 5, 5), {"w": reals(4, 3, 3, 3), "b": reals(6), **statistics(6)}, {"ConvTranspose"}),
    "dense": ([node("Gemm", "x w b", "c", alpha=0.5, beta=3.0), node("BatchNormalization", "c s o m v", "y")], (4, 5),
              {"w": reals(5, 6), "b": reals(1, 6), **statistics(6)}, {"Gemm"}),
    "product": ([node("MatMul", "x w", "c"), node("Add", "b c", "d"), node("Mul", "d k", "e"), node("Sub", "k e", "f"),
                 node("Div", "f q", "y")], (4, 5),
                {"w": reals(5, 6), "b": reals(6), "k": np.float32(3), "q": np.abs(reals(6)) + 1}, {"Gemm"}),
    "behind a sum": ([node("Add", "x x", "c"), node("BatchNormalization", "c s o m v", "y")], (2, 3, 4, 4),
                     statistics(3), {"Add", "Conv"}),
    "by element": ([node("Conv", "x w", "c"), node("Mul", "c k", "y")], (2, 3, 5, 5),
                   {"w": reals(6, 3, 3, 3), "k": reals(6, 3, 3)}, {"Conv", "Mul"}),
    "weights that are computed": (
        [node("Transpose", "w", "t", perm=[1, 0]), node("Mul", "t k", "u"), node("Constant", "", "z", value_float=2.0),
         node("Mul", "u z", "g"), node("Dropout", "x", "d"), node("Gemm", "d g", "y")], (4, 5),
        {"w": reals(6, 5), "k": np.float32(3)}, {"Gemm"}),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDED)
def test_channels_fold(name: str) -> None:
    nodes, shape, constants, left = FOLDED[name]
    for one in nodes:
        if one.op_type == "Constant":
            del one.input[:]
    model = net(nodes, shape, ["y"], 14, **constants)
    x = reals(*shape)
    made = ready(model, x)[0]
    assert {n.op_type for n in made.nodes} == left
    assert np.allclose(run(made.proto(), {"x": x})["y"], run(model, {"x": x})["y"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("between", ["nothing", "relu", "leaky", "relu6", "pooled"])
def test_equalising_changes_nothing(between: str) -> None:
    nodes = {
        "nothing": [node("MaxPool", "c", "r", kernel_shape=[1, 1])],
        "relu": [node("Relu", "c", "r")],
        "leaky": [node("LeakyRelu", "c", "r", alpha=0.2)],
        "relu6": [node("Clip", "c lo hi", "r")],
        "pooled": [node("Relu", "c", "q"), node("MaxPool", "q", "r", kernel_shape=[2, 2])],
    }[between]
    widths = np.exp(RNG.uniform(-4, 2, 4)).astype(np.float32)
    first = reals(4, 3, 3, 3) * widths[:, None, None, None]
    constants = {"w": first, "b": reals(4) * widths, "dw": reals(8, 1, 2, 2), "w3": reals(6, 4, 1, 1)}
    constants |= {"lo": np.float32(0), "hi": np.float32(6)}
    after = [node("Conv", "r dw", "d", group=4), node("Relu", "d", "e"), node("Conv", "e w3", "y", group=2)]
    model = net([node("Conv", "x w b", "c"), *nodes, *after], [1, 3, 8, 8], ["y"], 14, **constants)
    x = reals(6, 3, 8, 8)
    made, data, types = ready(model, x)
    before = [np.ptp(np.abs(made.floats(n.input[1])).max(axis=(1, 2, 3))) for n in made.nodes if n.op_type == "Conv"]
    assert equalise(made, types, data) == 2
    after_ = [np.ptp(np.abs(made.floats(n.input[1])).max(axis=(1, 2, 3))) for n in made.nodes if n.op_type == "Conv"]
    assert after_ != before
    for one in x:
        want, got = (run(m, {"x": one[None]})["y"] for m in (model, made.proto()))
        assert np.allclose(got, want, rtol=1e-3, atol=1e-4 * np.abs(want).max())


def test_bias_correction_takes_the_mean_error_away() -> None:
    conv = node("Conv", "x w b", "y", pads=[1, 1, 1, 1])
    model = net([conv], [1, 3, 6, 6], ["y"], 14, w=reals(5, 3, 3, 3), b=reals(5))
    x = reals(32, 3, 6, 6) + 3
    made, data, types = ready(model, x)
    grid = Grid(-32767, 32767, True)  # so fine that only weights make errors
    placement = place(made, types, tables=False)
    seen = calibrate(made.proto(), data, placement.stored, "minmax")
    stored = {name: grid.step(one.low, one.high) for name, one in seen.items()}
    want = np.concatenate([run(model, {"x": one[None]})["y"] for one in x])
    errors = []
    made.model.opset_import[0].version, made.model.ir_version = 21, 10
    for corrected in (False, True):
        if corrected:
            assert correct_biases(made, placement, stored, data, wide=True) == 1
            placement = place(made, types, tables=False)
        rounded = write(made, placement, stored, np.int16)
        got = np.concatenate([run(rounded, {"x": one[None]})["y"] for one in x])
        errors.append(np.abs((got - want).mean(axis=(0, 2, 3))).max())
    assert errors[1] < errors[0] / 20


def test_ranges() -> None:
    grid = Grid(-128, 127, False)
    assert grid.step(0.0, 0.0)[0] > 0
    scale, zero = grid.step(-1.0, 3.0)
    assert (round((-1.0) / scale) + zero, round(3.0 / scale) + zero, zero) == (-128, 127, -64)
    assert grid.step(2.0, 3.0)[1] == -128, "0 is stored exactly"
    counts = np.zeros(BINS)
    counts[: BINS // 8], counts[-1] = 1000, 1  # almost all within an eighth of the range
    seen = Seen(0.0, 8.0, counts)
    assert chosen(seen, "minmax", 99.9, grid) == (0.0, 8.0)
    assert chosen(seen, "percentile", 99.9, grid)[1] == pytest.approx(1.0, abs=0.01)
    assert 1.0 <= chosen(seen, "mse", 99.9, grid)[1] < 8.0
    both = merged([seen, Seen(-2.0, 0.0, np.ones(BINS))])
    assert (both.low, both.high) == (-2.0, 8.0)
    assert both.counts is not None
    assert both.counts.sum() == counts.sum() + BINS


def test_images_stay_channels_first() -> None:
    g = ModuleBuilder("images")
    with g.entry("main") as e:
        x = e.input("x", f32, (1, 8, 8, 3))
        given = {"stride": (1, 1), "dilation": (1, 1), "pad": (1, 1, 1, 1)}
        y = e.relu(e.conv2d(x, g.const("w", reals(4, 3, 3, 3)), g.const("b", reals(4)), **given))
        z = e.conv2d(y, g.const("w2", reals(4, 3, 3, 4)), g.const("b2", reals(4)), **given)
        z = e.clip(z * g.const("k", reals(4)) + y, lo=-1.0, hi=5.0)
        z = e.concat(z, e.max_pool2d(y, kernel=(3, 3), stride=(1, 1), pad=(1, 1, 1, 1)), axis=3)
        z = e.pad(z, pads=((0, 0), (1, 2), (0, 1), (0, 0)), value=0.5)
        z = e.slice(z, begin=(0, 1, 8, 0), size=(1, 4, 4, 4), strides=(1, 2, -2, 2))
        e.output("y", e.softmax(e.reshape(e.reduce_mean(z, axes=(1, 2)), shape=(1, 4))))
    module = g.module()
    made = exported(module)
    onnx.checker.check_model(made, full_check=True)
    assert [n.op_type for n in made.graph.node].count("Transpose") == 1, "that of the input"
    inputs = {"x": reals(1, 8, 8, 3)}
    assert np.allclose(run(made, inputs)["y"], run_graph(module, "main", inputs)["y"], atol=1e-6)


def test_generated_networks_are_written_as_they_are() -> None:
    written, refused = 0, list[str]()
    for seed in range(40):
        network = generate(seed, "float")
        data = network.data()
        file = ModelFile(Path("m.tflite"), data, recognise(data, ".tflite"))
        try:
            made = float_model(file, {})
        except SdkError as error:  # what ONNX has no op for, or has no floats
            refused.append(error.message)
            continue
        module = import_model(file, BuildOptions(), "model")
        names = [p.name for p in module.graphs["main"].params]
        inputs = dict(zip(names, values(network, 5).values(), strict=True))
        want, got = run_graph(module, "main", inputs), run(made, inputs)
        for name, array in want.items():
            top = max(1.0, float(np.abs(array[np.isfinite(array)]).max(initial=0.0)))
            assert np.allclose(got[name], array, rtol=1e-4, atol=1e-4 * top, equal_nan=True), (seed, name)
        written += 1
    assert written > 20
    assert all("cannot be" in message or "quantised already" in message for message in refused)


def test_open_sizes_stay_open() -> None:
    g = ModuleBuilder("rows")
    n = g.dim("n", 1, 64)
    with g.entry("main") as e:
        x = e.input("x", f32, (n, 6))
        y = e.relu(x @ g.const("w", reals(6, 8)) + g.const("b", reals(8)))
        e.output("y", e.reshape(y, shape=(n, 2, 4)))
    made = exported(g.module())
    for rows in (1, 5):
        x = reals(rows, 6)
        assert np.allclose(run(made, {"x": x})["y"], run_graph(g.module(), "main", {"x": x})["y"], atol=1e-5)
    assert sqnr(x, x) == np.inf
