"""Counts random layers in every candidate schedule, and shows what a search among them could save over the rules.

    python benchmarks/schedule_candidates.py [--board NAME]... [--layers 50] [--first 0] [--json]

Layers are drawn at random: convolutions, pointwise and depthwise ones, dense layers. Each is compiled in all
candidates that its rule has on the core (`candidates` of a row in sdk/compiler/machines), and the instructions are
counted on the emulated target of the board. For each kind of layer there is a line for each candidate: how many layers
have it, of how many it is the best, and how much more than the rules' own choice, "default", it executes in the mean;
the last line is what the best candidate of each layer comes to, which is what a tuner could gain. 50 layers of a board
take half a minute.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from random_layers import KINDS, kind_of, net
from rich.console import Console
from rich.table import Table

from sdk.boards import Board, load_board
from sdk.codegen_c import get_backend
from sdk.codegen_c.base import EmitOptions
from sdk.compiler.ir.graph import Call
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import PlanCall, walk_plan
from sdk.compiler.machines.lookup import machine_for
from sdk.compiler.machines.nest import DEFAULT
from sdk.compiler.memory.effects import Effects
from sdk.compiler.passes.memory_aware_scheduling import MemoryAwareScheduling
from sdk.compiler.passes.merge_functions import MergeFunctions
from sdk.compiler.passes.pipeline import run_pipeline
from sdk.compiler.passes.schedule import ScheduleLoops, candidates_of
from sdk.devices.client import Session
from sdk.driver import BuildOptions
from sdk.driver.agents import link_agent
from sdk.driver.counting import PHASE_OP, counted
from sdk.driver.pipeline import default_passes, lower_module
from sdk.driver.sources import Sources, as_files

BOARDS = ("qemu-cortex-m4", "qemu-cortex-m3", "qemu-riscv32")  # one for each core that has candidates
BEST = "best of each"
MIN_INSTRUCTIONS = 500  # instructions of a layer that counts: less is mostly the call
TOGETHER = 20  # layers compiled together
MAX_SENT_BYTES = 1024  # bytes of an input that are not 0: what is sent to a machine is slow to count
PREFIX = "net"

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Layer:
    """What a layer executes, by the name of the candidate, the rules' own choice first."""

    number: int
    counts: Mapping[str, int]

    @property
    def best(self) -> str:
        """The candidate that executes least."""
        return min(self.counts, key=lambda name: self.counts[name])

    def over(self, name: str) -> float:
        """How much more than the rules' choice a candidate executes, as a part of that."""
        return self.counts[name] / self.counts[str(DEFAULT)] - 1.0


def main() -> int:
    """Counts and prints; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--board", action="append")
    parser.add_argument("--layers", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="the number of the first layer: others are other layers")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    numbers = range(args.first, args.first + args.layers)
    rows = [row for name in args.board or BOARDS for row in summary(name, measured(load_board(name), numbers))]
    if args.json:
        print(json.dumps({"schema": 1, "rows": rows}))
    else:
        show(rows)
    return 0


def measured(board: Board, layers: Iterable[int]) -> list[Layer]:
    """The layers with these numbers that have several candidates, in all of them."""
    numbers = list(layers)
    names = {k: found for part in _parts(numbers) for k, found in _candidates(board, net(part)).items()}
    several = [k for k in numbers if len(names[k]) > 1]
    counts: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for candidate in range(max((len(names[k]) for k in several), default=0)):
        for part in _parts([k for k in several if len(names[k]) > candidate]):
            for k, count in _counted(board, net(part), candidate):
                counts[k][names[k][candidate]] = count
    return [Layer(k, of) for k, of in counts.items() if min(of.values()) >= MIN_INSTRUCTIONS]


def _parts(layers: list[int]) -> list[list[int]]:
    return [layers[k : k + TOGETHER] for k in range(0, len(layers), TOGETHER)]


def _number(output: str) -> int:
    return int(output.removeprefix("y"))


def _candidates(board: Board, module: Module) -> dict[int, list[str]]:
    """The candidates for each layer of a module, by name."""
    passes = default_passes(board, BuildOptions())
    before = passes[: next(k for k, p in enumerate(passes) if isinstance(p, ScheduleLoops))]
    done = run_pipeline(replace(module, stage="typed"), before)
    found = candidates_of(done, machine_for(board.capabilities))
    (graph,) = done.graphs.values()
    calls = ((v.name, node.callee) for node in graph.body if isinstance(node, Call) for v in node.outs)
    return {_number(output): list(map(str, found.get(callee, [DEFAULT]))) for output, callee in calls}


def _counted(board: Board, module: Module, candidate: int) -> Iterator[tuple[int, int]]:
    """The layers of a module and what each executes in the candidate of this number."""
    slow = MemoryAwareScheduling | MergeFunctions
    usual = (p for p in default_passes(board, BuildOptions()) if not isinstance(p, slow))
    passes = [replace(p, candidate=candidate) if isinstance(p, ScheduleLoops) else p for p in usual]
    planned = lower_module(module, passes)
    choice = EmitOptions(source=PREFIX, board=board.name)
    emitted = get_backend("c99").emit(planned, PREFIX, isa=board.capabilities, options=choice)
    sources = Sources(PREFIX, "c99", as_files(emitted.files), as_files(emitted.agent))
    (plan,) = planned.plans.values()
    calls = [s for s in walk_plan(plan.body) if isinstance(s, PlanCall)]
    clocks = 1 + max(call.index for call in calls)
    counts = counted(board, link_agent(sources, board, BuildOptions(), clocks), clocks, _run)[1]
    effects = Effects(planned, plan)
    for call in calls:
        made = next(name for name, mode in effects.arguments(call) if mode != "read")
        yield _number(made), counts[PHASE_OP + call.index].instructions


def _run(session: Session) -> None:
    rng = np.random.default_rng(0)
    for k, tensor in enumerate(session.models()[0].inputs):
        session.write(0, k, rng.bytes(min(tensor.nbytes, MAX_SENT_BYTES)))
    session.run(0, dims=[])


def summary(board: str, layers: Sequence[Layer]) -> Iterator[Row]:
    """For each kind of layer each candidate, and what the best of each layer comes to; at last that of all layers."""
    for kind in KINDS:
        mine = [layer for layer in layers if kind_of(layer.number) == kind]
        for name in dict.fromkeys(name for layer in mine for name in layer.counts):
            yield _row(board, kind, name, {layer: name for layer in mine if name in layer.counts})
        if mine:
            yield _row(board, kind, BEST, {layer: layer.best for layer in mine})
    if layers:
        yield _row(board, "all", BEST, {layer: layer.best for layer in layers})


def _row(board: str, kind: str, candidate: str, picked: Mapping[Layer, str]) -> Row:
    best = sum(layer.best == name for layer, name in picked.items())
    over = statistics.fmean(layer.over(name) for layer, name in picked.items())
    return {
        "board": board, "kind": kind, "candidate": candidate, "layers": len(picked), "best": best, "over": over,
    }  # fmt: skip


def show(rows: Sequence[Row]) -> None:
    """The tables for people, one a board."""
    for board in dict.fromkeys(row["board"] for row in rows):
        table = Table("kind", "candidate", "layers", "best of", "over the rules' choice", title=board)
        for row in (row for row in rows if row["board"] == board):
            counts = (str(row["layers"]), str(row["best"]), f"{100 * row['over']:+.1f} %")
            table.add_row(row["kind"], row["candidate"], *counts, end_section=row["candidate"] == BEST)
        Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
