"""Prints the numbers of the README: RAM, flash and instructions on an emulated Cortex-M4, time beside LiteRT here.

RAM and instructions are of plans for time, then for the smallest RAM.

    python benchmarks/budgets.py [--models FOLDER]

The folder holds the models by the names in MODELS. Times are medians of interleaved blocks, one thread each; under
emulation instructions are counted, never times. Exit code 9 when a budget is exceeded.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from sdk.boards import load_board
from sdk.driver import BuildOptions, bench, build
from sdk.driver.execute import connect
from sdk.report import BuildReport

MODELS = {
    "KWS": "kws_ref_model.tflite",
    "VWW": "vww_96_int8.tflite",
    "IC": "pretrainedResnet_quant.tflite",
    "AD": "ad01_int8.tflite",
    "streaming wake word": "str_ww_ref_model.tflite",
    "person_detect": "person_detect.tflite",
    "micro_speech": "micro_speech_quantized.tflite",
    "hello_world": "hello_world_int8.tflite",
    "okay_nabu": "okay_nabu.tflite",
    "wake_vad": "wake_vad.tflite",
}
RAM_LIMITS = {
    "KWS": 16_512,
    "VWW": 55_808,
    "IC": 49_664,
    "AD": 1_024,
    "person_detect": 55_808,
    "streaming wake word": 7_168,
    "okay_nabu": 8_192,
}
MIN_RAM_LIMITS = {"KWS": 6_656, "IC": 17_920, "VWW": 29_696, "person_detect": 16_384}
# Instructions of a plan for the smallest RAM by those of one for time. A call for one row of KWS stages three rows of
# five pixels, which a call for the whole image stages once.
MIN_RAM_INSTRUCTION_RATIO = {"KWS": 1.38, "IC": 1.05, "VWW": 1.09, "person_detect": 1.05}
LITERT_LIMIT = 2.5
CODE_LIMIT = 1_536  # hello_world: .text and .rodata together
BLOCK, DROP, ROUNDS = 40, 10, 7


def main() -> int:
    """Measures and prints; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--models", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "models"
    )
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows, missed = [], []
    for name, file in MODELS.items():
        row = measure(name, args.models / file)
        rows.append(row)
        missed += row["missed"]
    ratio, ours, theirs = beside_litert(args.models / MODELS["IC"])
    if ratio > LITERT_LIMIT:
        missed.append(f"IC takes {ratio:.2f} times LiteRT's time, limit {LITERT_LIMIT}")
    if args.json:
        litert = {"ours_ms": ours, "litert_ms": theirs, "ratio": ratio}
        print(json.dumps({"schema": 1, "models": rows, "ic_host": litert, "missed": missed}))
    else:
        show(rows, ratio, ours, theirs, missed)
    return 9 if missed else 0


def measure(name: str, path: Path) -> dict[str, object]:
    """Sizes and instructions of one model on the Cortex-M4."""
    report, instructions = on_board(path, BuildOptions())
    min_ram, min_ram_instructions = on_board(path, BuildOptions(memory="min"))
    code = report.sections["text"] + report.sections["rodata"]
    max_instructions = {name: int(more * instructions) for name, more in MIN_RAM_INSTRUCTION_RATIO.items()}
    missed = [
        f"{name}: {value} {what}, limit {limits[name]}"
        for what, value, limits in (
            ("bytes of RAM", report.ram_bytes, RAM_LIMITS),
            ("bytes of smallest RAM", min_ram.ram_bytes, MIN_RAM_LIMITS),
            ("instructions with smallest RAM", min_ram_instructions, max_instructions),
            ("bytes of text and rodata", code, {"hello_world": CODE_LIMIT}),
        )
        if name in limits and value > limits[name]
    ]
    return {
        "model": name,
        "ram": report.ram_bytes,
        "arena": report.arena_bytes,
        "bound": report.arena_lower_bound_bytes,
        "text": report.sections["text"],
        "rodata": report.sections["rodata"],
        "instructions": instructions,
        "min_ram": min_ram.ram_bytes,
        "min_ram_instructions": min_ram_instructions,
        "missed": missed,
    }


def on_board(path: Path, options: BuildOptions) -> tuple[BuildReport, int]:
    """What a build says of its sizes, and the instructions of a run under emulation."""
    board = load_board("nucleo_l4r5zi")
    with tempfile.TemporaryDirectory() as out:
        report = build(path, board, options, emit="c", out=Path(out))
    return report, bench(path, board, None, options, {}, 3, 1).to_json()["instructions"]


def beside_litert(path: Path) -> tuple[float, float, float]:
    """(ratio, our ms, LiteRT's ms) of medians over interleaved blocks, one thread each."""
    from ai_edge_litert.interpreter import Interpreter

    engine = Interpreter(model_path=str(path), num_threads=1)
    engine.allocate_tensors()
    detail = engine.get_input_details()[0]
    engine.set_tensor(
        detail["index"], np.random.default_rng(0).integers(-128, 128, detail["shape"]).astype(np.int8)
    )
    session, _, _ = connect(path, load_board("host"), None, BuildOptions())
    ours, theirs = [], []
    with session:
        session.write(
            0, 0, np.random.default_rng(0).integers(-128, 128, detail["shape"]).astype(np.int8).tobytes()
        )
        for _ in range(ROUNDS):
            ours.append(statistics.median(session.run(0, repeat=BLOCK - DROP, warmup=DROP).samples) / 1e6)
            samples = []
            for _ in range(BLOCK):
                start = time.perf_counter_ns()
                engine.invoke()
                samples.append((time.perf_counter_ns() - start) / 1e6)
            theirs.append(statistics.median(samples[DROP:]))
    mine, other = statistics.median(ours), statistics.median(theirs)
    return mine / other, mine, other


def show(rows: list[dict[str, object]], ratio: float, ours: float, theirs: float, missed: list[str]) -> None:
    """The tables for people."""
    console = Console()
    for title, columns in (
        ("bytes", ("model", "ram", "arena", "bound", "min_ram", "text", "rodata")),
        ("instructions of a run", ("model", "instructions", "min_ram_instructions")),
    ):
        table = Table(*columns, title=f"{title}: Cortex-M4 (nucleo_l4r5zi, emulated), zig cc")
        for row in rows:
            table.add_row(*(f"{v:,}" if isinstance(v, int) else str(v) for v in (row[c] for c in columns)))
        console.print(table)
    console.print(f"IC on this machine: {ours:.3f} ms, LiteRT {theirs:.3f} ms, ratio {ratio:.2f}")
    for line in missed:
        console.print(f"missed: {line}")


if __name__ == "__main__":
    sys.exit(main())
