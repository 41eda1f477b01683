"""Pages of ``sdk new web`` in a browser: their own server, what a reader does, and runs from their JavaScript."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
from browsers import LONG
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

TYPED = {"float32": "Float32Array", "int8": "Int8Array", "int64": "BigInt64Array"}
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
