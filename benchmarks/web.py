"""Times an ONNX model in WebAssembly beside onnxruntime-web, one thread each: in Chromium by the clock, with --node in
Node by processor time.

    npm install --prefix FOLDER onnxruntime-web && python benchmarks/web.py FOLDER [MODEL.onnx] [--dim N=V ...]

The model is tests/zoo's MobileNetV2 where none is named. Exit code 9 where ours takes more than LIMIT of the other's
time, 1 where results differ.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from sdk.boards import load_board
from sdk.driver import BuildOptions
from sdk.errors import RegressionError
from sdk.projects.kinds import load_kind
from sdk.projects.make import new_project

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
KIND = "web"
LIMIT = 0.9  # of the time of onnxruntime-web
CLOSE = 1e-4  # of the largest output
LONG = 600  # seconds
SCRIPT = """
const [told, done] = arguments;
(async () => {
  const [{ pair }, own, ort] = await Promise.all(
    ['/web_pair.mjs', '/package/model/index.js', '/ort/ort.wasm.min.mjs'].map((url) => import(url)));
  const network = new Uint8Array(await (await fetch('/network.onnx')).arrayBuffer());
  ort.env.wasm.wasmPaths = '/ort/';
  const clock = () => performance.now();
  return pair({ ...told, load: own.load, told: own.model, ort, network, clock });
})().then(done, (error) => done(String(error.stack)));
"""


def main() -> int:
    """Measures and prints; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("modules", type=Path, metavar="FOLDER", help="where node_modules has onnxruntime-web")
    parser.add_argument("model", nargs="?", type=Path, metavar="MODEL.onnx")
    parser.add_argument("--dim", action="append", default=[], metavar="N=V", help="size of a run")
    parser.add_argument("--node", action="store_true", help="in Node instead of Chromium")
    parser.add_argument("--relaxed", action="store_true", help="relaxed vectors in both, where the engine has them")
    parser.add_argument("--blocks", type=int, default=15)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    dims = {name: int(value) for name, value in (text.split("=") for text in args.dim)}
    with tempfile.TemporaryDirectory() as folder:
        path, package = (args.model or _network()).resolve(), Path(folder) / "package"
        bounds = {name: (1, value) for name, value in dims.items()}
        new_project(KIND, path, load_board(load_kind(KIND).board), BuildOptions(dims=bounds), package)
        found = (_in_node if args.node else _in_chromium)(args, path, package, dims)
    print(json.dumps(found, indent=1))
    if found["apart"] > CLOSE:
        return 1
    return RegressionError.exit_code if found["ratio"] > LIMIT else 0


def _in_node(args: argparse.Namespace, network: Path, package: Path, dims: dict[str, int]) -> dict[str, Any]:
    script = ROOT / "benchmarks" / "web.mjs"
    counts = str(args.blocks), str(args.runs)
    line = ["node", script, package, network, args.modules.resolve(), *counts, json.dumps(dims)]
    done = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))


def _in_chromium(args: argparse.Namespace, network: Path, package: Path, dims: dict[str, int]) -> dict[str, Any]:
    from browsers import started

    site = package.parent
    shutil.copy(network, site / "network.onnx")
    shutil.copy(ROOT / "benchmarks" / "web_pair.mjs", site)
    (site / "ort").symlink_to(args.modules.resolve() / "node_modules" / "onnxruntime-web" / "dist")
    (site / "index.html").write_text("<!doctype html><title>two engines</title>")
    told = {"dims": dims, "blocks": args.blocks, "runs": args.runs, "relaxed": args.relaxed}
    with _served(site) as address, started(site / "profile") as page:
        page.set_script_timeout(LONG)
        page.get(address)
        found = page.execute_async_script(SCRIPT, told)
        if isinstance(found, str):
            raise SystemExit(found)
        return {**found, "engine": f"Chromium {page.capabilities['browserVersion']}"}


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Files, isolated from other origins: clocks are finer there. Says nothing."""

    extensions_map: ClassVar = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}

    def end_headers(self) -> None:
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    handler = functools.partial(_Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://localhost:{server.server_address[1]}/"
        finally:
            server.shutdown()


def _network() -> Path:
    """MobileNetV2 with random weights."""
    from zoo.export import path_of

    return Path(path_of("mobilenetv2"))


if __name__ == "__main__":
    sys.exit(main())
