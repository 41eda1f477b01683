"""Pages of ``sdk new web`` in a browser: their server, what a reader does and may miss, runs from their JavaScript."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
from browsers import LONG, WEBGPU
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

TYPED = {"float32": "Float32Array", "int8": "Int8Array", "int64": "BigInt64Array"}
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
# What is wrong with how a page is built: language, title, headings, landmarks, identifiers, sizes of what is pressed.
BUILT = """
const shown = (what) => [...document.querySelectorAll(what)].filter(e => e.checkVisibility());
const heads = shown('h1, h2, h3, h4').map(e => Number(e.tagName[1]));
const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
const boxes = shown('button, select, input').map(e => e.getBoundingClientRect());
const small = boxes.filter(({ width, height }) => Math.min(width, height) < 24);
const broken = shown('[aria-labelledby]').filter(e => !ids.includes(e.getAttribute('aria-labelledby')));
const faults = {
  language: document.documentElement.lang === 'en', title: document.title.length > 0,
  scalable: !/user-scalable|maximum-scale/.test(document.querySelector('meta[name=viewport]').content),
  first: heads[0] === 1 && heads.filter(level => level === 1).length === 1,
  levels: heads.every((level, k) => k === 0 || level <= heads[k - 1] + 1),
  landmarks: ['header', 'main', 'footer'].every(tag => document.querySelectorAll(`body > ${tag}`).length === 1),
  ids: new Set(ids).size === ids.length, large: small.length === 0, labelled: broken.length === 0,
  alternatives: [...document.images].every(e => e.hasAttribute('alt')),
  order: document.querySelectorAll('[tabindex]:not([tabindex="0"]):not([tabindex="-1"])').length === 0,
};
return Object.keys(faults).filter(name => !faults[name]);
"""
# How far what is seen moved while the page began: "cumulative layout shift".
MOVED = """
const done = arguments[0];
let moved = 0;
const add = (list) => list.getEntries().forEach((entry) => (moved += entry.value));
new PerformanceObserver(add).observe({ type: 'layout-shift', buffered: true });
setTimeout(() => done(moved), 100);
"""
WIDE = "return [document.scrollingElement.scrollWidth, innerWidth]"
_RUN = """
const [runs, options, engine, done] = arguments;
const numbers = ([type, values]) => globalThis[type].from(type.startsWith('Big') ? values.map(BigInt) : values);
const every = async () => {
  const { load } = await import('/model/index.js');
  const model = await load(options);
  if (model.engine !== engine) throw new Error(`it runs by ${model.engine}`);
  const found = [];
  for (const { inputs, dims } of runs) {
    const given = Object.fromEntries(Object.entries(inputs).map(([key, value]) => [key, numbers(value)]));
    const outputs = await model.run(given, { dims });
    found.push(Object.values(outputs).map(({ data, shape }) => [[...data].map(Number), shape]));
  }
  model.dispose();
  return found;
};
every().then(done, (error) => done(String(error)));
"""


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


@contextmanager
def plainly_served(folder: Path) -> Iterator[str]:
    """The address of the page, from a server that says nothing but what is in its files."""
    with ThreadingHTTPServer(("localhost", 0), partial(_Silent, directory=str(folder))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_address[1]}/"
        server.shutdown()


def lighthouse(address: str, folder: Path, screen: str, webgpu: bool = False) -> tuple[dict[str, float], list[str]]:
    """What Lighthouse thinks of a page, from 0 to 1 by category, and the audits that it does not pass; ``screen`` is
    "desktop" or "mobile"."""
    program = Path(sys.prefix) / "node_modules" / ".bin" / "lighthouse"
    assert program.exists(), "lighthouse is not installed: make soak does it"
    flags = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", *(WEBGPU if webgpu else ("--disable-gpu",))]
    line = [program, address, "--quiet", "--output=json", f"--output-path={folder / 'report.json'}",
            "--only-categories=accessibility,best-practices,seo", "--throttling-method=provided",
            f"--form-factor={screen}", f"--chrome-flags={' '.join(flags)}"]  # fmt: skip
    line += ["--preset=desktop"] if screen == "desktop" else []
    env = {**os.environ, "HOME": str(folder), "CHROME_PATH": str(shutil.which("chromium"))}
    done = subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    told = json.loads((folder / "report.json").read_text())
    audits = {name: audit["score"] for name, audit in told["audits"].items()}
    counted = {ref["id"] for category in told["categories"].values() for ref in category["auditRefs"] if ref["weight"]}
    failed = sorted(name for name in counted if audits[name] is not None and audits[name] < 1)
    return {name: category["score"] for name, category in told["categories"].items()}, failed


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def text(browser: webdriver.Chrome, identifier: str) -> str:
    return str(browser.execute_script("return document.getElementById(arguments[0]).textContent", identifier))


def until(browser: webdriver.Chrome, identifier: str, words: str) -> str:
    """Waits until an element says something."""
    WebDriverWait(browser, LONG).until(lambda _: words in text(browser, identifier), f"{identifier}: {words}")
    return text(browser, identifier)


def press(browser: webdriver.Chrome, identifier: str) -> None:
    browser.execute_script("document.getElementById(arguments[0]).click()", identifier)


def golden(browser: webdriver.Chrome, cases: int = 5) -> None:
    press(browser, "golden")
    until(browser, "golden-result", "cases")
    assert text(browser, "golden-result") == f"All {cases} cases passed"


def ran(
    browser: webdriver.Chrome,
    *runs: tuple[Mapping[str, np.ndarray], Mapping[str, int]],
    engine: str = "relaxed-simd",
    **options: bool,
) -> list[list[np.ndarray]]:
    """The outputs of runs, each of inputs and sizes, by a model that the page loads with options; ``engine`` has to be
    what it runs by."""
    told = [
        {"inputs": {k: [TYPED[str(a.dtype)], a.reshape(-1).tolist()] for k, a in inputs.items()}, "dims": dict(dims)}
        for inputs, dims in runs
    ]
    found = browser.execute_async_script(_RUN, told, options, engine)
    assert not isinstance(found, str), found
    until(browser, "offline", "Kept on")  # a server that ends before this is an error on the console
    return [[np.reshape(data, shape) for data, shape in outputs] for outputs in found]
