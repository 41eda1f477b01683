"""Prints what whole models take on every kind of core, counted and estimated, beside the best published result.

    python benchmarks/cores.py [--models FOLDER] [--board NAME]... [--toolchain NAME]... [--opt time|size] [--json]

All is counted under emulation; cycles are estimated by the tables of boards/cpu, which know no flash wait states.
Published results are MLPerf Tiny's, on chips with such a core. Exit code 9 when a limit of LIMITS is exceeded; another
compiler than zig may take OTHERS_MORE times as many instructions as zig takes.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from fit_error import MODELS as PUBLISHED_MODELS
from fit_error import PUBLISHED, SAME_CORE
from kernels import OTHERS_MORE
from rich.console import Console
from rich.table import Table

from sdk.boards import load_board
from sdk.driver import BuildOptions
from sdk.driver.artifact import build_sources
from sdk.driver.measuring import count
from sdk.driver.profiling import profile
from sdk.errors import BuildError

MODELS = {**PUBLISHED_MODELS, "person_detect": "person_detect.tflite"}
BOARDS = (
    *("nucleo_l4r5zi", "nucleo_f746zg", "nucleo_u575zi_q", "qemu-cortex-m55"),
    *("nucleo_f103rb", "qemu-cortex-m3", "rpi_pico", "qemu-riscv32"),
)
# million instructions, million estimated cycles: the most that a model may take on a core, with zig
LIMITS: dict[str, dict[str, tuple[float, float | None]]] = {
    "cortex-m4": {
        "KWS": (4.3, 5.2),
        "VWW": (7.0, 9.2),
        "IC": (16.0, 19.8),
        "AD": (0.40, 0.49),
        "person_detect": (9.5, None),
    },
    "cortex-m55": {"IC": (3.5, None)},
}
TEXT_LIMITS = {"time": 10_368, "size": 6 * 1024}
TEXT_MODELS = ("KWS", "VWW", "IC")


def main() -> int:
    """Counts and prints; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--models", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "models")
    parser.add_argument("--board", action="append")
    parser.add_argument("--toolchain", action="append")
    parser.add_argument("--opt", choices=["time", "size"], default="time")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for board in args.board or BOARDS:
        for model in MODELS:
            for toolchain in args.toolchain or ["zig"]:
                found = measured(model, args.models / MODELS[model], board, toolchain, args.opt)
                if found is not None:
                    rows.append(found)
    missed = [f"{r['model']} on {r['core']}, {r['toolchain']}: {what}" for r in rows for what in misses(r, rows)]
    if args.json:
        print(json.dumps({"schema": 1, "models": rows, "missed": missed}))
    else:
        show(rows, missed)
    return 9 if missed else 0


def measured(model: str, path: Path, name: str, toolchain: str, opt: str) -> dict[str, Any] | None:
    """One model on one core; None where its RAM or flash does not hold the model."""
    board, options = load_board(name), BuildOptions(toolchain=toolchain, opt=opt)
    try:
        built = build_sources(path, board, options)
    except BuildError:
        return None
    counts = count(path, board, options)
    macs = sum(op.macs for op in profile(path, board, None, options, {}).ops)
    chips = [chip for chip, ours in SAME_CORE.items() if load_board(ours).core.cpu == board.core.cpu]
    best = [p.cycles(model) for p in PUBLISHED if p.chip in chips] if model in PUBLISHED_MODELS else []
    return {
        "model": model,
        "board": name,
        "core": board.core.cpu,
        "toolchain": toolchain,
        "opt": opt,
        "macs": macs,
        "instructions": counts.instructions,
        "est_cycles": None if counts.est_cycles is None else round(counts.est_cycles),
        "text": built.report.sections["text"],
        "ram_bytes": built.report.ram_bytes,
        "best_published": round(min(best) * 1e6) if best else None,
    }


def misses(row: dict[str, Any], rows: list[dict[str, Any]]) -> list[str]:
    """What is more than its limit."""
    found = []
    if row["toolchain"] != "zig":
        own = [r for r in rows if r["toolchain"] == "zig" and (r["model"], r["board"]) == (row["model"], row["board"])]
        if own and row["instructions"] > OTHERS_MORE * own[0]["instructions"]:
            found.append(f"{row['instructions'] / own[0]['instructions']:.2f} times zig's instructions")
        return found
    max_instructions, cycles = LIMITS.get(row["core"], {}).get(row["model"], (None, None))
    if row["opt"] == "time" and max_instructions is not None and row["instructions"] > max_instructions * 1e6:
        found.append(f"{row['instructions'] / 1e6:.2f} M instructions, limit {max_instructions} M")
    if row["opt"] == "time" and cycles is not None and row["est_cycles"] > cycles * 1e6:
        found.append(f"{row['est_cycles'] / 1e6:.2f} M estimated cycles, limit {cycles} M")
    if row["core"] == "cortex-m4" and row["model"] in TEXT_MODELS and row["text"] > TEXT_LIMITS[row["opt"]]:
        found.append(f"{row['text']:,} bytes of text, limit {TEXT_LIMITS[row['opt']]:,}")
    return found


def show(rows: list[dict[str, Any]], missed: list[str]) -> None:
    """The table for people."""
    columns = ("model", "core", "compiler", "instructions", "per MAC", "est. cycles", "best published", "text", "RAM")
    table = Table(*columns)
    for r in rows:
        numbers = [r["est_cycles"], r["best_published"], r["text"], r["ram_bytes"]]
        cells = ["-" if n is None else f"{n:,}" for n in numbers]
        each = f"{r['instructions'] / r['macs']:.2f}"
        table.add_row(r["model"], r["core"], r["toolchain"], f"{r['instructions']:,}", each, *cells)
    Console().print(table)
    for line in missed:
        Console().print(f"missed: {line}")


if __name__ == "__main__":
    sys.exit(main())
