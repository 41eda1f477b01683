"""Shows how well the compiler predicts what layers execute, beside what an emulated core counts; --fit makes its table.

    python benchmarks/cost_model.py [--board NAME]... [--layers 50] [--fit] [--json]

Layers are drawn at random: convolutions, pointwise and depthwise ones, dense layers, pools and sums, of random sizes.
The table was fitted to other layers than those shown. Exit code 9 when the median error of a core is above 10 %.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from sdk.boards import load_board
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import PlanCall, walk_plan
from sdk.compiler.ir.types import I8
from sdk.compiler.schedules.cost import predict
from sdk.compiler.schedules.events import events
from sdk.driver import BuildOptions
from sdk.driver.explain import stages
from sdk.driver.pipeline import capabilities
from sdk.driver.profiling import profile
from sdk.driver.program import save_program
from sdk.graph import Entry, ModuleBuilder

BOARDS = ("qemu-cortex-m4", "qemu-cortex-m7", "qemu-cortex-m33", "qemu-cortex-m55", "qemu-cortex-m3", "qemu-riscv32")
LIMIT = 0.10
PER_NET = 20  # layers compiled together
MOST_MACS = 300_000
SHOWN_SEED, FIT_SEED, FIT_LAYERS = 1, 1000, 140
USUAL_CALL = 20.0  # instructions of a call; all else is usually one
PULL, LEAST_ERROR, ROUNDS, SWEEPS = 0.003, 0.02, 6, 10_000
FEWEST = 500  # instructions of an operator that counts: less is mostly the call


@dataclass
class Sample:
    """One operator: what it is, its events, and what a core executed and was expected to."""

    what: str
    events: dict[str, float]
    counted: int
    predicted: float | None

    @property
    def error(self) -> float:
        """The prediction's, as a part of what was counted."""
        return (self.predicted or 0.0) / self.counted - 1.0


def main() -> int:
    """Measures and prints; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--board", action="append")
    parser.add_argument("--layers", type=int, default=50)
    parser.add_argument("--fit", action="store_true", help="print a new table for each core")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for board in args.board or BOARDS:
        shown = samples(board, args.layers, SHOWN_SEED)
        if args.fit:
            shown = fitted(board, samples(board, FIT_LAYERS, FIT_SEED), shown)
        errors = sorted(abs(s.error) for s in shown)
        rows.append(
            {
                "board": board,
                "layers": len(shown),
                "median": statistics.median(errors),
                "p90": errors[int(0.9 * len(errors))],
                "worst": errors[-1],
                "operators": [asdict(s) for s in shown],
            }
        )
    if args.json:
        print(json.dumps({"schema": 1, "boards": rows}))
    else:
        show(rows)
    return 9 if any(row["median"] > LIMIT for row in rows) else 0


def samples(name: str, count: int, seed: int) -> list[Sample]:
    """At least ``count`` operators of random layers, executed on a board's stand-in."""
    board, options = load_board(name), BuildOptions()
    isa = capabilities(board, options)
    found: list[Sample] = []
    with tempfile.TemporaryDirectory() as folder:
        while len(found) < count:
            module, seed = net(seed), seed + 1
            path = Path(folder) / f"net{seed}.ir"
            save_program(module, path)
            planned = stages(path, board, options)["planned"]
            report = profile(path, board, None, options, {})
            (plan,) = planned.plans.values()
            calls = {s.index: s for s in walk_plan(plan.body) if isinstance(s, PlanCall)}
            for op in report.ops:
                call = calls[op.index]
                loops = planned.loops[call.callee]
                dims = {v: int(d) for v, d in zip(loops.dims, call.dims, strict=True) if isinstance(d, int)}
                if op.instructions is not None and op.instructions >= FEWEST:
                    guess = predict(loops, dims, isa)
                    found.append(Sample(f"{op.kind} {op.macs}", events(loops, dims), op.instructions, guess))
    return found[:count]


def net(seed: int) -> Module:
    """Some layers beside each other, each from an input to an output of its own."""
    rng = np.random.default_rng(seed)
    builder = ModuleBuilder(f"net{seed}")
    entry = builder.entry("main")
    for k in range(PER_NET):
        entry.output(f"y{k}", _layer(Parts(builder, entry, rng, f"_{k}")))
    return builder.module()


@dataclass
class Parts:
    """Where a layer goes, and the end of its names."""

    builder: ModuleBuilder
    entry: Entry
    rng: np.random.Generator
    end: str

    def const(self, name: str, values: Any, kind: type[np.generic]) -> Any:
        """A constant."""
        return self.builder.const(name + self.end, np.asarray(values).astype(kind))

    def input(self, *shape: int) -> Any:
        """An input of int8."""
        return self.entry.input("x" + self.end, I8, shape)

    def weights(self, *shape: int) -> Any:
        """Weights of int8."""
        return self.const("w", self.rng.integers(-127, 128, shape), np.int8)

    def requantized(self, acc: Any, outputs: int) -> Any:
        """Sums as int8, by a factor for each channel."""
        mult = self.const("mult", self.rng.integers(1 << 30, (1 << 31) - 1, outputs), np.int32)
        shift = self.const("shift", self.rng.integers(-9, -6, outputs), np.int32)
        bounds = {"lo": -128, "hi": 127, "shift_lo": -9, "shift_hi": -7, "acc_bits": 31}
        return self.entry.requantize(acc, mult, shift, out="i8", zp=-128, **bounds)


def _layer(parts: Parts) -> Any:
    """A layer of a kind and of sizes drawn."""
    rng, entry = parts.rng, parts.entry
    kind = str(rng.choice(["pointwise", "pointwise", "conv", "conv", "depthwise", "depthwise", "dense", "pool", "add"]))
    channels, outputs = (int(rng.choice([4, 8, 12, 16, 24, 32, 48, 64, 96])) for _ in range(2))
    kernel, stride = int(rng.choice([3, 3, 5])), int(rng.choice([1, 1, 2]))
    terms = {"pointwise": channels * outputs, "conv": kernel**2 * channels * outputs, "depthwise": kernel**2 * channels}
    side = int(rng.integers(3, 17))
    while side > 3 and side * side * terms.get(kind, channels) > MOST_MACS:
        side -= 1
    if kind == "dense":
        x = parts.input(1, int(rng.integers(2, 65)) * 8)
        bias = parts.const("b", rng.integers(-999, 999, outputs), np.int32)
        acc = entry.dense(x, parts.weights(outputs, x.shape[1]), bias, x_offset=128, w_offset=0)
        return parts.requantized(acc, outputs)
    x = parts.input(1, side, side, channels)
    if kind == "pool":
        square = {"kernel": (2, 2), "stride": (2, 2), "pad": (0, 0, 0, 0)}
        return entry.max_pool2d(x, **square) if rng.integers(2) else entry.avg_pool2d(x, **square)
    if kind == "add":
        return _sum(parts, x, side, channels)
    pad = 0 if kind == "pointwise" else kernel // 2
    steps = (1, 1) if kind == "pointwise" else (stride, stride)
    window = {"stride": steps, "dilation": (1, 1), "pad": (pad,) * 4, "pad_value": -128, "x_offset": 128}
    if kind == "depthwise":
        bias = parts.const("b", rng.integers(-999, 999, channels), np.int32)
        acc = entry.depthwise_conv2d(x, parts.weights(kernel, kernel, channels), bias, multiplier=1, **window)
        return parts.requantized(acc, channels)
    across = 1 if kind == "pointwise" else kernel
    bias = parts.const("b", rng.integers(-999, 999, outputs), np.int32)
    acc = entry.conv2d(x, parts.weights(outputs, across, across, channels), bias, groups=1, **window)
    return parts.requantized(acc, outputs)


def _sum(parts: Parts, x: Any, side: int, channels: int) -> Any:
    other = parts.entry.input("z" + parts.end, I8, (1, side, side, channels))
    scales = {"a_offset": 3, "a_mult": 1 << 30, "a_shift": -1, "b_offset": 5, "b_mult": 3 << 29, "b_shift": -2}
    return parts.entry.add_q(
        x, other, **scales, left_shift=20, out_mult=1 << 30, out_shift=-18, out="i8", zp=-3, lo=-128, hi=127
    )


def fitted(board: str, known: list[Sample], shown: list[Sample]) -> list[Sample]:
    """``shown`` as a table predicts it that is fitted to ``known``; prints the table."""
    names = sorted({name for s in known for name in s.events})
    matrix = np.array([[s.events.get(name, 0.0) / s.counted for name in names] for s in known])
    usual: NDArray[Any] = np.array([USUAL_CALL if name == "call" else 1.0 for name in names])
    table = dict(zip(names, _least_errors(matrix, usual), strict=True))
    print(f"# {board}")
    print(json.dumps({name: round(cost, 2) for name, cost in table.items() if cost >= 0.005}))
    return [Sample(s.what, s.events, s.counted, sum(table.get(n, 1.0) * c for n, c in s.events.items())) for s in shown]


def _least_errors(matrix: NDArray[Any], usual: NDArray[Any]) -> NDArray[Any]:
    """The x >= 0 with the least sum of errors of ``matrix @ x - 1``, pulled a little towards what is usual: least
    squares, over and over, in which an error counts the less the larger it was."""
    rows = np.vstack([matrix, np.diag(np.sqrt(PULL) / usual)])
    wanted = np.concatenate([np.ones(len(matrix)), np.full(len(usual), np.sqrt(PULL))])
    weights, x = np.ones(len(wanted)), usual
    for _ in range(ROUNDS):
        x = _least_squares(rows * weights[:, None], wanted * weights)
        errors = np.abs(matrix @ x - 1.0)
        weights[: len(matrix)] = 1.0 / np.sqrt(np.maximum(errors, LEAST_ERROR))
    return x


def _least_squares(matrix: NDArray[Any], wanted: NDArray[Any]) -> NDArray[Any]:
    """The x >= 0 with the least squares of ``matrix @ x - wanted``, by coordinates in turn."""
    scale: NDArray[Any] = np.maximum(np.linalg.norm(matrix, axis=0), 1e-12)
    scaled = matrix / scale
    gram, right = scaled.T @ scaled, scaled.T @ wanted
    x: NDArray[Any] = np.zeros(len(scale))
    for _ in range(SWEEPS):
        for k in range(len(x)):
            x[k] = max(0.0, x[k] + (right[k] - gram[k] @ x) / gram[k, k])
    out: NDArray[Any] = x / scale
    return out


def show(rows: list[dict[str, Any]]) -> None:
    """The table for people."""
    table = Table("board", "layers", "median error", "nine of ten", "worst")
    for row in rows:
        percent = [f"{100 * row[name]:.1f} %" for name in ("median", "p90", "worst")]
        table.add_row(row["board"], str(row["layers"]), *percent)
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
