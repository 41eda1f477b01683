"""Pages that run models on WebGPU, SwiftShader here: against references, against WebAssembly, and where it lies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from browsers import said, started
from onnx import TensorProto, helper
from selenium import webdriver
from web_pages import golden, ran, served, text, until
from zoo.export import path_of

from sdk.boards import load_board
from sdk.cli import run_command
from sdk.driver import BuildOptions
from sdk.driver.agents import link_agent
from sdk.driver.artifact import build_sources
from sdk.errors import UsageError
from sdk.projects.make import new_project
from tests.gpu.work import MIXED, STATES, model

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_int8.tflite"
CLOSE = 1e-4


@pytest.fixture(scope="module")
def gpu_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with started(tmp_path_factory.mktemp("gpu"), webgpu=True) as running:
        yield running


def page(folder: Path, path: Path | str, *more: str) -> Path:
    command = ["new", "web", str(path), "--name", "m", "--gpu", "webgpu", "-o", str(folder), *more]
    assert run_command(command) == 0
    return folder


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=0, atol=CLOSE * max(1, np.abs(wanted).max()))


def convolutions(path: Path) -> Path:
    """A small net of f32: convolutions, one of them by channel, pooling, a matrix product, softmax."""
    rng = np.random.default_rng(1)
    shapes = {"a": (8, 3, 3, 3), "ab": (8,), "d": (8, 1, 3, 3), "p": (12, 8, 1, 1), "pb": (12,), "w": (12, 10)}
    consts = [
        onnx.numpy_helper.from_array((rng.standard_normal(s) * 0.3).astype(np.float32), n) for n, s in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "a", "ab"], ["1"], strides=[2, 2], pads=[1] * 4),
        helper.make_node("Relu", ["1"], ["2"]),
        helper.make_node("Conv", ["2", "d"], ["3"], group=8, pads=[1] * 4),
        helper.make_node("HardSwish", ["3"], ["4"]),
        helper.make_node("Conv", ["4", "p", "pb"], ["5"]),
        helper.make_node("GlobalAveragePool", ["5"], ["6"]),
        helper.make_node("Flatten", ["6"], ["7"]),
        helper.make_node("MatMul", ["7", "w"], ["8"]),
        helper.make_node("Softmax", ["8"], ["y"]),
    ]
    ends = [
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s)] for n, s in (("x", [1, 3, 17, 19]), ("y", [1, 10]))
    ]
    graph = helper.make_graph(nodes, "g", *ends, consts)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def lie(plans: Path) -> list[str]:
    """Makes one kernel wrong and another no program; their names."""
    told = plans.read_text()
    names = re.findall(r'\{ name: "(\w+)"', told)[:2]
    first, second, third = (m.start() for m in list(re.finditer(r"\{ name: ", told))[:3])
    wrong = re.sub(r"atomicOr\(&(b0\[\w+\]), (\w+)\)", r"atomicOr(&\1, \2 ^ 1u)", told[first:second])
    assert wrong != told[first:second]
    plans.write_text(told[:first] + wrong + told[second:third].replace("fn main(", "fn mein(") + told[third:])
    return names


def test_bytes_are_the_same_and_a_device_that_lies_is_found_out(
    gpu_browser: webdriver.Chrome, tmp_path: Path, need_tool: Any
) -> None:
    need_tool("node")
    out = page(tmp_path / "p", DIGITS)
    x = np.random.default_rng(2).integers(-128, 128, (4, 8, 8, 1)).astype(np.int8)
    runs = [({"image": one}, {}) for one in x]
    with served(out) as address:
        gpu_browser.get(address)
        until(gpu_browser, "status", "Ready")
        assert text(gpu_browser, "engine") == "The GPU, by way of WebGPU."
        golden(gpu_browser)
        wanted = ran(gpu_browser, *runs, engine="simd128", gpu=False)
        np.testing.assert_array_equal(ran(gpu_browser, *runs, engine="webgpu"), wanted)
        one = ran(gpu_browser, runs[0], engine="webgpu", worker=False)  # in the page's own thread
        np.testing.assert_array_equal(one[0], wanted[0])
        assert said(gpu_browser) == []
        wrong, none = lie(out / "model" / "gpu_plans.js")
        gpu_browser.get(address)
        until(gpu_browser, "status", "Ready")
        told = text(gpu_browser, "engine")
        assert f"{wrong} runs as WebAssembly: its results on the device are not those of WebAssembly" in told
        assert f"{none} runs as WebAssembly" in told
        golden(gpu_browser)
        np.testing.assert_array_equal(ran(gpu_browser, *runs, engine="webgpu"), wanted)


def test_reals_open_sizes_and_states(gpu_browser: webdriver.Chrome, tmp_path: Path, need_tool: Any) -> None:
    need_tool("node")
    rng = np.random.default_rng(3)
    path = convolutions(tmp_path / "net.onnx")
    x = rng.standard_normal((1, 3, 17, 19)).astype(np.float32)
    with served(page(tmp_path / "c", path)) as address:
        gpu_browser.get(address)
        ((found,),) = ran(gpu_browser, ({"x": x}, {}), engine="webgpu")
        close(found, onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0])
    sizes = [{"n": n} for n in (1, 70, 7, 1)]
    mixed = [({"x": rng.standard_normal((d["n"], 24)).astype(np.float32),
               "y": rng.standard_normal((d["n"], 10)).astype(np.float32)}, d) for d in sizes]  # fmt: skip
    places = [{"pos": pos} for pos in range(19)]  # the cache goes round: it is bound at 16 rows
    states = [({"k": rng.standard_normal((1, 8)).astype(np.float32)}, d) for d in places]
    for name, source, runs in (("m", MIXED, mixed), ("s", STATES, states)):
        (tmp_path / name).mkdir()
        with served(page(tmp_path / f"p{name}", model(source, tmp_path / name))) as address:
            gpu_browser.get(address)
            found = ran(gpu_browser, *runs, engine="webgpu")
            wanted = ran(gpu_browser, *runs, engine="simd128", gpu=False, relaxed=False)
            for one, other in zip(found, wanted, strict=True):
                for a, b in zip(one, other, strict=True):
                    close(a, b)
    assert said(gpu_browser) == []


def test_without_an_adapter_it_is_webassembly(browser: webdriver.Chrome, tmp_path: Path, need_tool: Any) -> None:
    need_tool("node")
    with served(page(tmp_path / "p", DIGITS)) as address:
        browser.get(address)
        until(browser, "status", "Ready")
        assert "there is no adapter for WebGPU" in text(browser, "engine")
        ran(browser, ({"image": np.zeros((8, 8, 1), np.int8)}, {}), engine="simd128")


@pytest.mark.slow
@pytest.mark.parametrize("net", ["mobilenetv2", "encoder"])
def test_large_nets(gpu_browser: webdriver.Chrome, tmp_path: Path, need_tool: Any, net: str) -> None:
    need_tool("node")
    path, rng = path_of(net), np.random.default_rng(5)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    runs: list[Any] = [({"x": rng.standard_normal((1, 3, 224, 224)).astype(np.float32)}, {})]
    if net == "encoder":
        ids = [rng.integers(0, 1000, (1, n)) for n in (1, 33, 128)]
        runs = [({"input_ids": i, "attention_mask": np.ones_like(i)}, {"seq": i.shape[1]}) for i in ids]
    dims = ["--dim", "seq=1:128"] if net == "encoder" else []
    with served(page(tmp_path / "p", path, *dims)) as address:
        gpu_browser.get(address)
        until(gpu_browser, "status", "Ready")
        golden(gpu_browser)
        assert text(gpu_browser, "engine").startswith("The GPU")
        for (inputs, _), (found,) in zip(runs, ran(gpu_browser, *runs, engine="webgpu"), strict=True):
            close(found, session.run(None, inputs)[0])


@pytest.mark.models
@pytest.mark.parametrize("name", ["kws_ref_model", "okay_nabu"])
def test_keyword_models(gpu_browser: webdriver.Chrome, tmp_path: Path, models: Path, need_tool: Any, name: str) -> None:
    """One of them a stream, with states that stay on the device."""
    need_tool("node")
    with served(page(tmp_path / "p", models / f"{name}.tflite")) as address:
        gpu_browser.get(address)
        until(gpu_browser, "status", "Ready")
        assert text(gpu_browser, "engine").startswith("The GPU")
        golden(gpu_browser)


def test_what_has_no_webgpu_says_so(tmp_path: Path) -> None:
    host, wasm = load_board("host"), load_board("wasm32")
    with pytest.raises(UsageError, match="--gpu webgpu has no part in code for host"):
        build_sources(DIGITS, host, BuildOptions(gpu="webgpu"))
    with pytest.raises(UsageError, match="--gpu opencl has no part in code for wasm32"):
        build_sources(DIGITS, wasm, BuildOptions(gpu="opencl"))
    with pytest.raises(UsageError, match="--gpu webgpu has no part in a project for"):
        new_project("cmake", DIGITS, host, BuildOptions(gpu="webgpu"), tmp_path / "c")
    options = BuildOptions(gpu="webgpu")
    with pytest.raises(UsageError, match="a program of its own has no WebGPU"):
        link_agent(build_sources(DIGITS, wasm, options).sources, wasm, options)


def test_interfaces_have_builds_of_their_own() -> None:
    """What one was built for is not taken for another."""
    host = load_board("host")
    one, two = (build_sources(DIGITS, host, BuildOptions(gpu=gpu)).sources.model for gpu in ("opencl", "vulkan"))
    assert {n for n in one if "opencl" in n}
    assert not {n for n in two if "opencl" in n}
