"""Scheduling: each loops function gets the rule of the core; constants are re-laid for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Call, Graph, Value, WriteState
from sdk.compiler.ir.layout import Interleave, Join, Layout, Permute, Scale, Tile, Widen
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Const, Module
from sdk.compiler.ir.packing import pack_array
from sdk.compiler.ir.types import I8, I32, TensorType
from sdk.compiler.machines.lookup import machine_for
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import DEFAULT, Choice, Nest
from sdk.compiler.schedules.rules import alternatives, schedule_nest
from sdk.compiler.schedules.trace import loops_key
from sdk.compiler.schedules.validate import Candidate, Check, described, differing
from sdk.errors import MiscompileWarning

__all__ = ["ScheduleLoops", "candidates_of"]

_ELEMENTS: Final = {
    (): "",
    (Widen,): "wide",
    (Widen, Scale): "scaled",
    (Interleave,): "crossed",
    (Join,): "plain",
    (Join, Interleave): "paired",
}


@dataclass(frozen=True)
class ScheduleLoops:
    """Applies the rules for the core that ``isa`` (capabilities joined by ``+``) describes, of which ``threads`` share
    a call, for what ``opt`` says; functions that come out alike become one kernel that their layers share.

    Schedules are tried as ``check`` says; the plain nest stays where one computes something else, with a warning.
    ``candidate`` is which of its candidates each function gets; 0, and what a function with fewer gets, is that which
    the rules choose."""

    isa: str = ""
    threads: int = 1
    opt: Literal["time", "size"] = "time"
    candidate: int = 0
    check: Check = "sample"
    name = "schedule"

    def run(self, module: Module) -> Module:
        """The scheduled module; kernels whose packed operand is not a constant keep their plain nest."""
        machine = machine_for(self.isa.split("+"))
        small = self.opt == "size"
        nests = {name: _Scheduled(_nest(module, name, self.threads, small), machine) for name in module.loops}
        done = _checked(nests, {name: nest.numbered(self.candidate) for name, nest in nests.items()}, self.check)
        kernel: dict[str, str] = {}
        names: dict[str, str] = {}
        for name, f in done.items():
            names[name] = kernel.setdefault(loops_key(f), name)
        consts: dict[str, Const] = {}
        graphs = {g.name: _repack(g, done, names, module, consts) for g in module.graphs.values()}
        loops = {name: done[name] for name in kernel.values()}
        return replace(module, stage="scheduled", loops=loops, graphs=graphs).with_consts(*consts.values())


@dataclass(frozen=True)
class _Scheduled:
    """The schedules of a function on a machine."""

    nest: Nest
    machine: Machine

    @cached_property
    def first(self) -> Loops:
        """Scheduled as the rules have it; plain where an argument to be packed is known only at run time."""
        scheduled = schedule_nest(self.nest, self.machine)
        return scheduled if all(map(self.nest.constant, scheduled.layouts)) else self.nest.loops

    def candidates(self) -> dict[Choice, Loops]:
        """All of its schedules, ``first`` first."""
        return {DEFAULT: self.first, **dict(alternatives(self.nest, self.first, self.machine))}

    def numbered(self, number: int) -> Loops:
        """The candidate of this number; ``first`` where there are fewer."""
        made = list(self.candidates().values()) if number else [self.first]
        return made[number] if number < len(made) else made[0]


def _checked(nests: Mapping[str, _Scheduled], done: Mapping[str, Loops], check: Check) -> dict[str, Loops]:
    """The functions as scheduled, those plain that are seen to compute something else."""
    pairs = {
        name: Candidate(nest.loops, done[name], {p: of[0] for p, of in (nest.known or {}).items() if of})
        for name, nest in ((name, one.nest) for name, one in nests.items())
    }
    wrong = differing(pairs, check)
    for name, what in wrong.items():
        MiscompileWarning.of(name, what, described(pairs[name])).tell()
    return {name: nests[name].nest.loops if name in wrong else loops for name, loops in done.items()}


def _nest(module: Module, name: str, threads: int = 1, compact: bool = False) -> Nest:
    """A function before it is scheduled, with what is known of the constants that its calls give it."""
    plain = module.loops[name]
    reads = [p.buffer.name for p in plain.params if p.mode == "read"]
    calls = [n for g in module.graphs.values() for n in g.body if isinstance(n, Call) and n.callee == name]
    packable = {p for k, p in enumerate(reads) if all(call.args[k].const for call in calls)}
    even = {p for k, p in enumerate(reads) if p in packable and all(_even(module, call.args[k]) for call in calls)}
    known = {p: [module.consts[c.args[k].name].data for c in calls] for k, p in enumerate(reads) if p in packable}
    return Nest(plain, frozenset(packable), threads, frozenset(even), known, compact)


def candidates_of(module: Module, machine: Machine) -> dict[str, list[Choice]]:
    """The candidates for each function of a module that is not scheduled yet, in order."""
    return {name: list(_Scheduled(_nest(module, name), machine).candidates()) for name in module.loops}


def _even(module: Module, arg: Value) -> bool:
    """Whether a constant is of int8 and as far from 0 on both sides: -128 is not in it."""
    return arg.type.dtype == I8 and not bool((module.consts[arg.name].data == I8.limits[0]).any())


def _repack(
    graph: Graph, loops: dict[str, Loops], names: dict[str, str], module: Module, consts: dict[str, Const]
) -> Graph:
    body = []
    for node in graph.body:
        if isinstance(node, Call) and node.kind == "loops":
            f = loops[node.callee]
            reads = [p.buffer.name for p in f.params if p.mode == "read"]
            args = list(node.args)
            beside = {p: module.consts[a.name].data for p, a in zip(reads, node.args, strict=True) if a.const}
            for param, layout in f.layouts.items():
                k = reads.index(param)
                const = _packed(module.consts[args[k].name], layout, beside, module, consts)
                args[k] = Value(const.name, const.type, const=True)
            node = replace(node, callee=names[node.callee], args=tuple(args))
        elif isinstance(node, WriteState) and node.kernel:
            node = replace(node, kernel=names[node.kernel])
        body.append(node)
    return replace(graph, body=tuple(body))


def _packed(
    const: Const, layout: Layout, beside: Mapping[str, NDArray[Any]], module: Module, made: dict[str, Const]
) -> Const:
    """The constant in a layout, which may name vectors ``beside`` it, under a name that no other has; put into ``made``
    where it is not there yet."""
    type = layout.stored(TensorType(const.type.dtype, const.type.shape))
    named = any(isinstance(step, Scale) and step.by for step in layout.steps)
    scaled = pack_array(const.data, layout, beside) if named else None
    name = f"{const.name}_{_short(layout)}"
    while name in module.consts or (name in made and not _is(made[name], layout, scaled)):
        name += "_"
    if name not in made:
        data = pack_array(const.data, layout) if scaled is None else scaled
        made[name] = Const(name, type, data, layout)
    return made[name]


def _is(const: Const, layout: Layout, data: NDArray[Any] | None) -> bool:
    """Whether a packed constant is in a layout, which says what it holds where no ``data`` are given."""
    return const.layout == layout and (data is None or np.array_equal(const.data, data))


def _short(layout: Layout) -> str:
    """A word for the layout of a matrix, for the name of what is stored so: tiles, the axis of rows, then elements."""
    sizes, rows, kinds = [1, 1], "", []
    for step in layout.steps:
        match step:
            case Permute(order):
                rows = f"a{order[0]}"
            case Tile(axis, size) if axis < 2:
                sizes[axis] *= size
            case Join() | Widen() | Scale() | Interleave():
                kinds.append(type(step))
    if layout.steps[-1] == Join(0, 2, I32):
        return f"pairs{rows}"
    return f"r{sizes[0]}c{sizes[1]}{rows}{_ELEMENTS.get(tuple(kinds), 'stored')}"
