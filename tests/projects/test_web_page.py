"""The page of a web project in a browser: golden cases in the worker, no network, wrong weights, and its looks."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

from sdk.cli import run_command

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_int8.tflite"
LONG = 120  # seconds: the machine may be busy
ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
    "--disable-extensions", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost",
)  # fmt: skip
SIZES = ((1280, 900), (390, 844))
# What a reader with a screen reader or weak eyes would miss: controls without names, texts without contrast.
UNNAMED = """
return [...document.querySelectorAll('input, select, textarea, button, meter, progress, canvas, img, video, table')]
  .filter(e => e.checkVisibility() && !['VIDEO', 'IMG'].includes(e.tagName))
  .filter(e => !(e.labels?.length || e.ariaLabel || e.textContent.trim() && e.tagName === 'BUTTON' || e.caption))
  .map(e => e.outerHTML);
"""
FAINT = """
const lum = (text) => {
  const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (e) => {
  for (; e; e = e.parentElement) {
    const found = getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$/.test(found)) return found;
  }
};
return [...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && !e.disabled
    && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())).map(e => {
  const [a, b] = [lum(getComputedStyle(e).color), lum(behind(e))].sort((x, y) => y - x);
  return [(a + 0.05) / (b + 0.05), e.tagName, e.textContent.slice(0, 40)];
}).filter(([ratio]) => ratio < 4.5);
"""
FORGET = "caches.keys().then(k => Promise.all(k.map(n => caches.delete(n)))).then(arguments[0])"
CAMERA = """
const kinds = document.querySelector('fieldset select');
kinds.value = 'Camera';
kinds.dispatchEvent(new Event('change'));
document.querySelector('fieldset button').click();
document.getElementById('outputs').replaceChildren();
"""
STARTED = "return document.querySelector('fieldset button').textContent"
WIDE = "return [document.scrollingElement.scrollWidth, innerWidth]"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    for argument in (*ARGUMENTS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    assert all(programs), "chromium or chromedriver is not installed; `make test` installs them or says how"
    options.binary_location = str(programs[0])
    running = webdriver.Chrome(options=options, service=Service(programs[1]))
    running.set_page_load_timeout(LONG)
    yield running
    running.quit()


@contextmanager
def served(folder: Path, port: str = "0") -> Iterator[str]:
    """The address of the page, from its own server."""
    server = subprocess.Popen(["node", "serve.js", port], cwd=folder, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def text(browser: webdriver.Chrome, identifier: str) -> str:
    return str(browser.execute_script("return document.getElementById(arguments[0]).textContent", identifier))


def until(browser: webdriver.Chrome, identifier: str, words: str) -> str:
    """Waits until an element says something."""
    WebDriverWait(browser, LONG).until(lambda _: words in text(browser, identifier), f"{identifier}: {words}")
    return text(browser, identifier)


def press(browser: webdriver.Chrome, identifier: str) -> None:
    browser.execute_script("document.getElementById(arguments[0]).click()", identifier)


def golden(browser: webdriver.Chrome) -> None:
    press(browser, "golden")
    until(browser, "golden-result", "cases")
    assert text(browser, "golden-result") == "All 5 cases passed"


def complaints(browser: webdriver.Chrome) -> list[Any]:
    return [entry["message"] for entry in browser.get_log("browser")]


def test_the_page_of_an_image_model(browser: webdriver.Chrome, tmp_path: Path, need_tool) -> None:
    need_tool("node")
    out = tmp_path / "p"
    assert run_command(["new", "web", str(DIGITS), "--name", "digits", "-o", str(out)]) == 0
    with served(out) as address:
        browser.get(address)
        assert "from the network" in until(browser, "status", "Ready")
        until(browser, "offline", "works without a network")
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
        for width, height in SIZES:
            for scheme in ("light", "dark"):
                screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
                browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
                feature = {"name": "prefers-color-scheme", "value": scheme}
                browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
                content, inner = browser.execute_script(WIDE)
                assert (inner, content <= inner) == (width, True), f"{content} wide"
                assert browser.execute_script(FAINT) == [], scheme
        assert browser.execute_script(UNNAMED) == []
        names = browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
        hosts = {name.split("/")[2] for name in names if not name.startswith(("blob:", "data:"))}
        assert hosts == {address.split("/")[2]}
        assert complaints(browser) == []
    # the server is gone: page and weights are kept
    browser.get(address)
    assert "from this device" in until(browser, "status", "Ready")
    golden(browser)
    complaints(browser)

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
