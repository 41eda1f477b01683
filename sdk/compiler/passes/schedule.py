"""Scheduling: each loops function gets the rule of the core, the way that costs least; constants are re-laid for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from sdk.compiler.ir.graph import Call, Graph, Value, WriteState
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Const, Module
from sdk.compiler.ir.types import I8, I16, I32, TensorType
from sdk.compiler.schedules.pack import pack_array, packing_name
from sdk.compiler.schedules.rules import Core, alternatives, core_for, schedule
from sdk.compiler.schedules.rules.choose import cheapest, expected
from sdk.compiler.schedules.rules.joined import Known
from sdk.compiler.schedules.rules.ways import Way
from sdk.compiler.schedules.trace import loops_key

__all__ = ["ScheduleLoops", "ways_of"]

WORTH: Final = 0.02  # a function that takes less of all that is expected is not worth a choice


@dataclass(frozen=True)
class ScheduleLoops:
    """Applies the rules for the core that ``isa`` (capabilities joined by ``.``) describes, of which ``threads`` share
    a call, for what ``opt`` says; functions that come out alike become one kernel that their layers share.

    On cores with prices a function that takes much of the whole goes the way that is expected to execute least. With
    ``way`` each goes that of its ways which has this number, the first where it has none."""

    isa: str = ""
    threads: int = 1
    opt: Literal["time", "size"] = "time"
    way: int | None = None
    name = "schedule"

    def run(self, module: Module) -> Module:
        """The scheduled module; kernels whose packed operand is not a constant keep their plain nest."""
        isa = frozenset(self.isa.split("."))
        core = replace(core_for(isa), compact=self.opt == "size")
        nests = {name: _nest(module, name, self.threads) for name in module.loops}
        if self.way:
            done = {name: _numbered(nest, core, self.way) for name, nest in nests.items()}
        else:
            done = {name: nest.first(core) for name, nest in nests.items()}
        if self.way is None and not core.compact:
            done = _chosen(nests, done, core, isa)
        kernel: dict[str, str] = {}
        names: dict[str, str] = {}
        for name, f in done.items():
            names[name] = kernel.setdefault(loops_key(f), name)
        consts: dict[str, Const] = {}
        graphs = {g.name: _repack(g, done, names, module, consts) for g in module.graphs.values()}
        loops = {name: done[name] for name in kernel.values()}
        return replace(module, stage="scheduled", loops=loops, graphs=graphs).with_consts(*consts.values())


@dataclass(frozen=True)
class _Nest:
    """A function before it is scheduled, and what is known of the constants that its calls give it."""

    plain: Loops
    packable: frozenset[str]
    threads: int
    even: frozenset[str]
    known: Known

    def first(self, core: Core) -> Loops:
        """Scheduled as the rules have it; plain where an argument to be packed is known only at run time."""
        scheduled = schedule(self.plain, core, self.packable, self.threads, self.even, self.known)
        return scheduled if all(p.param in self.packable for p in scheduled.packs) else self.plain

    def ways(self, core: Core) -> Iterator[tuple[Way, Loops]]:
        """Scheduled in all ways; as ``first`` has it first."""
        return alternatives(self.plain, core, self.packable, self.threads, self.even, self.known)


def _nest(module: Module, name: str, threads: int) -> _Nest:
    plain = module.loops[name]
    reads = [p.buffer.name for p in plain.params if p.mode == "read"]
    calls = [n for g in module.graphs.values() for n in g.body if isinstance(n, Call) and n.callee == name]
    packable = {p for k, p in enumerate(reads) if all(call.args[k].const for call in calls)}
    even = {p for k, p in enumerate(reads) if p in packable and all(_even(module, call.args[k]) for call in calls)}
    known = {p: [module.consts[c.args[k].name].data for c in calls] for k, p in enumerate(reads) if p in packable}
    return _Nest(plain, frozenset(packable), threads, frozenset(even), known)


def ways_of(module: Module, core: Core, threads: int = 1) -> dict[str, list[Way]]:
    """In which ways each function of a module that is not scheduled yet can be, in order."""
    return {name: [way for way, _ in _nest(module, name, threads).ways(core)] for name in module.loops}


def _numbered(nest: _Nest, core: Core, number: int) -> Loops:
    made = [loops for _, loops in nest.ways(core)]
    return made[number] if number < len(made) else made[0]


def _chosen(
    nests: Mapping[str, _Nest], first: Mapping[str, Loops], core: Core, isa: frozenset[str]
) -> dict[str, Loops]:
    """The functions that take much of what all are expected to take, in the way that is expected to take least."""
    costs = {name: expected(loops, isa) for name, loops in first.items()}
    known = {name: cost for name, cost in costs.items() if cost is not None}
    done = dict(first)
    for name, cost in known.items():
        if cost >= WORTH * sum(known.values()):
            _, made = zip(*nests[name].ways(core), strict=True)
            done[name] = made[cheapest([expected(loops, isa) or 0.0 for loops in made])]
    return done


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
            for spec in f.packs:
                k = reads.index(spec.param)
                old = module.consts[args[k].name]
                name = _packed_name(old.name, packing_name(spec), module)
                if name not in consts:
                    data = pack_array(old.data, spec)
                    dtype = I32 if spec.pairs else I16 if spec.joined or spec.wide else old.type.dtype
                    consts[name] = Const(name, TensorType(dtype, data.shape), data, packing_name(spec))
                args[k] = Value(name, consts[name].type, const=True)
            node = replace(node, callee=names[node.callee], args=tuple(args))
        elif isinstance(node, WriteState) and node.kernel:
            node = replace(node, kernel=names[node.kernel])
        body.append(node)
    return replace(graph, body=tuple(body))


def _packed_name(name: str, packing: str, module: Module) -> str:
    """A name for the constant in its packing that no constant of the model has."""
    made = f"{name}_{packing}"
    while made in module.consts:
        made += "_"
    return made
