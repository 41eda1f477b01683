"""Times ONNX models on this machine beside onnxruntime: one thread each, and ours on two threads beside one.

    python benchmarks/onnx_host.py [NAME ...] [--json]

Names are of the networks in tests/zoo (exported with torch, kept in .cache). Blocks of runs of the engines alternate,
so that both see the same machine; the first runs of a block do not count (an engine evicts the other's weights), and
medians are compared. Exit code 9 when a budget is missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from sdk.boards import load_board
from sdk.driver import BuildOptions
from sdk.driver.execute import connect

ROOT = Path(__file__).resolve().parents[1]
BLOCK, DROP, ROUNDS = 25, 5, 31
THREADS = 2
THREADS_LIMIT = 1.7  # times faster on two threads than on one


@dataclass(frozen=True)
class Case:
    """A network, the bounds of its dims, the dims to run at, and the most times onnxruntime's time it may take."""

    net: str
    dims: Mapping[str, tuple[int, ...]]
    at: Mapping[str, int]
    limit: float | None
    threads: bool = False


CASES = {
    "encoder, seq 64": Case("encoder", {"seq": (1, 256)}, {"seq": 64}, 1.5, threads=True),
    "encoder, seq 256": Case("encoder", {"seq": (1, 256)}, {"seq": 256}, None),
    "encoder, seq 7": Case("encoder", {"seq": (1, 256)}, {"seq": 7}, None),
    "MobileNetV2": Case("mobilenetv2", {}, {}, 1.6, threads=True),
    "ResNet-50": Case("resnet50", {}, {}, None),
}


def main() -> int:
    """Measures and prints; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", choices=[[], *CASES], metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    rows, missed = [], []
    for name in args.names or CASES:
        row = measure(name, CASES[name])
        rows.append(row)
        missed += row["missed"]
    if args.json:
        print(json.dumps({"schema": 1, "models": rows, "missed": missed}))
    else:
        show(rows, missed)
    return 9 if missed else 0


def measure(name: str, case: Case) -> dict[str, object]:
    """Medians of one case, in milliseconds."""
    from zoo.export import path_of

    path = path_of(case.net)
    engines = {"ours": _ours(path, case, 1), "onnxruntime": _onnxruntime(path, case)}
    if case.threads:
        engines[f"{THREADS} threads"] = _ours(path, case, THREADS)
    times: dict[str, list[float]] = {engine: [] for engine in engines}
    for _ in range(ROUNDS):
        for engine, block in engines.items():
            times[engine] += block()[DROP:]
    median = {engine: statistics.median(found) for engine, found in times.items()}
    ratio = median["ours"] / median["onnxruntime"]
    missed = []
    if case.limit is not None and ratio > case.limit:
        missed.append(f"{name}: {ratio:.2f} times onnxruntime's time, limit {case.limit}")
    faster = median["ours"] / median[f"{THREADS} threads"] if case.threads else None
    if faster is not None and faster < THREADS_LIMIT:
        missed.append(f"{name}: {faster:.2f} times faster on {THREADS} threads, limit {THREADS_LIMIT}")
    return {"name": name, **median, "ratio": ratio, "limit": case.limit, "faster": faster, "missed": missed}


def _ours(path: Path, case: Case, threads: int) -> Callable[[], list[float]]:
    """A function that runs one block and gives its times in milliseconds."""
    session, _, _ = connect(path, load_board("host"), None, BuildOptions(dims=case.dims, threads=threads))
    info = session.models()[0]
    rng = np.random.default_rng(0)
    for k, tensor in enumerate(info.inputs):
        kind = np.dtype(tensor.dtype)
        count = tensor.nbytes // kind.itemsize
        value = rng.standard_normal(count) if kind.kind == "f" else np.ones(count)
        session.write(0, k, value.astype(kind).tobytes())
    at = [case.at.get(d.name, d.hi) for d in info.dims]
    return lambda: [t / 1e6 for t in session.run(0, dims=at, repeat=BLOCK).samples]


def _onnxruntime(path: Path, case: Case) -> Callable[[], list[float]]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    given = {}
    for tensor in session.get_inputs():
        shape = [case.at.get(d, 1) if isinstance(d, str) else d for d in tensor.shape]
        kind = np.float32 if tensor.type == "tensor(float)" else np.int64
        given[tensor.name] = rng.standard_normal(shape).astype(kind) if kind is np.float32 else np.ones(shape, kind)

    def block() -> list[float]:
        times = []
        for _ in range(BLOCK):
            start = time.perf_counter()
            session.run(None, given)
            times.append((time.perf_counter() - start) * 1e3)
        return times

    return block


def show(rows: list[dict[str, object]], missed: list[str]) -> None:
    """The table for a person."""
    console = Console()
    table = Table(title=f"milliseconds, medians of {ROUNDS} blocks of {BLOCK - DROP} runs")
    for column in ("model", "ours", "onnxruntime", "ratio", "limit", f"{THREADS} threads", "times faster"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for row in rows:
        columns = ("ours", "onnxruntime", "ratio", "limit", f"{THREADS} threads", "faster")
        numbers = [row.get(column) for column in columns]
        table.add_row(str(row["name"]), *("-" if n is None else f"{n:.2f}" for n in numbers))
    console.print(table)
    for line in missed:
        console.print(f"missed: {line}")


if __name__ == "__main__":
    sys.exit(main())
