"""Prints how fast nests without products run on one core of this machine, beside numpy: GB/s of operands and results.

    python benchmarks/vector.py [--json] [--only WORD]

Each case is one op, scheduled by the default rules and compiled as the host's kernels are; nothing is tuned. The limit
is what copying the same bytes by memcpy takes. Runs of ours, of numpy and of the copy alternate, and the best of each
are compared; memory is what it moves once: every operand read, every result written.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from sdk.boards import load_board
from sdk.codegen_c.functions.stmt import emit_loops
from sdk.codegen_c.functions.unit import Unit
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.types import BOOL, F32, I8, U8, TensorType
from sdk.compiler.machines.lookup import machine_for
from sdk.compiler.machines.nest import Nest
from sdk.compiler.memory.scratch import scratch_layout
from sdk.compiler.ops.registry import get_op, infer
from sdk.compiler.schedules.rules import schedule_nest
from sdk.toolchains import CompileJob, LinkJob, SourceText, get_toolchain, target_for

ROUNDS, MIN_BLOCK_S = 7, 0.004


@dataclass(frozen=True)
class Case:
    """An op on arrays of these types."""

    name: str
    op: str
    inputs: tuple[TensorType, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    numpy: Callable[..., Any] | None = None


def t(*shape: int, kind: Any = F32) -> TensorType:
    """A tensor of f32, or of another kind."""
    return TensorType(kind, shape)


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _layer_norm(x: Any, scale: Any, bias: Any) -> Any:
    down = x - x.mean(axis=-1, keepdims=True)
    return down / np.sqrt(np.square(down).mean(axis=-1, keepdims=True) + np.float32(1e-5)) * scale + bias


def _taps(fn: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Any, *rest: Any) -> Any:
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        h, w = x.shape[1:3]
        return fn([padded[:, i : i + h, j : j + w] for i in range(3) for j in range(3)], *rest)

    return run


EPS = {"epsilon": 1e-5}
WINDOW = {"stride": (1, 1), "dilation": (1, 1), "pad": (1, 1, 1, 1), "multiplier": 1}
POOL = {"kernel": (3, 3), "stride": (1, 1), "pad": (1, 1, 1, 1)}
CASES = (
    Case("add", "add", (t(256, 1024), t(256, 1024)), {}, np.add),
    Case("add, rows of 37", "add", (t(1000, 37), t(37)), {}, np.add),
    Case("mul by a column", "mul", (t(256, 1024), t(256, 1)), {}, np.multiply),
    Case("relu", "relu", (t(1, 56, 56, 64),), {}, lambda x: np.maximum(x, np.float32(0))),
    Case("exp", "exp", (t(64, 1024),), {}, np.exp),
    Case("log", "log", (t(64, 1024),), {}, lambda x: np.log(np.abs(x))),
    Case("tanh", "tanh", (t(64, 1024),), {}, np.tanh),
    Case("sigmoid", "sigmoid", (t(64, 1024),), {}, lambda x: 1 / (1 + np.exp(-x))),
    Case("erf", "erf", (t(64, 1024),), {}, None),
    Case("gelu", "gelu", (t(64, 1536),), {"tanh": False}, None),
    Case("sin", "sin", (t(64, 1024),), {}, np.sin),
    Case("sqrt", "sqrt", (t(64, 1024),), {}, lambda x: np.sqrt(np.abs(x))),
    Case("where", "where", (t(64, 1024, kind=BOOL), t(64, 1024), t(64, 1024)), {}, np.where),
    Case("f32 to i8", "cast", (t(64, 1024),), {"to": "i8"}, lambda x: x.astype(np.int8)),
    Case("u8 to f32", "cast", (t(64, 1024, kind=U8),), {"to": "f32"}, lambda x: x.astype(np.float32)),
    Case("sum of rows", "reduce_sum", (t(256, 1024),), {"axes": (1,)}, lambda x: x.sum(1)),
    Case("max of rows", "reduce_max", (t(256, 1000),), {"axes": (1,)}, lambda x: x.max(1)),
    Case("mean of columns", "reduce_mean", (t(256, 1024),), {"axes": (0,)}, lambda x: x.mean(0)),
    Case("global average", "reduce_mean", (t(1, 14, 14, 512),), {"axes": (1, 2)}, lambda x: x.mean((1, 2))),
    Case("softmax, 64", "softmax", (t(768, 64),), {}, _softmax),
    Case("softmax, 1000", "softmax", (t(64, 1000),), {}, _softmax),
    Case("layer_norm, 384", "layer_norm", (t(128, 384), t(384), t(384)), EPS, _layer_norm),
    Case("rms_norm, 2048", "rms_norm", (t(64, 2048), t(2048)), EPS, None),
    Case("transpose", "transpose", (t(512, 384),), {"perm": (1, 0)}, lambda x: x.T.copy()),
    Case("transpose, bytes", "transpose", (t(512, 512, kind=I8),), {"perm": (1, 0)}, lambda x: x.T.copy()),
    Case("heads apart", "transpose", (t(128, 12, 64),), {"perm": (1, 0, 2)}, lambda x: x.transpose(1, 0, 2).copy()),
    Case("to channels first", "transpose", (t(1, 28, 28, 128),), {"perm": (0, 3, 1, 2)},
         lambda x: x.transpose(0, 3, 1, 2).copy()),
    Case("depthwise 3x3", "depthwise_conv2d", (t(1, 28, 28, 192), t(3, 3, 192), t(192)), WINDOW,
         _taps(lambda taps, w, b: sum(a * k for a, k in zip(taps, w.reshape(9, -1), strict=True)) + b)),
    Case("max pool 3x3", "max_pool2d", (t(1, 28, 28, 128),), POOL, _taps(lambda taps: np.maximum.reduce(taps))),
)  # fmt: skip


def kernel(case: Case, name: str) -> Loops:
    """The nest of a case as the default rules schedule it for this machine."""
    attrs = tuple(sorted(case.attrs.items()))
    plain = get_op(case.op).loops(name, case.inputs, infer(case.op, case.inputs, attrs), case.attrs)
    return schedule_nest(Nest(plain), machine_for(load_board("host").capabilities))


def library(loops: list[Loops], folder: Path) -> ctypes.CDLL:
    """All kernels in one library, each behind ``call_<name>(buffers, lo, hi)``."""
    board = load_board("host")
    unit = Unit("m", board.capabilities)
    blocks = []
    for f in loops:
        printed = emit_loops(unit, f, scratch_layout(f).offsets)
        count = len(f.params) + (1 if printed.scratch else 0)
        args = ", ".join([*(f"buffers[{k}]" for k in range(count)), *(["lo", "hi"] if f.rows else [])])
        head = f"void call_{f.name}(void *const *buffers, int32_t lo, int32_t hi)"
        blocks.append(f"{printed.text}\n{head};\n{head} {{ (void)lo; (void)hi; {printed.name}({args}); }}")
    head = "#include <stdbool.h>\n#include <stdint.h>\n#define M_NOINLINE __attribute__((noinline))\n"
    text = "\n\n".join([head, unit.preamble(), *blocks]) + "\n"
    tool, target = get_toolchain("zig"), target_for(board)
    job = CompileJob(SourceText("vector.c", text), target, pic=True)
    return ctypes.CDLL(str(tool.link(LinkJob("shared", (tool.compile(job),), target), folder / "vector.so")))


def best(call: Callable[[], object]) -> float:
    """Seconds of one call: the fastest of a few runs in a row."""
    times = []
    end = time.perf_counter() + MIN_BLOCK_S
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def aligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy that begins at a cache line."""
    room = np.zeros(array.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    out = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


def measure(case: Case, loops: Loops, lib: ctypes.CDLL) -> dict[str, Any]:
    """Times of ours, numpy's and of a copy, and that the results agree."""
    rng = np.random.default_rng(1)
    args = [
        rng.standard_normal(x.static_shape).astype(np.float32) if x.dtype == F32 else
        rng.integers(0, 2 if x.dtype == BOOL else 100, x.static_shape).astype(x.dtype.numpy)
        for x in case.inputs
    ]  # fmt: skip
    if case.op in ("log", "sqrt"):
        args = [np.abs(a) for a in args]
    args = [aligned(a) for a in args]
    want = np.asarray(get_op(case.op).reference(*args, **case.attrs))
    got, scratch = aligned(np.zeros_like(want)), aligned(np.zeros(scratch_layout(loops).bytes + 1, np.uint8))
    pointers = (ctypes.c_void_p * (len(args) + 2))(*(a.ctypes.data for a in (*args, got, scratch)))
    extent = loops.rows.extent if loops.rows else 0
    function = getattr(lib, f"call_{loops.name}")

    def ours() -> None:
        function(pointers, 0, extent)

    moved = sum(a.nbytes for a in args) + got.nbytes
    source, sink = np.zeros(moved // 2, np.uint8), np.zeros(moved // 2, np.uint8)
    fn = case.numpy
    runs: dict[str, list[float]] = {"ours": [], "numpy": [], "copy": []}
    for _ in range(ROUNDS):
        runs["ours"].append(best(ours))
        runs["copy"].append(best(lambda: ctypes.memmove(sink.ctypes.data, source.ctypes.data, moved // 2)))
        if fn is not None:
            runs["numpy"].append(best(lambda: fn(*args)))
    if got.dtype.kind == "f" and not np.allclose(got, want, rtol=1e-4, atol=1e-4):
        raise SystemExit(f"{case.name}: wrong result")
    seconds = {k: min(v) if v else math.nan for k, v in runs.items()}
    return {
        "name": case.name,
        "us": seconds["ours"] * 1e6,
        "gb_per_s": moved / seconds["ours"] / 1e9,
        "numpy_gb_per_s": None if fn is None else moved / seconds["numpy"] / 1e9,
        "copy_gb_per_s": moved / seconds["copy"] / 1e9,
        "ns_per_result": seconds["ours"] * 1e9 / got.size,
        "schedule": loops.trace,
    }


def main() -> int:
    """Runs the cases and prints them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    cases = [c for c in CASES if options.only in c.name]
    kernels = [kernel(c, f"k{i}") for i, c in enumerate(cases)]
    with tempfile.TemporaryDirectory() as folder:
        lib = library(kernels, Path(folder))
        rows = [measure(c, k, lib) for c, k in zip(cases, kernels, strict=True)]
    if options.json:
        print(json.dumps({"schema": 1, "cases": rows}))
        return 0
    table = Table("case", "us", "GB/s", "numpy", "copy", "ns/result")
    for row in rows:
        other = "" if row["numpy_gb_per_s"] is None else f"{row['numpy_gb_per_s']:.1f}"
        table.add_row(row["name"], f"{row['us']:.1f}", f"{row['gb_per_s']:.1f}", other, f"{row['copy_gb_per_s']:.1f}",
                      f"{row['ns_per_result']:.3f}")  # fmt: skip
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
