"""The page of a web project in a browser: golden cases in the worker, no network, wrong weights, and its looks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from browsers import LONG, LOOKS, look, said
from onnx import TensorProto, helper
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait
from test_web import layers
from web_pages import BUILT, FAINT, MOVED, UNNAMED, WIDE, golden, plainly_served, press, ran, served, text, until

from sdk.cli import run_command

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_int8.tflite"
FORGET = "caches.keys().then(k => Promise.all(k.map(n => caches.delete(n)))).then(arguments[0])"
CAMERA = """
const kinds = document.querySelector('fieldset select');
kinds.value = 'Camera';
kinds.dispatchEvent(new Event('change'));
document.querySelector('fieldset button').click();
document.getElementById('outputs').replaceChildren();
"""
RECORD = "[...document.querySelectorAll('fieldset button')].at(-1).click()"
NOTES = "return [...document.querySelectorAll('fieldset .note')].map(n => n.textContent).join()"
CHOOSE = """
const chosen = document.querySelector(arguments[0]);
chosen.value = arguments[1];
chosen.dispatchEvent(new Event('change'));
"""
FEATURES = """
const [sound, frames, count, options, done] = arguments;
import('/demo/features.js').then((m) => done([...m.features(sound, frames, count, options)]));
"""
STARTED = "return document.querySelector('fieldset button').textContent"


def test_the_page_of_an_image_model(browser: webdriver.Chrome, tmp_path: Path, need_tool) -> None:
    need_tool("node")
    out = tmp_path / "p"
    assert run_command(["new", "web", str(DIGITS), "--name", "digits", "-o", str(out)]) == 0
    with served(out) as address:
        browser.get(address)
        assert "from the network" in until(browser, "status", "Ready")
        until(browser, "offline", "works without a network")
        assert browser.execute_async_script(MOVED) < 0.05
        golden(browser)
        press(browser, "run")
        until(browser, "outputs", "digit [1, 10]")
        browser.execute_script("document.getElementById('bench-runs').value = 3")
        press(browser, "bench")
        until(browser, "bench-result", "Median")
        # the camera: a picture's numbers go through the model
        browser.execute_script(CAMERA)
        WebDriverWait(browser, LONG).until(lambda _: "Stop" in browser.execute_script(STARTED))
        press(browser, "run")
        until(browser, "outputs", "digit [1, 10]")
        assert browser.execute_script("return document.getElementById('error').hidden")
        for size, scheme in LOOKS:
            look(browser, size, scheme)
            content, inner = browser.execute_script(WIDE)
            assert (inner, content <= inner) == (size[0], True), f"{content} wide"
            assert browser.execute_script(FAINT) == [], scheme
            assert browser.execute_script(BUILT) == []
        assert browser.execute_script(UNNAMED) == []
        names = browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
        hosts = {name.split("/")[2] for name in names if not name.startswith(("blob:", "data:"))}
        assert hosts == {address.split("/")[2]}
        assert said(browser) == []
    # the server is gone: page and weights are kept
    browser.get(address)
    assert "from this device" in until(browser, "status", "Ready")
    golden(browser)
    said(browser)

    # kept by their hash, whatever the server has now; where nothing is kept, other weights are an error
    weights = out / "model" / "digits.weights.bin"
    whole = weights.read_bytes()
    weights.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    with served(out, address.rstrip("/").rsplit(":", 1)[1]):
        browser.get(address)
        until(browser, "status", "from this device")
        browser.execute_async_script(FORGET)
        browser.get(address)
        until(browser, "status", "not loaded")
        assert "E_INTEGRITY: digits.weights.bin is not the file" in text(browser, "error")
        assert browser.execute_script("return document.getElementById('error').checkVisibility()")
        assert browser.execute_script("return document.getElementById('run').disabled")


def test_the_page_of_two_entries(browser: webdriver.Chrome, tmp_path: Path, need_tool) -> None:
    """One with an open size, at the three that are chosen in the form; what is out of bounds is said."""
    need_tool("node")
    out = tmp_path / "p"
    names = [f"a={DIGITS}", f"b={DIGITS.with_name('digits.onnx')}"]
    assert run_command(["new", "web", *names, "--dim", "batch=1:4", "--name", "both", "-o", str(out)]) == 0
    with served(out) as address:
        browser.get(address)
        until(browser, "status", "Ready")
        golden(browser, 10)
        browser.execute_script(CHOOSE, "#entries select", "b")
        for size in (1, 3, 4):
            browser.execute_script(CHOOSE, "#dims input", str(size))
            press(browser, "run")
            until(browser, "outputs", f"digit [{size}, 10]")
        assert browser.execute_script("return document.getElementById('error').hidden")
        # as a script would have it: the form itself does not let such a size pass
        browser.execute_script("document.getElementById('form').noValidate = true")
        browser.execute_script(CHOOSE, "#dims input", "5")
        press(browser, "run")
        until(browser, "error", "E_DIM: batch is 5, it must be in 1..4")
        assert browser.execute_script(UNNAMED) == []
        assert browser.execute_script(BUILT) == []
        assert said(browser) == []


def test_the_microphone_of_models_of_sound(browser: webdriver.Chrome, tmp_path: Path, need_tool) -> None:
    """What is heard, which the browser makes up, gets to one model as 8,000 samples and to the other as features."""
    need_tool("node")
    nodes = [helper.make_node("Abs", ["audio"], ["m"]), helper.make_node("ReduceMax", ["m"], ["loud"], keepdims=0)]
    saved(tmp_path / "loud.onnx", nodes, ("audio", [1, 8000]), ("loud", []))
    shape = [1, 49, 10, 1]
    saved(tmp_path / "heard.onnx", [helper.make_node("Neg", ["x"], ["y"])], ("x", shape), ("y", shape))
    models = [f"{name}={tmp_path / name}.onnx" for name in ("loud", "heard")]
    assert run_command(["new", "web", *models, "--name", "sound", "-o", str(tmp_path / "p")]) == 0
    with served(tmp_path / "p") as address:
        browser.get(address)
        until(browser, "status", "Ready")
        for entry, samples, output in (("loud", 8000, "loud []"), ("heard", 15840, "y [1, 49, 10, 1]")):
            browser.execute_script(CHOOSE, "#entries select", entry)
            browser.execute_script(CHOOSE, "fieldset select", "Microphone")
            browser.execute_script(RECORD)
            words = f"Recorded {samples} samples"
            WebDriverWait(browser, LONG).until(lambda _, words=words: words in browser.execute_script(NOTES))
            press(browser, "run")
            until(browser, "outputs", output)
            shown = browser.execute_script("return document.querySelector('pre').textContent")
            numbers = [float(number) for number in shown.split(",")]
            if entry == "loud":
                assert 0 < numbers[0] <= 1.1
            else:
                assert len(numbers) == 490
                assert np.std(numbers) > 0.1
            assert browser.execute_script(UNNAMED) == []
        assert said(browser) == []
        sound = np.random.default_rng(4).standard_normal(15840) * np.linspace(0.01, 0.5, 15840)
        for count, options in ((10, (30, 20, 40, 20, 4000)), (40, (25, 10, 40, 60, 7600))):
            told = dict(zip(("windowMs", "stepMs", "bands", "low", "high"), options, strict=True)) | {"rate": 16000}
            found = browser.execute_async_script(FEATURES, sound.tolist(), 49, count, told)
            np.testing.assert_allclose(np.reshape(found, (49, count)), cepstra(sound, count, *options), atol=2e-3)


def saved(path: Path, nodes: list[onnx.NodeProto], *ends: tuple[str, list[int]]) -> None:
    """Writes a model of floats with one input and one output."""
    told = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)] for name, shape in ends]
    graph = helper.make_graph(nodes, "g", *told)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def cepstra(sound: np.ndarray, count: int, window_ms: int, step_ms: int, bands: int, low: int, high: int) -> np.ndarray:
    """The features of 49 frames of 16 kHz by their definitions: a matrix for each step."""
    window, step = 16 * window_ms, 16 * step_ms
    size = 512
    frames = np.stack([sound[k * step : k * step + window] for k in range(49)])
    spectrum = np.abs(np.fft.rfft(frames * np.hanning(window + 1)[:-1], size))
    at = 2595 * np.log10(1 + np.fft.rfftfreq(size, 1 / 16000) / 700)
    edges = np.linspace(*(2595 * np.log10(1 + f / 700) for f in (low, high)), bands + 2)
    filters = np.stack([np.interp(at, edges[k : k + 3], [0, 1, 0], 0, 0) for k in range(bands)])
    filters[:, 0] = 0
    logs = np.log(spectrum @ filters.T + 1e-6)
    grid = np.outer(np.arange(bands), 2 * np.arange(bands) + 1)
    return logs @ (np.sqrt(2 / bands) * np.cos(np.pi * grid / (2 * bands))).T[:, :count] if count < bands else logs


def test_threads_in_a_page(browser: webdriver.Chrome, tmp_path: Path, need_tool) -> None:
    """Two where the server isolates the page, one where it does not: the same results."""
    need_tool("node")
    first, second = layers(tmp_path / "layers.onnx")
    line = ["new", "web", str(tmp_path / "layers.onnx"), "--dim", "n=1:64", "--threads", "2"]
    assert run_command([*line, "-o", str(tmp_path / "p")]) == 0
    x = np.random.default_rng(1).standard_normal((64, 256)).astype(np.float32)
    found = {}
    for isolated, server in ((True, served), (False, plainly_served)):
        with server(tmp_path / "p") as address:
            browser.get(address)
            until(browser, "status", "Ready")
            assert browser.execute_script("return crossOriginIsolated") == isolated
            until(browser, "engine", "2 threads" if isolated else "one thread")
            golden(browser)
            ((found[isolated],),) = ran(browser, ({"x": x}, {"n": 64}))
            assert said(browser) == []
    np.testing.assert_array_equal(found[True], found[False])
    np.testing.assert_allclose(found[True], np.maximum(x @ first, 0) @ second, rtol=0, atol=1e-4)
