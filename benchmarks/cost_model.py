"""Shows how well the compiler expects what layers execute, and how well it chooses by that; --fit makes its prices.

    python benchmarks/cost_model.py [--board NAME]... [--layers 50] [--fit] [--json]

Layers are drawn at random: convolutions, pointwise and depthwise ones, dense layers, pools and sums, of random sizes;
each is compiled in all its ways and counted on the stand-in of a board. The error is that of the ways taken, and of
all ways; the regret what the ways taken execute by what the best of each layer would, beside that of the rules without
a choice. --fit first writes sdk/compiler/schedules/prices.py anew, from other layers than those shown, on one board for
each of its rows (with --board for the rows of these). 50 layers of a board take about two minutes of one core, all
boards with --fit about twenty; two boards are counted at a time (--jobs).
Exit code 9 when the median error of a core is above 10 %.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from typing import Any

from cost_fit import TABLE_FILE, fitted, written
from cost_sample import Sample, all_ways
from random_layers import net
from rich.console import Console
from rich.table import Table

from sdk.boards import load_board
from sdk.compiler.schedules.cost import PRICES, Prices, prices_for
from sdk.compiler.schedules.rules.choose import cheapest

BOARDS = ("qemu-cortex-m4", "qemu-cortex-m7", "qemu-cortex-m33", "qemu-cortex-m55", "qemu-cortex-m3", "qemu-riscv32")
FITTED = ("qemu-cortex-m4", "qemu-cortex-m55", "qemu-cortex-m3", "qemu-riscv32")  # one for each row of the table
LIMIT = 0.10
FIT_FIRST, FIT_LAYERS = 1000, 60  # numbers of the layers that prices are fitted to

Row = dict[str, Any]


def main() -> int:
    """Measures and prints; returns the exit code."""
    about = (__doc__ or "").partition("\n\n    python")[0]
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--board", action="append")
    parser.add_argument("--layers", type=int, default=50)
    parser.add_argument("--fit", action="store_true", help="write the table of prices first")
    parser.add_argument("--jobs", type=int, default=2, help="boards at a time")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with ProcessPoolExecutor(args.jobs) as pool:
        prices = PRICES
        if args.fit:
            fitted_on = [b for b in args.board or FITTED if b in FITTED]
            prices = _fit(fitted_on, list(pool.map(_fit_sample, fitted_on)))
        boards = args.board or BOARDS
        shown = pool.map(_sample, boards, [range(args.layers)] * len(boards))
        rows = [_judged(board, samples, prices) for board, samples in zip(boards, shown, strict=True)]
    if args.json:
        print(json.dumps({"schema": 2, "boards": rows}))
    else:
        show(rows)
    return 9 if any(row["median"] > LIMIT for row in rows) else 0


def _sample(board: str, layers: Sequence[int]) -> list[Sample]:
    return all_ways(load_board(board), net, layers)


def _fit_sample(board: str) -> list[Sample]:
    return _sample(board, range(FIT_FIRST, FIT_FIRST + FIT_LAYERS))


def _fit(boards: Sequence[str], known: Sequence[Sequence[Sample]]) -> tuple[Prices, ...]:
    """The table with new rows for some boards, which is written to its file."""
    new: dict[frozenset[str], dict[str, float]] = {}
    for board, samples in zip(boards, known, strict=True):
        row = prices_for(load_board(board).capabilities)
        if row is None:
            raise SystemExit(f"no row of {TABLE_FILE.name} is for {board}: add one with its capabilities")
        new[row.needs] = {name: round(price, 2) for name, price in fitted(samples).items()}
    text = written({" ".join(sorted(needs)): each for needs, each in new.items()}, TABLE_FILE.read_text("utf-8"))
    TABLE_FILE.write_text(text, "utf-8")
    return tuple(Prices(row.needs, new.get(row.needs, row.each)) for row in PRICES)


def _judged(board: str, samples: Sequence[Sample], rows: Sequence[Prices]) -> Row:
    """How far off the prices are for a board, and what choosing by them comes to."""
    prices = prices_for(load_board(board).capabilities, rows)
    if prices is None:
        raise SystemExit(f"no prices for {board}")
    layers: defaultdict[int, list[Sample]] = defaultdict(list)
    for sample in samples:
        layers[sample.layer].append(sample)
    taken = [ways[cheapest([prices.of(s.events) for s in ways])] for ways in layers.values()]
    errors = sorted(abs(prices.of(s.events) / s.counted - 1.0) for s in taken)
    several = [(ways, one) for ways, one in zip(layers.values(), taken, strict=True) if len(ways) > 1]
    return {
        "board": board,
        "layers": len(taken),
        "ways": len(samples),
        "median": statistics.median(errors),
        "p90": errors[int(0.9 * len(errors))],
        "worst": errors[-1],
        "median_all_ways": statistics.median(abs(prices.of(s.events) / s.counted - 1.0) for s in samples),
        "regret": _regret(several, lambda ways, one: one),
        "regret_of_rules": _regret(several, lambda ways, _: ways[0]),
        "worst_regret": max((one.counted / _least(ways) - 1.0 for ways, one in several), default=0.0),
        "operators": [{**asdict(s), "predicted": prices.of(s.events)} for s in samples],
    }


def _regret(several: list[tuple[list[Sample], Sample]], pick: Callable[[list[Sample], Sample], Sample]) -> float:
    """What layers execute in the ways picked, by what the best way of each would: the mean over layers, less 1."""
    return statistics.fmean(pick(ways, one).counted / _least(ways) - 1.0 for ways, one in several) if several else 0.0


def _least(ways: Sequence[Sample]) -> int:
    return min(s.counted for s in ways)


def show(rows: Sequence[Row]) -> None:
    """The table for people."""
    columns = {
        "median error": "median",
        "nine of ten": "p90",
        "worst": "worst",
        "of all ways": "median_all_ways",
        "regret": "regret",
        "worst regret": "worst_regret",
        "rules' regret": "regret_of_rules",
    }
    table = Table("board", "layers", "ways", *columns)
    for row in rows:
        percent = [f"{100 * row[name]:.1f} %" for name in columns.values()]
        table.add_row(row["board"], str(row["layers"]), str(row["ways"]), *percent)
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
