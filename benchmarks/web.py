"""Times an ONNX model in WebAssembly beside onnxruntime-web, one thread each, in Node by processor time.

    npm install --prefix FOLDER onnxruntime-web && python benchmarks/web.py FOLDER [MODEL.onnx] [--dim N=V ...]

The model is tests/zoo's MobileNetV2 where none is named. Exit code 9 where ours takes more than LIMIT of the other's
time, 1 where results differ.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from sdk.boards import load_board
from sdk.driver import BuildOptions
from sdk.errors import RegressionError
from sdk.projects.kinds import load_kind
from sdk.projects.make import new_project

ROOT = Path(__file__).resolve().parents[1]
KIND = "web"
LIMIT = 0.9  # of the time of onnxruntime-web
CLOSE = 1e-4  # of the largest output


def main() -> int:
    """Measures and prints; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("modules", type=Path, metavar="FOLDER", help="where node_modules has onnxruntime-web")
    parser.add_argument("model", nargs="?", type=Path, metavar="MODEL.onnx")
    parser.add_argument("--dim", action="append", default=[], metavar="N=V", help="size of a run")
    parser.add_argument("--blocks", type=int, default=15)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    dims = {name: int(value) for name, value in (text.split("=") for text in args.dim)}
    with tempfile.TemporaryDirectory() as folder:
        path, package = (args.model or _network()).resolve(), Path(folder) / "package"
        bounds = {name: (1, value) for name, value in dims.items()}
        new_project(KIND, path, load_board(load_kind(KIND).board), BuildOptions(dims=bounds), package)
        done = subprocess.run(
            [
                "node", ROOT / "benchmarks" / "web.mjs", package, path, args.modules.resolve(), str(args.blocks),
                str(args.runs), json.dumps(dims),
            ],
            stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
    found = json.loads(done.stdout)
    print(json.dumps(found, indent=1))
    if found["apart"] > CLOSE:
        return 1
    return RegressionError.exit_code if found["ratio"] > LIMIT else 0


def _network() -> Path:
    """MobileNetV2 with random weights."""
    sys.path.insert(0, str(ROOT / "tests"))
    from zoo.export import path_of

    return Path(path_of("mobilenetv2"))


if __name__ == "__main__":
    sys.exit(main())
