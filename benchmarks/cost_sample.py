"""What layers execute in each way in which they can be scheduled: counted on the stand-in of a board."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from sdk.boards import Board
from sdk.codegen_c.c99 import EmitOptions, emit
from sdk.codegen_c.c99.glue import emit_glue
from sdk.compiler.ir.graph import Call
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import PlanCall, walk_plan
from sdk.compiler.memory.effects import Effects
from sdk.compiler.passes.order import Order
from sdk.compiler.passes.pipeline import run_pipeline
from sdk.compiler.passes.schedule import ScheduleLoops, ways_of
from sdk.compiler.passes.share import Share
from sdk.compiler.schedules.events import events
from sdk.compiler.schedules.rules import core_for
from sdk.compiler.schedules.rules.ways import FIRST, Way
from sdk.devices.client import Session
from sdk.driver import BuildOptions
from sdk.driver.agents import link_agent
from sdk.driver.counting import PHASE_OP, Counts, counted
from sdk.driver.pipeline import default_passes, lower_module
from sdk.driver.sources import Sources, as_files

__all__ = ["Sample", "all_ways", "chosen_ways"]

FEWEST = 500  # instructions of a layer that counts: less is mostly the call
TOGETHER = 20  # layers compiled together
MOST_SENT = 1024  # bytes of an input that are not 0: what is sent to a machine is slow to count
PREFIX = "net"


@dataclass(frozen=True)
class Sample:
    """A layer in one way: its number, what it computes, the way, the events of its kernel, and what a core executed."""

    layer: int
    what: str
    way: str
    events: dict[str, float]
    counted: int


Net = Callable[[Iterable[int]], Module]  # of the layers with these numbers, each with an output "y<number>"


def all_ways(board: Board, net: Net, layers: Iterable[int]) -> list[Sample]:
    """Layers in all their ways."""
    numbers = list(layers)
    ways = {k: found for part in _parts(numbers) for k, found in _ways(board, net(part)).items()}
    found = []
    for way in range(max(map(len, ways.values()), default=0)):
        for part in _parts([k for k in numbers if len(ways[k]) > way]):
            found += _measured(board, net(part), way, {k: str(ways[k][way]) for k in part})
    return [s for s in found if s.counted >= FEWEST]


def chosen_ways(board: Board, net: Net, layers: Iterable[int]) -> list[Sample]:
    """Layers in the way that the compiler chooses."""
    found = (s for part in _parts(list(layers)) for s in _measured(board, net(part), None, dict.fromkeys(part, "")))
    return [s for s in found if s.counted >= FEWEST]


def _parts(layers: list[int]) -> list[list[int]]:
    return [layers[k : k + TOGETHER] for k in range(0, len(layers), TOGETHER)]


def _number(output: str) -> int:
    return int(output.removeprefix("y"))


def _ways(board: Board, module: Module) -> dict[int, list[Way]]:
    """The ways of each layer."""
    passes = default_passes(board, BuildOptions())
    before = passes[: next(k for k, p in enumerate(passes) if isinstance(p, ScheduleLoops))]
    done = run_pipeline(replace(module, stage="typed"), before)
    ways = ways_of(done, core_for(board.capabilities))
    return {_number(output): ways.get(callee, [FIRST]) for output, callee in _makers(done).items()}


def _makers(module: Module) -> dict[str, str]:
    """Which function makes each output of a net."""
    (graph,) = module.graphs.values()
    return {v.name: node.callee for node in graph.body if isinstance(node, Call) for v in node.outs}


def _measured(board: Board, module: Module, way: int | None, names: Mapping[int, str]) -> list[Sample]:
    """The layers of a module in the way of this number, that ``names`` has the name of; None is the one chosen."""
    options = BuildOptions()
    seen: dict[str, Module] = {}
    usual = (p for p in default_passes(board, options) if not isinstance(p, Order | Share))  # which take their time
    passes = [replace(p, way=way) if isinstance(p, ScheduleLoops) else p for p in usual]
    planned = lower_module(module, passes, lambda one, m: seen.__setitem__(one.name, m))
    counts = _counted(board, planned, options)
    return list(_samples(planned, _makers(seen["fuse"]), counts, names))


def _samples(
    planned: Module, makers: Mapping[str, str], counts: Mapping[int, Counts], names: Mapping[int, str]
) -> Iterator[Sample]:
    (plan,) = planned.plans.values()
    effects = Effects(planned, plan)
    for call in (s for s in walk_plan(plan.body) if isinstance(s, PlanCall)):
        loops = planned.loops[call.callee]
        dims = {v: int(d) for v, d in zip(loops.dims, call.dims, strict=True) if isinstance(d, int)}
        made = next(name for name, mode in effects.arguments(call) if mode != "read")
        number, what = _number(made), re.sub(r"_\d+(?=_|$)", "", makers[made])
        yield Sample(number, what, names[number], events(loops, dims), counts[PHASE_OP + call.index].instructions)


def _counted(board: Board, planned: Module, options: BuildOptions) -> dict[int, Counts]:
    """What each call of the plan executes."""
    choice = EmitOptions(source=PREFIX, model_hash="", board=board.name, small=False)
    files = as_files(emit(planned, PREFIX, isa=board.capabilities, options=choice))
    sources = Sources(PREFIX, files, as_files(emit_glue(planned, PREFIX, options=choice)))
    (plan,) = planned.plans.values()
    clocks = 1 + max(s.index for s in walk_plan(plan.body) if isinstance(s, PlanCall))

    def work(session: Session) -> None:
        rng = np.random.default_rng(0)
        for k, tensor in enumerate(session.models()[0].inputs):
            session.write(0, k, rng.bytes(min(tensor.nbytes, MOST_SENT)))
        session.run(0, dims=[])

    return counted(board, link_agent(sources, board, options.toolchain, clocks), clocks, work)[1]
