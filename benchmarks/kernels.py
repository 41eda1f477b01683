"""Prints what one layer takes per multiply-accumulate on emulated cores, requantisation included.

    python benchmarks/kernels.py [--board NAME]... [--toolchain NAME]... [--only WORD] [--json]

Instructions are counted, cycles estimated from them where the core has a table. Each row of CASES is a model of one
layer with random weights; LIMITS says how many instructions it may take on a core. With another compiler than zig a
case may take OTHERS_MORE times its limit. Exit code 9 when a limit is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from sdk.boards import load_board
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import F32, I8, I16
from sdk.driver import BuildOptions
from sdk.driver.measuring import count
from sdk.driver.program import save_program
from sdk.graph import ModuleBuilder

OTHERS_MORE = 1.08
SEED = 0


@dataclass(frozen=True)
class Case:
    """A layer: "pointwise", "dense", "conv", "depthwise", or of floats "floats" and "float depthwise"; ``shape`` is
    (side, channels, outputs, kernel). ``wide``: 16-bit activations and a 64-bit bias."""

    name: str
    kind: str
    shape: tuple[int, int, int, int]
    wide: bool = False

    @property
    def macs(self) -> int:
        """Multiply-accumulates of a run, those in the padding among them."""
        side, channels, outputs, kernel = self.shape
        return side * side * outputs * kernel * kernel * (1 if "depthwise" in self.kind else channels)

    def fits(self, board: str) -> bool:
        """Whether input and output leave a board half as much RAM for everything else; all fit below a system."""
        side, channels, outputs, _ = self.shape
        place = load_board(board)
        bytes_ = side * side * (channels + outputs) * (3.2 if self.wide else 1.6)
        return place.hosted or bytes_ <= (place.ram_bytes or 0)


CASES = (
    Case("pointwise K=8", "pointwise", (16, 8, 16, 1)),
    Case("pointwise K=16", "pointwise", (16, 16, 32, 1)),
    Case("pointwise K=32", "pointwise", (12, 32, 64, 1)),
    Case("pointwise K=64", "pointwise", (12, 64, 64, 1)),
    Case("pointwise K=64, small", "pointwise", (6, 64, 64, 1)),
    Case("pointwise K=128", "pointwise", (6, 128, 128, 1)),
    Case("pointwise K=256", "pointwise", (3, 256, 256, 1)),
    Case("dense 128 to 128", "dense", (1, 128, 128, 1)),
    Case("dense 640 to 128", "dense", (1, 640, 128, 1)),
    Case("conv 3x3 C=3", "conv", (16, 3, 16, 3)),
    Case("conv 3x3 C=16", "conv", (16, 16, 16, 3)),
    Case("conv 3x3 C=32", "conv", (12, 32, 32, 3)),
    Case("conv 3x3 C=64", "conv", (8, 64, 64, 3)),
    Case("depthwise 3x3", "depthwise", (12, 64, 64, 3)),
    Case("depthwise 3x3, width 5", "depthwise", (5, 64, 64, 3)),
    Case("depthwise 3x3, width 6", "depthwise", (6, 128, 128, 3)),
    Case("depthwise 3x3, width 24", "depthwise", (24, 32, 32, 3)),
    Case("depthwise 3x3, width 48", "depthwise", (48, 8, 8, 3)),
    Case("conv 3x3 C=1", "conv", (32, 1, 8, 3)),
    Case("int16 pointwise K=16", "pointwise", (16, 16, 32, 1), True),
    Case("int16 pointwise K=64", "pointwise", (12, 64, 64, 1), True),
    Case("int16 pointwise K=128", "pointwise", (6, 128, 128, 1), True),
    Case("int16 dense 640 to 128", "dense", (1, 640, 128, 1), True),
    Case("int16 dense 2048 to 64", "dense", (1, 2048, 64, 1), True),
    Case("int16 conv 3x3 C=3", "conv", (16, 3, 16, 3), True),
    Case("int16 conv 3x3 C=1", "conv", (32, 1, 8, 3), True),
    Case("int16 conv 3x3 C=16", "conv", (16, 16, 16, 3), True),
    Case("int16 depthwise 3x3", "depthwise", (12, 64, 64, 3), True),
    Case("int16 depthwise 3x3, width 5", "depthwise", (5, 64, 64, 3), True),
    Case("float pointwise K=64", "floats", (12, 64, 64, 1)),
    Case("float depthwise 3x3", "float depthwise", (12, 64, 64, 3)),
    Case("float conv 3x3 C=32", "floats", (12, 32, 32, 3)),
)
# Instructions per multiply-accumulate: core (its CPU's name) -> case -> limit.
LIMITS: dict[str, dict[str, float]] = {
    "cortex-m4": {
        "pointwise K=32": 1.6,
        "pointwise K=64": 1.35,
        "pointwise K=128": 1.35,
        "pointwise K=256": 1.35,
        "dense 128 to 128": 1.5,
        "dense 640 to 128": 1.5,
        "conv 3x3 C=16": 1.35,
        "conv 3x3 C=32": 1.35,
        "conv 3x3 C=64": 1.35,
        "conv 3x3 C=3": 1.9,
        "depthwise 3x3": 3.0,
        "depthwise 3x3, width 5": 3.0,
        "depthwise 3x3, width 6": 3.0,
        "depthwise 3x3, width 24": 3.0,
        "depthwise 3x3, width 48": 3.0,
        "int16 pointwise K=16": 1.7,
        "int16 pointwise K=64": 1.2,
        "int16 pointwise K=128": 1.1,
        "int16 dense 640 to 128": 1.0,
        "int16 dense 2048 to 64": 1.05,
        "int16 conv 3x3 C=3": 1.6,
        "int16 conv 3x3 C=16": 1.1,
        "float depthwise 3x3": 3.7,
        "int16 depthwise 3x3": 2.4,
        "int16 depthwise 3x3, width 5": 2.6,
    },
    "cortex-m0": {"pointwise K=64, small": 4.0, "pointwise K=128": 3.6, "dense 128 to 128": 3.6, "conv 3x3 C=64": 3.3},
    "cortex-m3": {"pointwise K=64": 2.5, "pointwise K=128": 2.5, "dense 128 to 128": 3.0, "conv 3x3 C=64": 2.6},
    "generic-rv32": {"pointwise K=64": 3.3, "pointwise K=128": 3.2, "dense 128 to 128": 3.9, "conv 3x3 C=64": 3.5},
    "cortex-m55": {
        "pointwise K=64": 0.25,
        "pointwise K=128": 0.25,
        "pointwise K=256": 0.25,
        "dense 128 to 128": 0.25,
        "dense 640 to 128": 0.25,
        "conv 3x3 C=16": 0.35,
        "conv 3x3 C=32": 0.25,
        "conv 3x3 C=64": 0.25,
    },
    "cortex-a72": {"pointwise K=64": 0.38, "pointwise K=128": 0.36, "conv 3x3 C=64": 0.34, "depthwise 3x3": 0.8},
    "cortex-a76": {
        "pointwise K=64": 0.14,
        "pointwise K=64, small": 0.14,
        "pointwise K=128": 0.14,
        "pointwise K=256": 0.14,
        "conv 3x3 C=16": 0.13,
        "conv 3x3 C=64": 0.1,
        "depthwise 3x3": 0.8,
    },
    "cortex-a710": {"pointwise K=64": 0.12, "pointwise K=128": 0.1, "conv 3x3 C=64": 0.08, "depthwise 3x3": 0.8},
    "cortex-m7": {"float pointwise K=64": 1.3, "float depthwise 3x3": 2.7},
}


def main() -> int:
    """Measures and prints; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--board", action="append")
    parser.add_argument("--toolchain", action="append")
    parser.add_argument("--only", default="")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = [
        measured(case, board, toolchain)
        for board in args.board or ["nucleo_l4r5zi"]
        for case in CASES
        if args.only in case.name and case.fits(board)
        for toolchain in args.toolchain or ["zig"]
    ]
    missed = [row for row in rows if row["limit"] is not None and row["per_mac"] > row["limit"]]
    if args.json:
        print(json.dumps({"schema": 1, "kernels": rows, "missed": missed}))
    else:
        show(rows, missed)
    return 9 if missed else 0


def measured(case: Case, board: str, toolchain: str) -> dict[str, Any]:
    """Instructions of one run of a case, by its multiply-accumulates, and the limit (None: none is set)."""
    place = load_board(board)
    limit = LIMITS.get(place.core.cpu, {}).get(case.name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layer.ir"
        save_program(layer(case), path)
        options = BuildOptions(toolchain=toolchain)
        counts = count(path, place, options)
    return {
        "case": case.name,
        "board": board,
        "core": place.core.cpu,
        "toolchain": toolchain,
        "macs": case.macs,
        "instructions": counts.instructions,
        "per_mac": round(counts.instructions / case.macs, 3),
        "cycles_per_mac": None if counts.est_cycles is None else round(counts.est_cycles / case.macs, 3),
        "limit": limit if limit is None or toolchain == "zig" else round(limit * OTHERS_MORE, 3),
    }


def layer(case: Case) -> Module:
    """The model of one layer: int8 or int16 in and out, weights in -127..127, a multiplier for each output channel."""
    rng = np.random.default_rng(SEED)
    side, channels, outputs, kernel = case.shape
    builder = ModuleBuilder("layer")
    if "float" in case.kind:
        return floats(case, builder, rng)
    entry = builder.entry("main")
    shape = (1, channels) if case.kind == "dense" else (1, side, side, channels)
    kind, zero = (I16, 0) if case.wide else (I8, -128)
    x = entry.input("x", kind, shape)
    bias = builder.const("bias", rng.integers(-999, 999, outputs).astype(np.int64 if case.wide else np.int32))
    if case.kind == "dense":
        acc = entry.dense(x, weights(builder, rng, (outputs, channels)), bias, x_offset=-zero, w_offset=0)
    elif case.kind == "depthwise":
        taps = weights(builder, rng, (kernel, kernel, channels))
        acc = entry.depthwise_conv2d(x, taps, bias, multiplier=1, **window(kernel, zero))
    else:
        taps = weights(builder, rng, (outputs, kernel, kernel, channels))
        acc = entry.conv2d(x, taps, bias, groups=1, **window(kernel, zero))
    mult = builder.const("mult", rng.integers(1 << 30, (1 << 31) - 1, outputs).astype(np.int32))
    shift = builder.const("shift", rng.integers(-9, -6, outputs).astype(np.int32))
    lo, hi = kind.limits
    bounds = {"lo": lo, "hi": hi, "shift_lo": -9, "shift_hi": -7, "acc_bits": 47 if case.wide else 31}
    entry.output("y", entry.requantize(acc, mult, shift, out=str(kind), zp=zero, **bounds))
    return builder.module()


def floats(case: Case, builder: ModuleBuilder, rng: np.random.Generator) -> Module:
    """The model of a convolution of floats."""
    side, channels, outputs, kernel = case.shape
    entry = builder.entry("main")
    x = entry.input("x", F32, (1, side, side, channels))
    shape = (kernel, kernel, channels) if "depthwise" in case.kind else (outputs, kernel, kernel, channels)
    taps = builder.const("weights", rng.standard_normal(shape).astype(np.float32))
    bias = builder.const("bias", rng.standard_normal(outputs).astype(np.float32))
    attributes = {"stride": (1, 1), "dilation": (1, 1), "pad": (kernel // 2,) * 4}
    if "depthwise" in case.kind:
        entry.output("y", entry.depthwise_conv2d(x, taps, bias, multiplier=1, **attributes))
    else:
        entry.output("y", entry.conv2d(x, taps, bias, groups=1, **attributes))
    return builder.module()


def weights(builder: ModuleBuilder, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """A constant of random weights."""
    return builder.const("weights", rng.integers(-127, 128, shape).astype(np.int8))


def window(kernel: int, zero: int) -> dict[str, Any]:
    """The attributes of a convolution of stride 1 that keeps the size of an image with this zero point."""
    pad = kernel // 2
    return {"stride": (1, 1), "dilation": (1, 1), "pad": (pad,) * 4, "pad_value": zero, "x_offset": -zero}


def show(rows: list[dict[str, Any]], missed: list[dict[str, Any]]) -> None:
    """The table for people."""
    console = Console()
    table = Table("case", "board", "core", "compiler", "instructions", "per MAC", "limit", "cycles per MAC")
    for row in rows:
        limit = "" if row["limit"] is None else f"{row['limit']:.2f}"
        table.add_row(
            row["case"],
            row["board"],
            row["core"],
            row["toolchain"],
            f"{row['instructions']:,}",
            f"{row['per_mac']:.2f}",
            limit,
            "" if row["cycles_per_mac"] is None else f"{row['cycles_per_mac']:.2f}",
        )
    console.print(table)
    for row in missed:
        console.print(
            f"missed: {row['case']} on {row['board']}, {row['toolchain']}: "
            f"{row['per_mac']} per MAC, limit {row['limit']}"
        )


if __name__ == "__main__":
    sys.exit(main())
