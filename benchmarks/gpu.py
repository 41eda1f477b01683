"""Times kernels for GPUs on drivers of this machine's processor, in turns with others on the same cores.

    python benchmarks/gpu.py matmul                      OpenCL (PoCL) beside the C backend on two threads
    python benchmarks/gpu.py mobilenetv2=FOLDER ...      Vulkan (lavapipe) beside ncnn; also resnet50
    python benchmarks/gpu.py --peer iree mobilenetv2=FOLDER ...   the same beside IREE's Vulkan runtime

FOLDER has the same network for the peer: ``model.ncnn.param`` and ``model.ncnn.bin``, which pnnx makes of what torch
traces of tests/zoo/nets.py; or ``model.vmfb``, which IREE's iree-import-onnx and iree-compile make of the ONNX file
that tests/zoo/export.py writes (--iree-hal-target-device=vulkan, with the --iree-vulkan-target that is fastest). The
peer's wheel must be importable. VK_ICD_FILENAMES and OCL_ICD_VENDORS choose the drivers. Exit code 9 when a budget is
missed: a matrix product of 1024 cubed within 1/0.4 of the C's time, a network within the peer's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Final

import numpy as np

from sdk.boards import load_board
from sdk.driver import BuildOptions
from sdk.driver.execute import connect

ROOT = Path(__file__).resolve().parents[1]
SIZE, ROUNDS, BLOCK, THREADS = 1024, 5, 3, 2
MAX_RATIOS: Final = {"matmul": 1 / 0.4, "mobilenetv2": 1.0, "resnet50": 1.0}
MATMUL = f"""module net imported

graph @main(%x: f32[{SIZE}, {SIZE}], %y: f32[{SIZE}, {SIZE}]) {{
  %z = matmul(%x, %y) : f32[{SIZE}, {SIZE}]
  return %z
}}
"""
Block = Callable[[], list[float]]


def main() -> int:
    """Measures the cases that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", metavar="CASE")
    parser.add_argument("--peer", choices=["ncnn", "iree"], default="ncnn")
    sys.path.insert(0, str(ROOT / "tests"))
    os.environ.setdefault("CROSSLEVEL_TIMEOUT", "300")  # drivers compile before the first run
    missed, given = False, parser.parse_args()
    for case in given.cases:
        name, _, folder = case.partition("=")
        if name not in MAX_RATIOS or (name != "matmul") != bool(folder):
            parser.error(f"{case}: matmul, mobilenetv2=FOLDER or resnet50=FOLDER")
        ours, peer, what = _matmul() if name == "matmul" else _network(name, Path(folder), given.peer)
        times: dict[str, list[float]] = {"ours": [], "peer": []}
        for _ in range(ROUNDS):
            times["ours"] += ours()
            times["peer"] += peer()
        median = {engine: statistics.median(found) for engine, found in times.items()}
        ratio = median["ours"] / median["peer"]
        limit = MAX_RATIOS[name]
        missed |= ratio > limit
        print(
            f"{name}: {median['ours']:.1f} ms, {what} {median['peer']:.1f} ms, {ratio:.2f} times, limit {limit:g}"
        )
    return 9 if missed else 0


def _matmul() -> tuple[Block, Block, str]:
    path = Path(tempfile.mkdtemp()) / "net.ir"
    path.write_text(MATMUL)
    return _ours(path, BuildOptions(gpu="opencl")), _ours(path, BuildOptions(threads=THREADS)), "the C backend"


def _network(name: str, folder: Path, peer: str) -> tuple[Block, Block, str]:
    from zoo.export import path_of

    return _ours(path_of(name), BuildOptions(gpu="vulkan")), {"ncnn": _ncnn, "iree": _iree}[peer](folder), peer


def _ours(path: Path, options: BuildOptions) -> Block:
    """A function that runs a block and gives its times in milliseconds."""
    session, _, _ = connect(path, load_board("host"), None, options)
    rng = np.random.default_rng(0)
    for k, tensor in enumerate(session.models()[0].inputs):
        session.write(0, k, rng.standard_normal(tensor.nbytes // 4).astype(np.float32).tobytes())
    session.run(0, repeat=1)
    return lambda: [t / 1e6 for t in session.run(0, repeat=BLOCK).samples]


def _ncnn(folder: Path) -> Block:
    import ncnn

    net = ncnn.Net()
    net.opt.use_vulkan_compute = True
    net.opt.num_threads = THREADS
    net.load_param(str(folder / "model.ncnn.param"))
    net.load_model(str(folder / "model.ncnn.bin"))
    image = ncnn.Mat(np.random.default_rng(0).standard_normal((3, 224, 224)).astype(np.float32))

    def one() -> float:
        start = time.perf_counter()
        run = net.create_extractor()
        run.input("in0", image)
        run.extract("out0")
        return (time.perf_counter() - start) * 1e3

    one()
    return lambda: [one() for _ in range(BLOCK)]


def _iree(folder: Path) -> Block:
    """By IREE's own tool for it, which has the wheel's runtime: results stay on the device."""
    tool = Path(str(files("iree._runtime_libs"))) / "iree-benchmark-module"
    line = [tool, f"--module={folder / 'model.vmfb'}", "--device=vulkan", "--function=main_graph"]
    line += ["--input=1x3x224x224xf32=0.5", f"--benchmark_min_time={BLOCK}x", "--benchmark_format=json"]

    def block() -> list[float]:
        done = subprocess.run(line, capture_output=True, check=True)
        found = json.loads(done.stdout)["benchmarks"][0]
        return [float(found["real_time"]) * {"ns": 1e-6, "us": 1e-3, "ms": 1.0}[found["time_unit"]]] * BLOCK

    return block


if __name__ == "__main__":
    sys.exit(main())
