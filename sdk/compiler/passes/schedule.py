"""Scheduling: each loops function gets the default rule of the core; constants are re-laid as its kernel wants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from sdk.compiler.ir.graph import Call, Graph, Value, WriteState
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Const, Module
from sdk.compiler.ir.types import I8, I16, I32, TensorType
from sdk.compiler.schedules.pack import pack_array, packing_name
from sdk.compiler.schedules.rules import Core, core_for, schedule
from sdk.compiler.schedules.trace import loops_key

__all__ = ["ScheduleLoops"]


@dataclass(frozen=True)
class ScheduleLoops:
    """Applies the rules for the core that ``isa`` (capabilities joined by ``.``) describes, of which ``threads`` share
    a call, for what ``opt`` says; functions that come out alike become one kernel that their layers share."""

    isa: str = ""
    threads: int = 1
    opt: Literal["time", "size"] = "time"
    name = "schedule"

    def run(self, module: Module) -> Module:
        """The scheduled module; kernels whose packed operand is not a constant keep their plain nest."""
        core = replace(core_for(self.isa.split(".")), compact=self.opt == "size")
        done = {name: _one(module, name, core, self.threads) for name in module.loops}
        kernel: dict[str, str] = {}
        names: dict[str, str] = {}
        for name, f in done.items():
            names[name] = kernel.setdefault(loops_key(f), name)
        consts: dict[str, Const] = {}
        graphs = {g.name: _repack(g, done, names, module, consts) for g in module.graphs.values()}
        loops = {name: done[name] for name in kernel.values()}
        return replace(module, stage="scheduled", loops=loops, graphs=graphs).with_consts(*consts.values())


def _one(module: Module, name: str, core: Core, threads: int) -> Loops:
    """The function scheduled, or its plain nest where an argument to be packed is known only at run time."""
    plain = module.loops[name]
    reads = [p.buffer.name for p in plain.params if p.mode == "read"]
    calls = [n for g in module.graphs.values() for n in g.body if isinstance(n, Call) and n.callee == name]
    packable = {p for k, p in enumerate(reads) if all(call.args[k].const for call in calls)}
    even = {p for k, p in enumerate(reads) if p in packable and all(_even(module, call.args[k]) for call in calls)}
    known = {p: [module.consts[c.args[k].name].data for c in calls] for k, p in enumerate(reads) if p in packable}
    scheduled = schedule(plain, core, packable, threads, even, known)
    return scheduled if all(p.param in packable for p in scheduled.packs) else plain


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
