"""Networks with real data, quantised: as right as in floats, exact on every core, no worse than onnxruntime's own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from float_nets import DIGITS, digits, net, node, run, session, sqnr
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

import sdk
from sdk.cli import run_command
from sdk.quantizer.engine import Engine
from sdk.quantizer.source import model_file

POINT = 0.01


class Reader(CalibrationDataReader):
    """Samples for onnxruntime's quantiser."""

    def __init__(self, name: str, samples: np.ndarray) -> None:
        self.samples = iter([{name: samples[k : k + 1]} for k in range(len(samples))])

    def get_next(self) -> Any:
        return next(self.samples, None)


def theirs(model: onnx.ModelProto, name: str, samples: np.ndarray, folder: Path) -> onnx.ModelProto:
    """The model as onnxruntime quantises it."""
    onnx.save(model, folder / "float.onnx")
    quantize_static(
        folder / "float.onnx", folder / "theirs.onnx", Reader(name, samples), quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QInt8, weight_type=QuantType.QInt8, per_channel=True,
    )  # fmt: skip
    return onnx.load(folder / "theirs.onnx")


@pytest.fixture(scope="module")
def bundled() -> onnx.ModelProto:
    return onnx.load(DIGITS / "digits.onnx")


@pytest.mark.parametrize(
    "given", [{}, {"range": "percentile"}, {"range": "mse"}, {"to": "int16x8"}, {"equalise": True}]
)
def test_digits_stay_within_a_point(bundled: onnx.ModelProto, given: dict[str, Any]) -> None:
    images, labels = digits()
    made = sdk.quantize(bundled, {"image": images, "label": labels}, labels="label", **given)
    found = made.report.accuracy
    assert found is not None
    onnx.checker.check_model(made.model, full_check=True)
    assert found.samples == len(labels) == 360
    assert found.float_top1 > 0.95
    assert abs(found.quantised_top1 - found.float_top1) <= POINT
    engine = run(made.model, {"image": images})["digit"]
    assert np.mean(engine.argmax(axis=1) == labels) == pytest.approx(found.quantised_top1, abs=0.003)
    assert made.report.weights[1] < 0.3 * made.report.weights[0]


def test_no_worse_than_onnxruntime(bundled: onnx.ModelProto, tmp_path: Path) -> None:
    images, labels = digits()
    want = run(bundled, {"image": images})["digit"]
    other = run(theirs(bundled, "image", images[:120], tmp_path), {"image": images})["digit"]
    for given in ({}, {"range": "mse"}):
        ours = run(sdk.quantize(bundled, {"image": images[:120]}, **given).model, {"image": images})["digit"]
        assert sqnr(want, ours) >= sqnr(want, other)
        assert np.mean(ours.argmax(axis=1) == labels) >= np.mean(other.argmax(axis=1) == labels)


@pytest.mark.emulator
@pytest.mark.parametrize("to", ["int8", "int16x8"])
def test_integers_are_the_same_on_every_core(bundled: onnx.ModelProto, to: str, need_tool) -> None:
    need_tool("qemu-system-arm")
    images, _ = digits()
    logits = onnx.ModelProto()
    logits.CopyFrom(bundled)
    logits.graph.node.pop()  # softmax, which is computed in floats
    logits.graph.output[0].name = "logits"
    made = sdk.quantize(logits, {"image": images}, to=to, integer_io=True).model
    kind = np.int8 if to == "int8" else np.int16
    given = np.random.default_rng(3).integers(np.iinfo(kind).min, np.iinfo(kind).max, (6, 1, 1, 8, 8)).astype(kind)
    interpreter = Engine(made, {"image": (1, 1, 8, 8)}, integers=True)
    want = [interpreter.run({"image": image})["logits"] for image in given]
    assert want[0].dtype == kind
    for board in ("host", "qemu-cortex-m4"):
        with sdk.compile(made, board=board, dims={"batch": 1}) as model:
            assert all(np.array_equal(model(image=i)["logits"], w) for i, w in zip(given, want, strict=True))
    engine = [run(made, {"image": image})["logits"].astype(int) for image in given]
    assert max(int(np.abs(a - b).max()) for a, b in zip(engine, want, strict=True)) <= 1


# --- a residual network, trained here ---------------------------------------------------------------------------------


class Block(torch.nn.Module):
    """Two convolutions beside what they read."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = torch.nn.BatchNorm2d(outputs)
        self.second = torch.nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = torch.nn.BatchNorm2d(outputs)
        self.beside = torch.nn.Conv2d(inputs, outputs, 1, stride) if stride > 1 else torch.nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm2(self.second(torch.relu(self.norm1(self.first(x)))))
        return torch.relu(y + self.beside(x))


class ResNet8(torch.nn.Module):
    """The network of MLPerf Tiny's image classification, for digits of one channel."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = torch.nn.Conv2d(1, 8, 3, 1, 1, bias=False), torch.nn.BatchNorm2d(8)
        self.blocks = torch.nn.Sequential(Block(8, 8, 1), Block(8, 16, 2), Block(16, 32, 2))
        self.dense = torch.nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks(torch.relu(self.norm(self.stem(x))))
        return self.dense(x.mean(dim=(2, 3)))


@pytest.fixture(scope="module")
def resnet() -> Iterator[ResNet8]:
    """Trained on two thirds of the bundled images for a few seconds."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so small a network only waits for others
    torch.manual_seed(0)
    images, labels = (torch.from_numpy(a[:240]) for a in digits())
    made = ResNet8()
    steps = torch.optim.Adam(made.parameters(), 5e-3)
    for _ in range(25):
        for part in torch.randperm(240).split(40):
            steps.zero_grad()
            torch.nn.functional.cross_entropy(made(images[part]), labels[part]).backward()
            steps.step()
    yield made.eval()
    torch.set_num_threads(threads)


@pytest.mark.emulator
def test_a_residual_network_stays_within_a_point(resnet: ResNet8, tmp_path: Path, need_tool) -> None:
    need_tool("qemu-system-arm")
    images, labels = digits()
    file, some = model_file(resnet, torch.zeros(1, 1, 8, 8)), {"x": images[:60]}
    made = sdk.quantize(file, some)
    assert {row.type for row in made.report.rows} == {"int8"}, "all of it has integer kernels"
    plain = sdk.quantize(file, some, keep="*").model
    with torch.no_grad():
        want = resnet(torch.from_numpy(images)).numpy()
    assert sqnr(want, _each(plain, images)) > 80, "what was kept in floats is the network itself"
    ours, other = _each(made.model, images), _each(theirs(plain, "x", images[:60], tmp_path), images)
    before, after, others = (np.mean(found.argmax(axis=1) == labels) for found in (want, ours, other))
    assert before > 0.85
    assert abs(after - before) <= POINT
    assert sqnr(want, ours) >= sqnr(want, other)
    assert after >= others - POINT
    with sdk.compile(made.model) as here, sdk.compile(made.model, board="qemu-cortex-m4") as there:
        for k in range(4):
            (a,), (b,) = (model(x=images[k : k + 1]).values() for model in (here, there))
            assert np.array_equal(a, b), "bit for bit"


def _each(model: onnx.ModelProto, images: np.ndarray) -> np.ndarray:
    """What onnxruntime makes of images one at a time."""
    opened, name = session(model), model.graph.input[0].name
    return np.concatenate([opened.run(None, {name: images[k : k + 1]})[0] for k in range(len(images))])


def test_weights_alone(bundled: onnx.ModelProto) -> None:
    images, _ = digits()
    want = run(bundled, {"image": images})["digit"]
    eight, four = (sdk.quantize(bundled, {"image": images[:32]}, to=to, group=16) for to in ("w8", "w4"))
    assert sqnr(want, run(eight.model, {"image": images})["digit"]) > 45
    assert sqnr(want, run(four.model, {"image": images})["digit"]) > 18
    assert four.report.weights[1] < eight.report.weights[1] < bundled.ByteSize() / 3
    for made in (eight, four):
        ours = Engine(made.model, {"image": images.shape}).run({"image": images})["digit"]
        assert np.allclose(ours, run(made.model, {"image": images})["digit"], atol=1e-5)
    assert [t.data_type for t in four.model.graph.initializer].count(onnx.TensorProto.INT4) == 1  # the dense layer


def test_groups_at_the_end_may_be_short() -> None:
    rng = np.random.default_rng(0)
    for transposed in (0, 1):
        weights = rng.standard_normal((40, 12)[:: -1 if transposed else 1]).astype(np.float32)
        model = net([node("Gemm", "x w", "y", transB=transposed)], [2, 40], ["y"], w=weights)
        x = rng.standard_normal((2, 40)).astype(np.float32)
        for to, minimum in (("w8", 40), ("w4", 15)):
            made = sdk.quantize(model, {"x": x}, to=to).model
            found = run(made, {"x": x})["y"]
            assert sqnr(run(model, {"x": x})["y"], found) > minimum
            assert np.allclose(Engine(made, {"x": x.shape}).run({"x": x})["y"], found, atol=1e-4)


def test_the_command(bundled: onnx.ModelProto, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images, labels = digits()
    np.savez(tmp_path / "calib.npz", image=images[:64], label=labels[:64])
    line = ["quantize", str(DIGITS / "digits.onnx"), "--data", str(tmp_path / "calib.npz"), "--labels", "label"]
    line += ["-o", str(tmp_path / "out.onnx"), "--sensitivity", "--keep", "conv1"]
    assert run_command([*line, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["accuracy"]["samples"] == found["samples"] == 64
    assert found["weights_bytes"]["quantised"] < found["weights_bytes"]["float"]
    assert [(row["name"], row["type"], row["why"]) for row in found["layers"]] == [
        ("conv1", "float", "kept"), ("conv2", "int8", None), ("dense", "int8", None),
        ("softmax", "float", "no integer kernel"),
    ]  # fmt: skip
    assert all(row["sqnr_db"] > 30 for row in found["layers"][:3])
    assert onnx.load(tmp_path / "out.onnx").graph.node
    document = (DIGITS.parent.parent / "docs" / "json.md").read_text().split("## quantize")[1].split("\n## ")[0]
    assert set(found) - {"schema"} == set(re.findall(r"^\| `(\w+)`", document, re.MULTILINE))
    assert run_command(line) == 0
    shown = capsys.readouterr().out
    assert "computed on" in shown
    assert "float, kept" in shown
    assert "of 64 right" in shown


@pytest.mark.models
def test_real_networks(models: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rough = rng.uniform(0, 255, (16, 4, 4, 3))
    images = np.repeat(np.repeat(rough, 8, 1), 8, 2) + rng.normal(0, 8, (16, 32, 32, 3))
    images = np.clip(images, 0, 255).astype(np.float32)
    source = models / "pretrainedResnet.tflite"
    plain = sdk.quantize(source, {"input_1": images}, keep="*").model
    want = _each(plain, images)
    ours = sdk.quantize(source, {"input_1": images})
    assert {row.type for row in ours.report.rows if row.op != "Softmax"} == {"int8"}
    assert sqnr(want, _each(ours.model, images)) >= sqnr(
        want, _each(theirs(plain, "input_1", images, tmp_path), images)
    )
