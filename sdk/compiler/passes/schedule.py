"""Scheduling: each loops function gets the rule of the core; constants are re-laid for it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Call, Graph, Value, WriteState
from sdk.compiler.ir.layout import Interleave, Join, Layout, Permute, Scale, Tile, Widen
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Const, Module, Stack
from sdk.compiler.ir.packing import pack_array
from sdk.compiler.ir.types import I8, I32, TensorType
from sdk.compiler.machines.lookup import machine_for
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import DEFAULT, Choice, Nest
from sdk.compiler.schedules.group_activations import makes_activations
from sdk.compiler.schedules.group_panels import format_of_products
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
    the rules choose. Without ``share`` each function gets what it would get alone in a module."""

    isa: str = ""
    threads: int = 1
    opt: Literal["time", "size"] = "time"
    candidate: int = 0
    check: Check = "sample"
    share: bool = True
    name = "schedule"

    def run(self, module: Module) -> Module:
        """The scheduled module; kernels whose packed operand is not a constant keep their plain nest."""
        machine = machine_for(self.isa.split("+"))
        small = self.opt == "size"
        similar = _similar(module) if self.share else frozenset()
        plain = {name: _nest(module, name, self.threads, small) for name in module.loops}
        nests = {name: _Scheduled(replace(n, similar=name in similar), machine) for name, n in plain.items()}
        done = _checked(nests, {name: nest.numbered(self.candidate) for name, nest in nests.items()}, self.check)
        kernel: dict[str, str] = {}
        names: dict[str, str] = {}
        for name, f in done.items():
            names[name] = kernel.setdefault(loops_key(f), name)
        made: dict[str, Const | Stack] = {}
        graphs = {g.name: _repack(g, done, names, module, made) for g in module.graphs.values()}
        loops = {name: done[name] for name in kernel.values()}
        consts = {**module.consts, **{c.name: c for c in made.values() if isinstance(c, Const)}}
        stacks = {**module.stacks, **{c.name: c for c in made.values() if isinstance(c, Stack)}}
        return replace(module, stage="scheduled", loops=loops, graphs=graphs, consts=consts, stacks=stacks)


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
        name: Candidate(
            nest.loops, done[name], {p: of[0] for p, of in (nest.known or {}).items() if of}, nest.quantised
        )
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
    known = {
        p: [data for c in calls for data in _elements(module, c.args[k], _iterations(module, c))]
        for k, p in enumerate(reads)
        if p in packable
    }
    return Nest(plain, frozenset(packable), threads, frozenset(even), known, _quantised(module, name), compact)


def _similar(module: Module) -> frozenset[str]:
    """The functions that others of the module differ from in numbers alone."""
    texts = {name: re.sub(r"\d+", "", repr((f.params, f.body))) for name, f in module.loops.items()}
    counts = Counter(texts.values())
    return frozenset(name for name, text in texts.items() if counts[text] > 1)


def candidates_of(module: Module, machine: Machine) -> dict[str, list[Choice]]:
    """The candidates for each function of a module that is not scheduled yet, in order."""
    return {name: list(_Scheduled(_nest(module, name), machine).candidates()) for name in module.loops}


def _quantised(module: Module, name: str) -> bool:
    """Whether a function is a product with weights in groups, and each call gives it all results of one
    ``quantize_groups``."""
    form = format_of_products(module.loops[name])
    if form is None:
        return False
    makers: set[str | None] = set()
    for graph in module.graphs.values():
        calls = [n for n in graph.body if isinstance(n, Call) and n.kind == "loops"]
        made = {n.outs: n.callee for n in calls}
        makers |= {made.get(n.args[:3]) for n in calls if n.callee == name}
    return all(maker is not None and makes_activations(module.loops[maker], form) for maker in makers)


def _even(module: Module, arg: Value) -> bool:
    """Whether a constant is of int8 and as far from 0 on both sides: -128 is not in it."""
    if arg.type.dtype != I8:
        return False
    return not any(bool((data == I8.limits[0]).any()) for data in _elements(module, arg, 1))


def _iterations(module: Module, call: Call) -> int:
    """In how many iterations a call runs as far as its constants tell."""
    return max((module.stacks[a.name].iterations for a in call.args if a.const and a.name in module.stacks), default=1)


def _elements(module: Module, arg: Value, iterations: int) -> Sequence[NDArray[Any]]:
    """What a constant holds in each iteration."""
    stack = module.stacks.get(arg.name)
    return [module.consts[arg.name].data] * iterations if stack is None else stack.arrays


def _repack(
    graph: Graph, loops: dict[str, Loops], names: dict[str, str], module: Module, made: dict[str, Const | Stack]
) -> Graph:
    body = []
    for node in graph.body:
        if isinstance(node, Call) and node.kind == "loops":
            f = loops[node.callee]
            reads = [p.buffer.name for p in f.params if p.mode == "read"]
            args = list(node.args)
            beside = {p: a for p, a in zip(reads, node.args, strict=True) if a.const}
            for param, layout in f.layouts.items():
                k = reads.index(param)
                const = _packed(module, args[k].name, layout, beside, made)
                args[k] = Value(const.name, const.type, const=True)
            node = replace(node, callee=names[node.callee], args=tuple(args))
        elif isinstance(node, WriteState) and node.kernel:
            node = replace(node, kernel=names[node.kernel])
        body.append(node)
    return replace(graph, body=tuple(body))


def _packed(
    module: Module, plain: str, layout: Layout, beside: Mapping[str, Value], made: dict[str, Const | Stack]
) -> Const | Stack:
    """A constant in a layout, which may name vectors ``beside`` it, under a name that no other has; put into ``made``
    where it is not there yet."""
    const = module.stacks.get(plain) or module.consts[plain]
    type = layout.stored(TensorType(const.type.dtype, const.type.shape))
    named = {step.by: beside[step.by] for step in layout.steps if isinstance(step, Scale) and step.by}
    scaled = _arrays(module, const, layout, named) if named else None
    name = f"{plain}_{_short(layout)}"
    while module.constant(name) is not None or (name in made and not _is(made[name], layout, scaled)):
        name += "_"
    if name not in made:
        found = scaled or _arrays(module, const, layout, {})
        one = len(found) == 1 and isinstance(const, Const)
        made[name] = Const(name, type, found[0], layout) if one else Stack(name, type, found, layout)
    return made[name]


def _arrays(
    module: Module, const: Const | Stack, layout: Layout, named: Mapping[str, Value]
) -> tuple[NDArray[np.generic], ...]:
    """What a constant holds in each iteration, packed; one for all where neither it nor a vector differs."""
    stacks = [module.stacks[value.name].iterations for value in named.values() if value.name in module.stacks]
    iterations = const.iterations if isinstance(const, Stack) else max(stacks, default=1)
    arrays = const.arrays if isinstance(const, Stack) else [const.data] * iterations
    vectors = {name: _elements(module, value, iterations) for name, value in named.items()}
    return tuple(
        pack_array(data, layout, {name: found[k] for name, found in vectors.items()}) for k, data in enumerate(arrays)
    )


def _is(const: Const | Stack, layout: Layout, data: tuple[NDArray[Any], ...] | None) -> bool:
    """Whether a packed constant is in a layout, which says what it holds where no ``data`` are given."""
    held = const.arrays if isinstance(const, Stack) else (const.data,)
    return const.layout == layout and (data is None or all(map(np.array_equal, held, data)))


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
