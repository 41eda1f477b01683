"""From a scheduled graph to a plan: buffers at places in regions, calls and copies in graph order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sdk.compiler.ir.graph import (
    Call,
    Graph,
    Node,
    ReadState,
    Value,
    WriteState,
    fresh_name,
    node_args,
    node_outs,
)
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module, State
from sdk.compiler.ir.plan import Copy, Plan, PlanBuffer, PlanCall, PlanStmt, Region, Role
from sdk.compiler.ir.types import U8, TensorType
from sdk.compiler.ir.unify import unify
from sdk.compiler.memory.planner import plan_offsets
from sdk.compiler.memory.problem import Block, Placement, aligned
from sdk.compiler.memory.scratch import SCRATCH_ALIGN, scratch_layout
from sdk.compiler.memory.storage import Io, Storage, is_view, share_bytes
from sdk.compiler.sym import Dim, free_vars, prove_eq, substitute
from sdk.errors import BuildError

__all__ = ["Laid", "lay_out", "state_offsets"]

REGIONS = ("arena", "state", "const")


@dataclass(frozen=True)
class Laid:
    """A plan, the blocks of its arena and where they were placed."""

    plan: Plan
    blocks: tuple[Block, ...]
    placement: Placement


def state_offsets(states: Mapping[str, State], align: int) -> tuple[dict[str, int], int]:
    """Offsets of all states in the state region, in the order of the module, and the region's bytes.

    Raises:
        BuildError: a state that is not plain.
    """
    out, at = {}, 0
    for state in states.values():
        if state.layout != "plain":
            raise BuildError(f"state @{state.name} has layout {state.layout}", hint="only plain states can be planned")
        out[state.name] = at = aligned(at, max(align, state.type.dtype.nbytes))
        at += state.type.max_bytes
    return out, at


def lay_out(module: Module, graph: Graph, io: Io, align: int) -> Laid:
    """The plan of an entry of a scheduled module, each size at its maximum over the dims.

    Raises:
        BuildError: the graph is not fully lowered, or a size has no bound.
    """
    return _Layout(module, graph, io, align).run()


class _Layout:
    """Builds one plan: names and places first, then statements in the order of the graph."""

    def __init__(self, module: Module, graph: Graph, io: Io, align: int) -> None:
        self.module, self.graph, self.align, self.io = module, graph, align, io
        clash = module.consts.keys() & module.states.keys()
        if clash:
            raise BuildError(f"@{min(clash)} is both a constant and a state")
        self.dims = {v.name: v for v in graph.dims} | {
            v.name: v for value in graph.values() for d in value.type.shape for v in free_vars(d)
        }
        self.sharing = share_bytes(graph, module.loops, {s.name: s.type for s in module.states.values()}, io)
        self.end = len(graph.body) + 1
        self.body: list[PlanStmt] = []
        self.buffers: list[PlanBuffer] = []
        self.blocks: dict[str, Block] = {}
        self.block_of: dict[str, str] = {}  # buffer in the arena -> its block
        self.state_at, self.state_bytes = state_offsets(module.states, align)
        self.version = {s: s for s in module.states}  # the buffer that holds each state's value now
        self._name_values()

    def _name_values(self) -> None:
        """Names are unique: constants and states keep theirs, then inputs and outputs have first choice."""
        self.taken = {*self.module.consts, *self.module.states}
        self.names: dict[str, str] = {f"@{c}": c for c in self.module.consts}
        self.regions = set(REGIONS)
        self.region_of: dict[str, str] = {}
        for value in (
            *self.graph.params,
            *(r for r in self.graph.results if not r.const),
            *self.graph.values(),
        ):
            if value.name not in self.names:
                self.names[value.name] = fresh_name(value.name, self.taken)

    def run(self) -> Laid:
        """The plan."""
        for state in self.module.states.values():
            self.buffers.append(PlanBuffer(state.name, state.type, "state", self.state_at[state.name], "state"))
        self._consts()
        for p in self.graph.params:
            self._define(p, "input")
        for step, node in enumerate(self.graph.body, 1):
            if is_view(node):
                self._view(node)
            elif isinstance(node, Call):
                self._call(step, node)
            elif isinstance(node, ReadState):
                self._read(step, node)
            elif isinstance(node, WriteState):
                self._write(step, node)
        outputs = tuple(self._output(k, v) for k, v in enumerate(self.graph.results))
        return self._finish(outputs)

    # --- buffers ---------------------------------------------------------------------------------------

    def _key(self, value: Value) -> str:
        return str(value) if value.const else value.name

    def _consts(self) -> None:
        used = {a.name for n in self.graph.body for a in node_args(n) if a.const}
        used |= {r.name for r in self.graph.results if r.const}
        for const in self.module.consts.values():
            if const.name in used:
                self.buffers.append(PlanBuffer(const.name, const.type, "const", 0, "const"))
        self.const_bytes = sum(self.module.consts[n].type.max_bytes for n in used)

    def _define(self, value: Value, role: Role = "temp") -> str:
        """Adds the buffer of a value where its storage lives; its name."""
        storage = self.sharing.of(value)
        name = self.names[value.name]
        alias = self.names.get(self.sharing.alias.get(value.name, ""), "")
        if value in self.graph.results and storage.result and role == "temp":
            role = "output"
        region, offset = "arena", 0
        match storage.home:
            case "arena":
                self._block(name, storage)
            case "state":
                region, offset = "state", self.state_at[storage.place]
                alias = alias or self.version[storage.place]
            case "const":
                region = "const"
            case "caller":
                region = self._caller_region(storage.place)
        self.buffers.append(PlanBuffer(name, value.type, region, offset, role, alias=alias))
        return name

    def _block(self, name: str, storage: Storage) -> None:
        block = self.names[storage.values[0]]
        align = max(self.align, storage.type.dtype.nbytes)
        self.blocks[block] = Block(block, storage.type.max_bytes, storage.born, storage.last, align)
        self.block_of[name] = block

    def _temp(self, name: str, type: TensorType, role: Role, step: int, align: int) -> str:
        """Adds a buffer of the arena that lives for one step; its name."""
        self.blocks[name] = Block(name, type.max_bytes, step, step, align)
        self.block_of[name] = name
        self.buffers.append(PlanBuffer(name, type, "arena", 0, role))
        return name

    def _caller_region(self, place: str) -> str:
        if place not in self.region_of:
            self.region_of[place] = fresh_name(self.names[place], self.regions)
        return self.region_of[place]

    # --- statements ------------------------------------------------------------------------------------

    def _view(self, node: Node) -> None:
        """A buffer of its own for a view of another shape; the viewed buffer itself for one without."""
        (source,), (out,) = node_args(node), node_outs(node)
        if out.name in self.sharing.renames:
            self.names[out.name] = self.names[self._key(source)]
        else:
            self._define(out)

    def _call(self, step: int, node: Call) -> None:
        args = [self.names[self._key(a)] for a in node.args]
        args += [self._define(v) for v in node.outs]
        dims: tuple[Dim, ...] = ()
        rows: tuple[Dim, Dim] | None = None
        scratch = ""
        function = self.module.loops.get(node.callee)
        if function is not None:
            dims = self._dims(function, node)
            if function.rows is not None:
                rows = 0, substitute(function.rows.extent, dict(zip(function.dims, dims, strict=True)))
            size = scratch_layout(function).bytes
            if size:
                name = fresh_name(f"{args[-1]}_scratch", self.taken)
                scratch = self._temp(name, TensorType(U8, (size,)), "scratch", step, max(self.align, SCRATCH_ALIGN))
        elif node.kind == "loops":
            raise BuildError(f"graph @{self.graph.name} calls @{node.callee}, which the module lacks")
        ops = tuple(node.source.split("+")) if node.source else ()
        index = sum(isinstance(s, PlanCall) for s in self.body)
        self.body.append(
            PlanCall(index, node.callee, tuple(args), dims, rows, scratch, ops, node.place, node.kind == "extern")
        )

    def _dims(self, function: Loops, node: Call) -> tuple[Dim, ...]:
        """The values the call gives the dims of its function."""
        where = f"graph @{self.graph.name}, call of @{function.name}"
        given = (*node.args, *node.outs)
        if len(given) != len(function.params):
            raise BuildError(f"{len(given)} arguments for {len(function.params)} parameters", where=where)

        def refuse(text: str) -> None:
            raise BuildError(text, where=where)

        pairs = [(p.buffer.name, p.buffer.type, v.type) for p, v in zip(function.params, given, strict=True)]
        env = unify(function.dims, pairs, self.dims, refuse)
        return tuple(env[v] for v in function.dims)

    def _read(self, step: int, node: ReadState) -> None:
        version = self.version[node.state]
        if step in self.sharing.direct_reads:
            self.names[node.out.name] = version
        else:
            self.body.append(Copy(self._define(node.out), version))

    def _write(self, step: int, node: WriteState) -> None:
        source = self.names[self._key(node.value)]
        storage = self.sharing.of(node.value)
        if step in self.sharing.direct_writes:
            self.version[node.state] = source
            return
        if storage.home == "state" and storage.place == node.state and storage.origin == "read":
            return  # the state's own value, still in place
        name = fresh_name(f"{node.state}_new", self.taken)
        type = self.module.states[node.state].type
        if prove_eq(type.nbytes, node.value.type.nbytes) is not True:
            raise BuildError(
                f"%{node.value.name} of {node.value.type.nbytes} bytes is written to"
                f" state @{node.state} of {type.nbytes}"
            )
        at = self.state_at[node.state]
        self.buffers.append(PlanBuffer(name, type, "state", at, "temp", alias=self.version[node.state]))
        self.body.append(Copy(name, source))
        self.version[node.state] = name

    def _output(self, k: int, value: Value) -> str:
        """The buffer of a result: where it was computed, or a copy at the end."""
        source = self.names[self._key(value)]
        if k not in self.sharing.copied_results:
            return source
        name = fresh_name(f"{source}_out", self.taken)
        if self.io == "arena":
            self._temp(name, value.type, "output", self.end, max(self.align, value.type.dtype.nbytes))
        else:
            region = fresh_name(name, self.regions)
            self.region_of[name] = region
            self.buffers.append(PlanBuffer(name, value.type, region, 0, "output"))
        self.body.append(Copy(name, source))
        return name

    # --- places ----------------------------------------------------------------------------------------

    def _finish(self, outputs: tuple[str, ...]) -> Laid:
        blocks = tuple(self.blocks.values())
        placement = plan_offsets(blocks)
        buffers = tuple(
            replace(b, offset=placement.offsets[self.block_of[b.name]]) if b.name in self.block_of else b
            for b in self.buffers
        )
        inputs = tuple(self.names[p.name] for p in self.graph.params)
        plan = Plan(
            self.graph.name,
            self.graph.dims,
            inputs,
            outputs,
            self._regions(buffers, placement.peak),
            buffers,
            tuple(self.body),
            placement.lower_bound,
        )
        return Laid(plan, blocks, placement)

    def _regions(self, buffers: tuple[PlanBuffer, ...], peak: int) -> tuple[Region, ...]:
        align = max([self.align, *(b.align for b in self.blocks.values())])
        out = [Region("arena", "arena", peak, align)]
        if self.module.states:
            out.append(Region("state", "state", self.state_bytes, self.align))
        if self.const_bytes:
            out.append(Region("const", "const", self.const_bytes, self.align))
        for name in dict.fromkeys(self.region_of.values()):
            held = [b.type for b in buffers if b.region == name]
            out.append(Region(name, "caller", max(t.max_bytes for t in held), max(t.dtype.nbytes for t in held)))
        return tuple(out)
