"""``python -m tests.wild FOLDER``: every model of a folder on every core that holds it, and a table of it."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from differential.cores import CORES

from wild.survey import BAD, VERDICTS, Row, survey

__all__ = ["files_in", "main", "run", "table"]

FOLDER_VARIABLE = "CROSSLEVEL_WILD"
SUFFIXES = (".tflite", ".onnx")


def files_in(folder: Path) -> list[Path]:
    """The model files below a folder, in order of their names."""
    return sorted(p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())


def run(
    files: Sequence[Path], cores: Sequence[tuple[str, str]], cases: int, seed: int, timeout_s: float, jobs: int
) -> Iterator[Row]:
    """The rows of every file, as they come."""
    count = len(files)
    with ProcessPoolExecutor(jobs) as pool:
        for rows in pool.map(
            survey, files, [cores] * count, [cases] * count, [seed] * count, [timeout_s] * count
        ):
            yield from rows


def table(rows: Sequence[Row]) -> str:
    """Of each core and compiler how many files came to what; the reasons; each file that is wrong or crashed."""
    counts = Counter((r.core, r.compiler, r.verdict) for r in rows)
    lines = [f"{'core':10}{'compiler':26}" + "".join(f"{v:>14}" for v in VERDICTS)]
    for core, compiler in dict.fromkeys((r.core, r.compiler) for r in rows):
        numbers = "".join(f"{counts[core, compiler, v]:14}" for v in VERDICTS)
        lines.append(f"{core:10}{compiler:26}{numbers}")
    reasons = Counter((r.verdict, r.detail) for r in rows if r.verdict in ("refused", "within bound", "exact"))
    lines += [f"{count:6}  {verdict}: {reason}" for (verdict, reason), count in reasons.most_common()]
    lines += [f"{r.file} on {r.core}, {r.compiler}: {r.verdict}: {r.detail}" for r in rows if r.verdict in BAD]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; 1 where a file is wrong or crashes something."""
    parser = argparse.ArgumentParser(prog="python -m tests.wild", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=os.environ.get(FOLDER_VARIABLE))
    parser.add_argument("--core", action="append", choices=list(CORES), help="may be given again; all by default")
    parser.add_argument("--compiler", choices=["zig", "gcc", "both"], default="both")
    parser.add_argument("--cases", type=int, default=20, help="runs of each file; steps of one with state")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds for a file")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--each", action="store_true", help="a line for each file and core as it comes")
    given = parser.parse_args(argv)
    if given.folder is None or not Path(given.folder).is_dir():
        parser.error(f"give a folder of models, or its name in {FOLDER_VARIABLE}")
    cores = [
        (core, compiler)
        for core in given.core or CORES
        for compiler in CORES[core].compilers
        if given.compiler in ("both", "gcc" if compiler.endswith("gcc") else compiler)
    ]
    rows = []
    for row in run(files_in(Path(given.folder)), cores, given.cases, given.seed, given.timeout, given.jobs):
        rows.append(row)
        if given.each:
            print(f"{row.file:32}{row.core:10}{row.compiler:26}{row.verdict}: {row.detail}", flush=True)
    print(table(rows))
    return 1 if any(r.verdict in BAD for r in rows) else 0
