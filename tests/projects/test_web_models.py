"""Models in generated pages of a browser give what onnxruntime and LiteRT give of the same inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from ai_edge_litert.interpreter import Interpreter
from browsers import said
from selenium import webdriver
from web_pages import golden, ran, served, until
from zoo.export import path_of

from sdk.cli import run_command

ROOT = Path(__file__).resolve().parents[2]
CLOSE = 1e-4  # of the largest output, as docs/web.md says
SEQ = "seq"


def page(folder: Path, model: Path | str, *more: str) -> Path:
    assert run_command(["new", "web", str(model), "--name", "m", "-o", str(folder), *more]) == 0
    return folder


def shown(browser: webdriver.Chrome, address: str, cases: int = 5) -> None:
    """Opens a page and lets it check its golden cases."""
    browser.get(address)
    until(browser, "status", "Ready")
    golden(browser, cases)


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=0, atol=CLOSE * max(1, np.abs(wanted).max()))


def encoder(browser: webdriver.Chrome, folder: Path, net: str, lengths: tuple[int, int, int]) -> None:
    """An encoder with an open length, at three of them, against onnxruntime."""
    path = path_of(net)
    batch = ["--dim", "batch=1:2"] if net == "encoder_small" else []
    out = page(folder, path, "--dim", f"{SEQ}=1:{lengths[-1]}", *batch)
    rng = np.random.default_rng(3)
    runs = []
    for length in lengths:
        ids = rng.integers(0, 1000, (1, length))
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        runs.append((inputs, {SEQ: length, **({"batch": 1} if batch else {})}))
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    with served(out) as address:
        shown(browser, address)
        relaxed = ran(browser, *runs)
        plain = ran(browser, *runs, engine="simd128", relaxed=False, worker=False)
        for (inputs, _), *both in zip(runs, relaxed, plain, strict=True):
            for (found,) in both:
                close(found, session.run(None, inputs)[0])
        assert said(browser) == []


def test_an_encoder_at_three_lengths(browser: webdriver.Chrome, tmp_path: Path, need_tool) -> None:
    need_tool("node")
    encoder(browser, tmp_path / "p", "encoder_small", (1, 7, 40))


@pytest.mark.slow
def test_a_large_encoder_at_three_lengths(browser: webdriver.Chrome, tmp_path: Path, need_tool) -> None:
    need_tool("node")
    encoder(browser, tmp_path / "p", "encoder", (1, 33, 128))


@pytest.mark.slow
def test_mobilenetv2(browser: webdriver.Chrome, tmp_path: Path, need_tool) -> None:
    need_tool("node")
    path = path_of("mobilenetv2")
    x = np.random.default_rng(5).standard_normal((1, 3, 224, 224)).astype(np.float32)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    with served(page(tmp_path / "p", path)) as address:
        shown(browser, address)
        ((found,),) = ran(browser, ({"x": x}, {}))
        close(found, session.run(None, {"x": x})[0])
        assert said(browser) == []


@pytest.mark.models
def test_a_keyword_model(browser: webdriver.Chrome, tmp_path: Path, models: Path, need_tool) -> None:
    need_tool("node")
    path = models / "kws_ref_model.tflite"
    reference = Interpreter(str(path))
    reference.allocate_tensors()
    (port,), (answer,) = reference.get_input_details(), reference.get_output_details()
    samples = np.random.default_rng(7).integers(-128, 128, (3, *port["shape"]), np.int8)
    with served(page(tmp_path / "p", path)) as address:
        shown(browser, address)
        (key,) = browser.execute_async_script(
            "import('/model/interface.js').then((m) => arguments[0](m.model.entries[0].inputs.map((p) => p.key)))"
        )
        runs = [({key: x}, {}) for x in samples]
        for x, (found,) in zip(samples, ran(browser, *runs, engine="simd128"), strict=True):
            reference.set_tensor(port["index"], x)
            reference.invoke()
            np.testing.assert_array_equal(found, reference.get_tensor(answer["index"]))
        assert said(browser) == []
