"""The examples: the bundled model, the demonstration's table, and the firmware of one's own."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest
import tflite
from rich.console import Console

from sdk import driver
from sdk.boards import load_board
from sdk.frontends.tflite.importer import import_tflite

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
MODEL = EXAMPLES / "digits" / "digits_int8.tflite"
FLOATS = EXAMPLES / "digits" / "digits.onnx"
HOLDOUT = MODEL.parent / "holdout.npz"
MIN_ACCURACY = 0.95
EMULATED = "nucleo_l4r5zi"
STRICT = "-Wconversion -Wshadow -Wundef -Wvla -Wdouble-promotion -Wstrict-prototypes -Wmissing-prototypes"


def load(path: Path) -> ModuleType:
    """A script of the examples as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[path.stem]
    return module


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    return load(EXAMPLES / "demo.py")


def test_model_has_the_layers_of_its_script() -> None:
    network = load(EXAMPLES / "digits" / "network.py")
    graph = tflite.Model.GetRootAs(MODEL.read_bytes(), 0).Subgraphs(0)
    tensors = {graph.Tensors(k).Name().decode(): graph.Tensors(k) for k in range(graph.TensorsLength())}
    for layer in network.CONV_LAYERS:
        weights = tensors[f"{layer.name}_weights"]
        assert tuple(weights.ShapeAsNumpy()) == (layer.outputs, network.KERNEL, network.KERNEL, layer.inputs)
        assert weights.Quantization().ScaleLength() == layer.outputs
        assert tuple(tensors[layer.name].ShapeAsNumpy()) == (1, layer.out_size, layer.out_size, layer.outputs)
    output = tensors["digit"].Quantization()
    assert (output.Scale(0), output.ZeroPoint(0)) == (1 / 256, -128)
    assert MODEL.stat().st_size + FLOATS.stat().st_size + HOLDOUT.stat().st_size < 60_000


def test_model_imports() -> None:
    module = import_tflite(MODEL.read_bytes(), "digits", dims={})
    (graph,) = module.graphs.values()
    assert [(v.name, v.type.shape) for v in (*graph.params, *graph.results)] == [
        ("image", (1, 8, 8, 1)),
        ("digit", (1, 10)),
    ]


def test_float_model_takes_any_batch() -> None:
    model = onnx.load(FLOATS)
    onnx.checker.check_model(model)
    for value in (*model.graph.input, *model.graph.output):
        assert value.type.tensor_type.shape.dim[0].dim_param == "batch"


def test_float_and_int8_weights_are_of_one_training() -> None:
    floats = {w.name: onnx.numpy_helper.to_array(w) for w in onnx.load(FLOATS).graph.initializer}
    graph = tflite.Model.GetRootAs(MODEL.read_bytes(), 0)
    tensors = graph.Subgraphs(0)
    for k in range(tensors.TensorsLength()):
        tensor = tensors.Tensors(k)
        name = tensor.Name().decode()
        if not name.startswith("conv") or not name.endswith("_weights"):
            continue
        ints = graph.Buffers(tensor.Buffer()).DataAsNumpy().view(np.int8).reshape(tensor.ShapeAsNumpy())
        scales = tensor.Quantization().ScaleAsNumpy().reshape(-1, 1, 1, 1)
        np.testing.assert_allclose(
            (ints * scales).transpose(0, 3, 1, 2), floats[name], atol=0.51 * float(scales.max())
        )


@pytest.mark.slow
def test_training_makes_such_a_model(tmp_path: Path) -> None:
    script = EXAMPLES / "digits" / "train.py"
    done = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # Other versions of numpy may round the weights another way; the images and the structure stay.
    assert (tmp_path / HOLDOUT.name).read_bytes() == HOLDOUT.read_bytes()
    for file in (MODEL, FLOATS):
        assert (tmp_path / file.name).stat().st_size == file.stat().st_size


def test_held_out_images(demo: ModuleType) -> None:
    images, labels = demo.held_out()
    assert (images.shape, images.dtype) == ((360, 8, 8, 1), np.int8)
    assert set(labels.tolist()) == set(range(10))


@pytest.mark.emulator
def test_demo_table(
    demo: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    steps: list[str] = []
    few = demo.Load(images=4, cases=2, repeat=1)
    rows = [
        demo.measure(demo.INT8, "host", demo.Load(images=360, cases=5, repeat=5), "tflite-micro", steps.append),
        demo.measure(demo.INT8, EMULATED, few, "tflite-micro", steps.append),
        demo.measure(demo.FLOAT, EMULATED, few, "onnxruntime", steps.append),
    ]
    assert [row.check.exact_cases for row in rows[:2]] == [5, 2]
    assert all(row.check.passed for row in rows)
    assert all(row.right / row.images >= MIN_ACCURACY for row in rows)
    titles = ["This machine, int8", "ST Nucleo-L4R5ZI, int8", "ST Nucleo-L4R5ZI, float"]
    assert [step.split(":")[0] for step in steps[::3]] == titles
    console = Console(record=True, width=80)
    console.print(demo.table(rows))
    text = console.export_text()
    assert "…" not in text
    number, micro = r"[\d,]+", r"~?[\d,.]+ us"
    assert re.search(rf"host +int8 +97\.\d% +exact +{number} +{number} +- +{micro}", text), text
    emulated = rf"{number} +{number} +{number} +~{number} us"
    assert re.search(rf"{EMULATED} +int8 +100\.0% +exact +{emulated}", text), text
    assert re.search(rf"{EMULATED} +float +100\.0% +to \de-0\d +{emulated}", text), text
    assert "360 on host, 4 on" in "\n".join(demo.legend(rows, ["tflite-micro", "onnxruntime"]))
    made = iter(rows[1:])
    monkeypatch.setattr(demo, "boards", lambda _: [EMULATED])
    monkeypatch.setattr(demo, "measure", lambda *_: next(made))
    assert demo.main() == 0
    shown = capsys.readouterr().out
    assert "Handwritten digits" in shown
    assert "fit examples/digits/digits_int8.tflite" in shown.replace(f"{EXAMPLES.parent}/", "")


def test_demo_without_emulator_says_how_to_get_it(demo: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr(demo, "find_spec", lambda _: None)
    said: list[str] = []
    assert demo.boards(said.append) == ["host"]
    assert "unicorn>=2.1.4" in "\n".join(said)


def test_demo_without_reference_says_so(demo: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda _: None)
    said: list[str] = []
    assert demo.reference(demo.INT8, said.append) == "interp"
    assert "pip install 'tflite-micro" in said[0]


def run(*command: str | Path) -> str:
    """What a command printed, on both streams."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.emulator
@pytest.mark.parametrize("emulated", [True, False], ids=["emulated", "board"])
def test_firmware_of_ones_own(tmp_path: Path, need_tool: Callable[[str], str], emulated: bool) -> None:
    for tool in ("cmake", "arm-none-eabi-gcc", "qemu-system-arm"):
        need_tool(tool)
    out = tmp_path / "digits"
    driver.build(MODEL, load_board(EMULATED), driver.BuildOptions(name="digits"), emit="c", out=out)
    build = tmp_path / "firmware"
    switches = [f"-DMODEL={out}", f"-DEMULATED={int(emulated)}", f"-DCMAKE_C_FLAGS={STRICT} -pedantic"]
    run("cmake", "-S", EXAMPLES / "firmware", "-B", build, *switches)
    run("cmake", "--build", build)
    elf = build / "firmware.elf"
    if not emulated:
        assert re.search(r"LOAD +0x\w+ 0x08000000 ", run("arm-none-eabi-readelf", "-l", elf))
        return
    machine = "-M mps2-an386 -display none -monitor none -serial none"
    semihosting = "-semihosting-config enable=on,target=native"
    assert "this is a 3" in run("qemu-system-arm", *machine.split(), *semihosting.split(), "-kernel", elf)
