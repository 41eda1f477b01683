"""Prints how many offset problems the planner solves at their bound, and how long it takes.

    python benchmarks/planning.py [FOLDER ...] [--count N] [--capacity BYTES] [--seconds S] [--python]

First N problems shaped like real nets, made from seeds (generated_nets.py), at least half of which need more than 1.1
times their largest live set when placed by size; the limit for each is 100 ms of one core's time, which other programs
do not lengthen. The bound is the largest live set with
its padding; where the search proves that no placement reaches it, what is proved counts. The library of the search is
compiled or loaded once, before the clock starts; that takes the time printed. Then every .csv file (columns id, lower,
upper, size; upper is the first step at which a block is gone) in each FOLDER, which is to fit --capacity bytes within
--seconds of one core. --python leaves the library out. Exit code 9 when a budget is missed.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from generated_nets import FAMILIES, problems
from rich.console import Console
from rich.table import Table

from sdk.compiler.memory.compiled_search import provide
from sdk.compiler.memory.planner import plan_offsets
from sdk.compiler.memory.planner.native import SOURCE
from sdk.compiler.memory.problem import Block, Placement, lower_bound
from sdk.driver.host_c import load_c

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S, SHARE = 0.1, 0.98


@dataclass(frozen=True)
class Solved:
    """One generated problem: its family, whether it is hard, where the planner ended, and seconds."""

    family: str
    hard: bool
    blocks: int
    at_bound: bool
    proved_higher: bool
    seconds: float


def check(problem: str, blocks: list[Block], placed: Placement) -> None:
    """Ends the program where blocks overlap."""
    if import_module("placements").overlaps(blocks, placed.offsets):
        raise SystemExit(f"{problem}: blocks overlap")


def solve_generated(count: int) -> Iterator[Solved]:
    """Plans ``count`` generated problems."""
    for seed, hard, blocks in problems(count):
        start = time.process_time()
        placed = plan_offsets(blocks)
        seconds = time.process_time() - start
        check(f"problem {seed}", blocks, placed)
        higher = placed.lower_bound > lower_bound(blocks)
        family = FAMILIES[seed % len(FAMILIES)].__name__
        yield Solved(family, hard, len(blocks), placed.optimal, higher, seconds)


def generated_table(results: list[Solved]) -> Table:
    """Counts and times by family; "proved": at a bound that the search proved to be above the largest live set."""
    table = Table("family", "count", "hard", "blocks", "at bound", "proved", "in 100 ms", "98 % in", "worst")
    groups = [(f.__name__, [r for r in results if r.family == f.__name__]) for f in FAMILIES]
    for name, group in [*groups, ("all", results)]:
        if not group:
            continue
        times = sorted(r.seconds for r in group)
        table.add_row(
            name,
            str(len(group)),
            str(sum(r.hard for r in group)),
            f"{min(r.blocks for r in group)}-{max(r.blocks for r in group)}",
            f"{sum(r.at_bound for r in group) / len(group):.1%}",
            str(sum(r.at_bound and r.proved_higher for r in group)),
            f"{sum(r.at_bound and r.seconds <= LIMIT_S for r in group) / len(group):.1%}",
            f"{times[int(SHARE * (len(times) - 1))] * 1000:.0f} ms",
            f"{times[-1] * 1000:.0f} ms",
        )
    return table


def read_problem(path: Path) -> list[Block]:
    """The blocks of a file."""
    with path.open() as file:
        return [
            Block(r["id"], int(r["size"]), int(r["lower"]), int(r["upper"]) - 1) for r in csv.DictReader(file)
        ]


def solve_folder(folder: Path, capacity: int, seconds: float, table: Table) -> bool:
    """Adds a row for each file; whether all fit in time."""
    well = True
    for path in sorted(folder.glob("*.csv")):
        blocks = read_problem(path)
        start = time.perf_counter()
        placed = plan_offsets(blocks, enough=capacity, node_limit=1 << 40, seconds=seconds)
        took = time.perf_counter() - start
        check(str(path), blocks, placed)
        fits = placed.peak <= capacity and took <= seconds
        well &= fits
        row = (path.name, len(blocks), f"{placed.lower_bound:,}", f"{placed.peak:,}", f"{took:.2f} s")
        table.add_row(*map(str, row), "yes" if fits else "no")
    return well


def main() -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", metavar="FOLDER", nargs="*", type=Path, help="of .csv problems")
    parser.add_argument("--count", type=int, default=1000, help="generated problems (default 1000)")
    parser.add_argument("--capacity", type=int, default=1 << 20, help="bytes for problems of files (default 1048576)")
    parser.add_argument("--seconds", type=float, default=60, help="for each of them (default 60)")
    parser.add_argument("--python", action="store_true", help="search in Python only")
    args = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests" / "memory"))
    console, well = Console(width=100), True
    if args.python:
        provide(None)
    else:
        start = time.perf_counter()
        library = load_c(SOURCE)
        provide(lambda _: library)
        console.print(f"library of the search ready after {time.perf_counter() - start:.2f} s")
    if args.count:
        results = list(solve_generated(args.count))
        console.print(generated_table(results))
        well &= sum(r.at_bound and r.seconds <= LIMIT_S for r in results) >= SHARE * len(results)
    if args.folders:
        table = Table("problem", "blocks", "bound", "peak", "time", "fits")
        for folder in args.folders:
            well &= solve_folder(folder, args.capacity, args.seconds, table)
        console.print(table)
    return 0 if well else 9


if __name__ == "__main__":
    sys.exit(main())
