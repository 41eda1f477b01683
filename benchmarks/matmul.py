"""Prints how near products of floats on this machine come to what one core can do: GFLOP/s and percent of its peak.

    python benchmarks/matmul.py [--json] [--only WORD]

The peak is that of a loop of multiply-adds in registers, in C, as wide as the core's vectors. Each shape is a model of
one op, compiled by sdk.compile with no tuning, copies and packing counted; onnxruntime runs the same file, on one
thread. Convolutions come as ONNX has them, channels first: turning the image round counts too. Blocks of the peak, of
ours and of onnxruntime alternate, so that all see the same machine; the best run of each block counts (others may use
this machine too), and medians over blocks are compared. Exit code 9 when a budget is missed.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from rich.table import Table

from sdk.boards import load_board
from sdk.compiler.machines.lookup import machine_for
from sdk.driver import BuildOptions
from sdk.driver.execute import connect
from sdk.toolchains import CompileJob, LinkJob, SourceText, get_toolchain, target_for

ROUNDS, BLOCK, DROP = 9, 12, 2
CHAINS = 24  # sums under way at once: more than units times latency
PEAK = """#include <stdint.h>
typedef float lanes __attribute__((vector_size(%(bytes)d)));
float peak(int64_t steps, float start);
float peak(int64_t steps, float start) {
#pragma STDC FP_CONTRACT ON
    lanes x = start - (lanes){0}, y = x + 1.0f, %(declare)s;
    for (int64_t i = 0; i < steps; ++i) {
        %(step)s
    }
    return (%(total)s)[0];
}
"""


@dataclass(frozen=True)
class Case:
    """A product of ``rows`` by ``depth`` by ``columns``, or a convolution [h, w, c] -> o by k x k taps."""

    name: str
    shape: tuple[int, ...]
    constant: bool = True
    limit: float | None = None  # percent of the peak

    @property
    def operations(self) -> int:
        """Floating-point operations: two per product."""
        if len(self.shape) == 3:
            return 2 * self.shape[0] * self.shape[1] * self.shape[2]
        h, w, c, o, k, stride = self.shape
        return 2 * (h // stride) * (w // stride) * c * o * k * k


CASES = (
    Case("512 cubed, both operands inputs", (512, 512, 512), constant=False, limit=60),
    Case("encoder: 64 rows, 384 to 384", (64, 384, 384)),
    Case("encoder: 64 rows, 384 to 1536", (64, 384, 1536)),
    Case("encoder: 64 rows, 1536 to 384", (64, 1536, 384)),
    Case("MobileNetV2: first, 3 to 32", (224, 224, 3, 32, 3, 2)),
    Case("MobileNetV2: 56x56, 24 to 144", (56, 56, 24, 144, 1, 1)),
    Case("MobileNetV2: 14x14, 384 to 96", (14, 14, 384, 96, 1, 1)),
    Case("MobileNetV2: 7x7, 960 to 320", (7, 7, 960, 320, 1, 1)),
    Case("ResNet: first, 7x7, 3 to 64", (224, 224, 3, 64, 7, 2)),
    Case("ResNet: 3x3 on 56x56, 64 to 64", (56, 56, 64, 64, 3, 1)),
    Case("ResNet: 3x3 on 14x14, 256 to 256", (14, 14, 256, 256, 3, 1)),
    Case("ResNet: 3x3 on 7x7, 512 to 512", (7, 7, 512, 512, 3, 1)),
)


def main() -> int:
    """Measures and prints; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", default="", help="a word of the names to measure")
    args = parser.parse_args()
    peak = peak_loop()
    rows = [measure(case, peak) for case in CASES if args.only in case.name]
    missed = [
        f"{r['name']}: {r['percent']:.0f} % of the peak, wanted {r['limit']} %"
        for r in rows
        if r["limit"] and r["percent"] < r["limit"]
    ]
    if args.json:
        print(json.dumps({"schema": 1, "products": rows, "missed": missed}))
    else:
        show(rows, missed)
    return 9 if missed else 0


def measure(case: Case, peak: Callable[[], float]) -> dict[str, Any]:
    """Medians of one case in GFLOP/s."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "product.onnx"
        onnx.save(model_of(case), path)
        session, _, _ = connect(path, load_board("host"), None, BuildOptions())
        inputs = [np.random.default_rng(k).standard_normal(s).astype(np.float32) for k, s in enumerate(inputs_of(case))]
        for k, tensor in enumerate(session.models()[0].inputs):
            session.write(0, k, inputs[k].reshape(-1)[: tensor.nbytes // 4].tobytes())
        engine = reference(path, inputs)
        found: dict[str, list[float]] = {"peak": [], "ours": [], "onnxruntime": []}
        for _ in range(ROUNDS):
            found["peak"].append(max(peak() for _ in range(BLOCK)))
            times = session.run(0, dims=[], repeat=BLOCK).samples[DROP:]
            found["ours"].append(case.operations / min(times))
            found["onnxruntime"].append(case.operations / min(engine()[DROP:]))
        session.close()
    rates = {name: statistics.median(values) for name, values in found.items()}
    percent = statistics.median(100 * a / b for a, b in zip(found["ours"], found["peak"], strict=True))
    return {"name": case.name, **rates, "percent": percent, "limit": case.limit}


def inputs_of(case: Case) -> list[tuple[int, ...]]:
    """The shapes of the model's inputs."""
    if len(case.shape) == 3:
        rows, depth, columns = case.shape
        return [(rows, depth)] if case.constant else [(rows, depth), (depth, columns)]
    h, w, c, *_ = case.shape
    return [(1, c, h, w)]


def model_of(case: Case) -> onnx.ModelProto:
    """A model of one op."""
    shapes = inputs_of(case)
    names = ["x", "y"][: len(shapes)]
    kept = []
    if len(case.shape) == 3:
        weights, out = case.shape[1:], (case.shape[0], case.shape[2])
        node = helper.make_node("MatMul", ["x", "w" if case.constant else "y"], ["o"])
    else:
        h, w, c, o, k, stride = case.shape
        weights, out = (o, c, k, k), (1, o, h // stride, w // stride)
        pads = [k // 2] * 4
        node = helper.make_node("Conv", ["x", "w"], ["o"], strides=[stride] * 2, pads=pads, kernel_shape=[k] * 2)
    if case.constant:
        data = np.random.default_rng(9).standard_normal(weights).astype(np.float32)
        kept = [numpy_helper.from_array(data, "w")]
    ins = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in zip(names, shapes, strict=True)]
    outs = [helper.make_tensor_value_info("o", TensorProto.FLOAT, out)]
    graph = helper.make_graph([node], "product", ins, outs, kept)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def reference(path: Path, inputs: list[np.ndarray]) -> Callable[[], list[float]]:
    """A function that runs a block in onnxruntime and gives the nanoseconds of each run."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    given = {t.name: a for t, a in zip(session.get_inputs(), inputs, strict=True)}

    def block() -> list[float]:
        times = []
        for _ in range(BLOCK):
            start = time.perf_counter_ns()
            session.run(None, given)
            times.append(float(time.perf_counter_ns() - start))
        return times

    return block


def peak_loop(steps: int = 40_000) -> Callable[[], float]:
    """A function that measures the multiply-adds of one core in GFLOP/s."""
    host = load_board("host")
    lanes = machine_for(host.capabilities).floats.lanes
    names = [f"a{k}" for k in range(CHAINS if lanes > 8 else CHAINS // 2)]
    fill = {
        "bytes": 4 * lanes,
        "declare": ", ".join(f"{n} = x" for n in names),
        "step": " ".join(f"{n} = {n} * x + y;" for n in names),
        "total": " + ".join(names),
    }
    tool, target = get_toolchain("zig"), target_for(host)
    made = tool.compile(CompileJob(SourceText("peak.c", PEAK % fill), target, pic=True, opt="3"))
    folder = tempfile.mkdtemp()
    library = ctypes.CDLL(str(tool.link(LinkJob("shared", (made,), target), Path(folder) / "peak.so")))
    library.peak.argtypes, library.peak.restype = [ctypes.c_int64, ctypes.c_float], ctypes.c_float

    def once() -> float:
        start = time.perf_counter_ns()
        library.peak(steps, 0.5)
        return steps * len(names) * lanes * 2 / (time.perf_counter_ns() - start)

    return once


def show(rows: list[dict[str, Any]], missed: list[str]) -> None:
    """The table for a person."""
    console = Console()
    table = Table(title="GFLOP/s on one thread, medians of the best of alternating blocks")
    for column in ("product", "ours", "of peak", "peak", "onnxruntime"):
        table.add_column(column, justify="left" if column == "product" else "right")
    for row in rows:
        table.add_row(
            row["name"],
            f"{row['ours']:.1f}",
            f"{row['percent']:.0f} %",
            f"{row['peak']:.1f}",
            f"{row['onnxruntime']:.1f}",
        )
    console.print(table)
    for line in missed:
        console.print(f"missed: {line}")


if __name__ == "__main__":
    sys.exit(main())
