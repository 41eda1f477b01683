"""From a scheduled graph to a plan: buffers at places in regions, calls and copies in graph order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, count
from typing import Literal

from sdk.compiler.analysis.match import match_types
from sdk.compiler.analysis.unify import unify
from sdk.compiler.ir.graph import (
    BindDim,
    Call,
    Graph,
    MatchCast,
    Node,
    ReadState,
    Value,
    WriteState,
    fresh_dims,
    fresh_name,
    node_args,
    node_outs,
)
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module, init_dims
from sdk.compiler.ir.plan import Bind, Check, Copy, Plan, PlanBuffer, PlanCall, PlanStmt, Region, Repeat, Role, Split
from sdk.compiler.ir.types import U8, TensorType
from sdk.compiler.memory.laid import Laid, extern_dims, fullest_of, regions_of
from sdk.compiler.memory.planner import placements, plan_offsets
from sdk.compiler.memory.problem import (
    Block,
    Placement,
    Separation,
    fixed_first,
    lower_bound,
    overlapping,
)
from sdk.compiler.memory.repeats import Repeated, iteration_vars
from sdk.compiler.memory.rings import RowKernels, stored_bytes
from sdk.compiler.memory.scaled import Scaled, scaled
from sdk.compiler.memory.scaled_choice import best_scaled
from sdk.compiler.memory.scratch import SCRATCH_ALIGN, THREAD_ALIGN, scratch_layout, scratch_share
from sdk.compiler.memory.splits import split_of
from sdk.compiler.memory.states import state_offsets
from sdk.compiler.memory.storage import Io, Storage, is_view, share_bytes
from sdk.compiler.memory.stream.repeats import Repeats
from sdk.compiler.memory.stream.timeline import Bits, Timeline
from sdk.compiler.memory.stream.weigh import Segment
from sdk.compiler.sym import Dim, Var, dmax, free_vars, max_value, prove_eq, prove_ge, substitute
from sdk.errors import BuildError

__all__ = ["Offsets", "lay_out"]

Offsets = Literal["fixed", "scaled"]
REGIONS = ("arena", "state", "const")


def lay_out(
    module: Module, graph: Graph, io: Io, align: int, threads: int = 1, offsets: Offsets = "fixed",
    segments: Sequence[Segment] = (), iterations: tuple[Repeated, ...] = (),
) -> Laid:  # fmt: skip
    """The plan of an entry of a scheduled module for so many threads; offsets are numbers, with each size at its
    maximum over the dims, or "scaled" with the dims. ``segments`` (none: every node whole) say which nodes run row by
    row; only a graph without dims has any. ``iterations`` are the nodes that run repeatedly; where there are some
    there are no segments.

    Raises:
        BuildError: the graph is not fully lowered, or a size has no bound.
    """
    return _Layout(module, graph, io, align, threads, offsets, segments, iterations).run()


class _Layout:
    """Builds one plan: names and places first, then statements in the order of the graph."""

    def __init__(
        self, module: Module, graph: Graph, io: Io, align: int, threads: int, offsets: Offsets,
        segments: Sequence[Segment], iterations: tuple[Repeated, ...],
    ) -> None:  # fmt: skip
        self.module, self.graph, self.align, self.io, self.threads = module, graph, align, io, threads
        self.entry_dims = tuple(dict.fromkeys([*graph.dims, *init_dims(module.states)]))
        self.scaled = offsets == "scaled" and bool(self.entry_dims)
        self.sizes: dict[str, Dim] = {}  # of the blocks, in the dims of the entry
        clash = (module.consts.keys() | module.stacks.keys()) & module.states.keys()
        if clash:
            raise BuildError(f"@{min(clash)} is both a constant and a state")
        self.dims = {v.name: v for v in (*self.entry_dims, *fresh_dims(graph))}
        self.bound: set[Var] = set(self.entry_dims)  # the dims that have a value here
        self.segments = segments
        self.begins, self.ends = {t.first: t for t in iterations}, {t.last: t for t in iterations}
        self.iteration_of = iteration_vars(module)
        self.before: list[PlanStmt] = []  # what stands before the iterations at hand
        self.streamed = {step: s for s in segments if s.flow is not None for step in s.flow.steps}
        self.rings = {value: rows for s in segments for value, rows in s.rings.items()}
        self.ring_of: dict[str, int] = {}  # buffer -> rows kept
        states = {s.name: s.type for s in module.states.values()}
        self.sharing = share_bytes(graph, module.loops, states, io, self._may_take, iterations)
        if self._floor_meets():
            self.sharing = share_bytes(graph, module.loops, states, io, self._may_take, iterations, meet=False)
        self.kernels = RowKernels(set(module.loops))
        self.calls = count()  # numbers for them
        self.repeat_vars = {v.name for v in (*self.entry_dims, *fresh_dims(graph))}  # and of dims
        self.end = len(graph.body) + 1
        self.head: list[PlanStmt] = []  # what follows from the entry's dims is found out before any work
        self.known: set[Var] = set(self.entry_dims)
        self.derived: dict[Var, Dim] = {}  # of those that follow from the entry's, what they are in these
        self.body: list[PlanStmt] = []
        self.buffers: list[PlanBuffer] = []
        self.alias: dict[str, str] = {}  # buffer -> the one whose bytes it shares; "" = none
        self.blocks: dict[str, Block] = {}
        self.block_of: dict[str, str] = {}  # buffer in the arena -> its block
        self.used_by: dict[str, Storage | int] = {}  # block -> what it is for, or the step that it is for
        self.state_at, self.state_bytes = state_offsets(module.states, align, self.iteration_of)
        self.version = {s: s for s in module.states}  # the buffer that holds each state's value now
        self._name_values()

    def _name_values(self) -> None:
        """Names are unique: constants and states keep theirs, then inputs and outputs have first choice."""
        constants = (*self.module.consts, *self.module.stacks)
        self.taken = {*constants, *self.module.states}
        self.names: dict[str, str] = {f"@{c}": c for c in constants}
        self.regions = set(REGIONS)
        self.region_of: dict[str, str] = {}
        for value in self.graph.params:
            self.names[value.name] = fresh_name(value.name, self.taken)
        self.copies = self._name_copies()
        for value in (*(r for r in self.graph.results if not r.const), *self.graph.values()):
            if value.name not in self.names:
                self.names[value.name] = fresh_name(value.name, self.taken)

    def _floor_meets(self) -> bool:
        """Whether values that repeats carry are in use at the same time, so that not all of them lie at the bottom."""
        held = {id(s): s for pair in self.sharing.met for s in map(self.sharing.storage.__getitem__, pair)}.values()
        return any(a.born <= b.last and b.born <= a.last for a, b in combinations(held, 2))

    def _may_take(self, step: int, out: str, arg: str) -> bool:
        """Whether a result may be written over an argument that dies: in a stream, where its rows were checked."""
        segment = self.streamed.get(step)
        return segment is None or (step, out, arg) in segment.taken

    def _name_copies(self) -> dict[int, str]:
        """Names of the results that are copied at the end: the user knows them by it, so the copy has the value's
        own name and the value, a view of something else, another one."""
        copied = self.sharing.copied_results
        direct = {r.name for k, r in enumerate(self.graph.results) if k not in copied and not r.const}
        own: dict[str, int] = {}
        for k in sorted(copied):
            value = self.graph.results[k]
            if not value.const and value.name not in self.names and value.name not in direct:
                own.setdefault(value.name, k)
        return {k: fresh_name(name, self.taken) for name, k in own.items()}

    def run(self) -> Laid:
        """The plan."""
        for state in self.module.states.values():
            self._add(PlanBuffer(state.name, state.type, "state", self.state_at[state.name], "state"))
        self._consts()
        for p in self.graph.params:
            self._define(p, "input")
        for step, node in enumerate(self.graph.body, 1):
            segment = self.streamed.get(step)
            if step in self.begins or step in self.ends:
                assert isinstance(node, Call)  # a mark is
                self._mark(step, node)
            elif segment is None:
                self._node(step, node)
            elif step == segment.first:
                self._stream(segment)
        outputs = tuple(self._output(k, v) for k, v in enumerate(self.graph.results))
        return self._finish(outputs)

    def _node(self, step: int, node: Node) -> None:
        self._values(node)
        if is_view(node):
            self._view(node)
        elif isinstance(node, Call):
            self.body.append(self._call(step, node))
        elif isinstance(node, ReadState):
            self._read(step, node)
        elif isinstance(node, WriteState):
            self._write(step, node)

    def _mark(self, step: int, node: Call) -> None:
        """Where iterations begin, and where they end."""
        (value,), out = node.args, node.out
        source = self.names[self._key(value)]
        if self.sharing.of(value) is self.sharing.of(out):
            self.names[out.name] = source
        else:
            self.body.append(Copy(self._define(out), source))
        if step in self.begins:
            self.before, self.body = self.body, []
            return
        span = self.ends[step]
        (begun,) = node_outs(self.graph.body[span.first - 1])
        carry = self.names[begun.name], self.names[out.name]
        var = self.iteration_of[span.count]
        self.body = [*self.before, Repeat(var, 0, span.count, tuple(self.body), carry)]

    def _stream(self, segment: Segment) -> None:
        """The repeats of a segment; its nodes are calls."""
        assert segment.flow is not None  # it is a stream
        repeats = Repeats(segment.flow, [fresh_name("h", self.repeat_vars) for _ in segment.flow.levels])
        calls = {}
        for step in repeats.order():
            node = self.graph.body[step - 1]
            assert isinstance(node, Call)  # only calls have rows
            calls[step] = self._call(step, node, repeats.rows(step))
        self.body.append(repeats.statement(calls))

    # --- buffers ---------------------------------------------------------------------------------------

    def _key(self, value: Value) -> str:
        return str(value) if value.const else value.name

    def _consts(self) -> None:
        used = {a.name for n in self.graph.body for a in node_args(n) if a.const}
        used |= {r.name for r in self.graph.results if r.const}
        for const in self.module.consts.values():
            if const.name in used:
                self._add(PlanBuffer(const.name, const.type, "const", 0, "const"))
        self.const_bytes = sum(c.type.max_bytes for n, c in self.module.consts.items() if n in used)
        for stack in (s for s in self.module.stacks.values() if s.name in used):
            at = self.iteration_of[stack.iterations].expr * stack.stride
            self._add(PlanBuffer(stack.name, stack.type, "const", at, "const"))
            self.const_bytes += stack.nbytes

    def _define(self, value: Value, role: Role = "temp") -> str:
        """Adds the buffer of a value where its storage lives; its name."""
        storage = self.sharing.of(value)
        name = self.names[value.name]
        alias = self.names.get(self.sharing.alias.get(value.name, ""), "")
        if value in self.graph.results and storage.result and role == "temp":
            role = "output"
        region = "arena"
        offset: Dim = 0
        match storage.memory:
            case "arena":
                self._block(name, storage)
            case "state":
                region, offset = "state", self.state_at[storage.place]
                alias = alias or self.version[storage.place]
            case "const":
                region = "const"
            case "caller":
                region = self._caller_region(storage.place)
        ring = self.rings.get(value.name)
        if ring is not None:
            self.ring_of[name] = ring
        self._add(PlanBuffer(name, value.type, region, offset, role, ring, alias))
        return name

    def _block(self, name: str, storage: Storage) -> None:
        block = self.names[storage.values[0]]
        align = max(self.align, storage.type.dtype.nbytes)
        size = stored_bytes(storage.type, self.rings.get(storage.values[0]))
        self.blocks[block] = Block(block, size, storage.born, storage.last, align)
        self.block_of[name] = block
        self.used_by[block] = storage
        self.sizes[block] = self._size(storage.type)

    def _size(self, type: TensorType) -> Dim:
        """The bytes of a type in the dims of the entry; what a run finds out, or may refuse, counts at its most."""
        size = substitute(type.nbytes, self.derived)
        maximum = max_value(size)
        known = free_vars(size) <= set(self.entry_dims) and maximum is not None and maximum <= type.max_bytes
        return size if known else type.max_bytes

    def _temp(self, name: str, type: TensorType, role: Role, step: int, align: int) -> str:
        """Adds a buffer of the arena that lives for one step; its name."""
        self.blocks[name] = Block(name, type.max_bytes, step, step, align)
        self.sizes[name] = self._size(type)
        self.block_of[name] = name
        self.used_by[name] = step
        self._add(PlanBuffer(name, type, "arena", 0, role))
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

    def _values(self, node: Node) -> None:
        """Gives the dims that the node brings their values, and checks what it states of others."""
        if isinstance(node, BindDim):
            self._bind(node.var, self.names[self._key(node.value)], node.source or f"%{node.value.name}")
        elif isinstance(node, MatchCast):
            found = match_types(node.value.type, node.out.type, self.bound)
            what = node.source or f"match_cast %{node.out.name}"
            for var, extent, axis in found.binds:
                self._bind(var, extent, f"{what} axis {axis}")
            for left, right, axis in found.checks:
                early = free_vars(left) | free_vars(right) <= self.known
                (self.head if early else self.body).append(Check(left, right, f"{what} axis {axis}"))
        for value in node_outs(node):
            for var in sorted({v for d in value.type.shape for v in free_vars(d)} - self.bound, key=lambda v: v.name):
                raise BuildError(
                    f"nothing tells the dim {var.name} of %{value.name} at run time",
                    where=f"graph @{self.graph.name}",
                    hint=f"bind it before: bind {var.name} in {var.lo}..{var.hi} = %count, or match_cast an axis to it",
                )

    def _bind(self, var: Var, value: Dim | str, what: str) -> None:
        early = not isinstance(value, str) and free_vars(value) <= self.known
        (self.head if early else self.body).append(Bind(var, value, what))
        self.bound.add(var)
        if early and not isinstance(value, str):
            self.known.add(var)
            self.derived[var] = substitute(value, self.derived)

    def _call(self, step: int, node: Call, rows: tuple[Dim, Dim] | None = None) -> PlanCall:
        """A call of a node, for ``rows`` or whole."""
        args = [self.names[self._key(a)] for a in node.args]
        args += [self._define(v) for v in node.outs]
        dims: tuple[Dim, ...] = ()
        scratch = ""
        split: Split | None = None
        function = self.module.loops.get(node.callee)
        if function is not None:
            if rows is not None:
                function = self.kernels.on(function, [self.ring_of.get(a) for a in args])
            dims = self._dims(function, node)
            if function.rows is not None and rows is None:
                rows = 0, substitute(function.rows.extent, dict(zip(function.dims, dims, strict=True)))
                split = split_of(function, args, dims, self.alias, self.threads)
            size, minimum = scratch_layout(function).bytes, SCRATCH_ALIGN
            if size:
                if split is not None:
                    size, minimum = scratch_share(size) * split.threads, THREAD_ALIGN
                name = fresh_name(f"{args[-1]}_scratch", self.taken)
                scratch = self._temp(name, TensorType(U8, (size,)), "scratch", step, max(self.align, minimum))
        elif node.kind == "extern":
            dims = extern_dims(node)
        elif node.kind == "loops":
            raise BuildError(f"graph @{self.graph.name} calls @{node.callee}, which the module lacks")
        ops = tuple(node.source.split("+")) if node.source else ()
        callee = node.callee if function is None else function.name
        extern = node.kind == "extern"
        return PlanCall(next(self.calls), callee, tuple(args), dims, rows, scratch, ops, node.place, extern, split)

    def _add(self, buffer: PlanBuffer) -> None:
        self.buffers.append(buffer)
        self.alias[buffer.name] = buffer.alias

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
        if node.at is not None:
            self._write_rows(node, node.at, source)
            return
        storage = self.sharing.of(node.value)
        if step in self.sharing.direct_writes:
            self.version[node.state] = source
            return
        if storage.memory == "state" and storage.place == node.state and storage.origin == "read":
            return  # the state's own value, still in place
        name = fresh_name(f"{node.state}_new", self.taken)
        type = self.module.states[node.state].type
        if prove_eq(type.nbytes, node.value.type.nbytes) is not True:
            raise BuildError(
                f"%{node.value.name} of {node.value.type.nbytes} bytes is written to"
                f" state @{node.state} of {type.nbytes}"
            )
        at = self.state_at[node.state]
        self._add(PlanBuffer(name, type, "state", at, "temp", alias=self.version[node.state]))
        self.body.append(Copy(name, source))
        self.version[node.state] = name

    def _write_rows(self, node: WriteState, at: Dim, source: str) -> None:
        """A call that updates the state where it lies, after a check that the rows are inside where it is plain."""
        state = self.module.states[node.state]
        where = f"graph @{self.graph.name}, write @{state.name}"
        function = self.module.loops.get(node.kernel)
        if function is None:
            raise BuildError("the write of rows was not lowered", where=where)

        def refuse(text: str) -> None:
            raise BuildError(text, where=where)

        over = at + node.value.type.shape[state.row_axis] - state.extent
        if state.layout == "plain" and prove_ge(0, over) is not True:
            early = free_vars(over) <= self.known
            what = f"{node.source or f'write @{state.name}'} behind its last row"
            (self.head if early else self.body).append(Check(dmax(over, 0), 0, what))
        new = fresh_name(f"{state.name}_new", self.taken)
        place = self.state_at[state.name]
        self._add(PlanBuffer(new, state.type, "state", place, "temp", alias=self.version[state.name]))
        self.version[state.name] = new
        given = zip(function.params, (node.value.type, state.type), strict=True)
        env = unify(function.dims, [(p.buffer.name, p.buffer.type, t) for p, t in given], self.dims, refuse)
        dims = tuple(env[v] for v in function.dims)
        ops = tuple(node.source.split("+")) if node.source else (f"write {state.name}",)
        rows = None if function.rows is None else (0, substitute(function.rows.extent, env))
        self.body.append(PlanCall(next(self.calls), function.name, (source, new), dims, rows, ops=ops))

    def _output(self, k: int, value: Value) -> str:
        """The buffer of a result: where it was computed, or a copy at the end."""
        source = self.names[self._key(value)]
        if k not in self.sharing.copied_results:
            return source
        name = self.copies.get(k) or fresh_name(f"{source}_out", self.taken)
        if self.io == "arena":
            self._temp(name, value.type, "output", self.end, max(self.align, value.type.dtype.nbytes))
        else:
            region = fresh_name(name, self.regions)
            self.region_of[name] = region
            self._add(PlanBuffer(name, value.type, region, 0, "output"))
        self.body.append(Copy(name, source))
        return name

    # --- places ----------------------------------------------------------------------------------------

    def _finish(self, outputs: tuple[str, ...]) -> Laid:
        floor = {self.block_of[self.names[v]] for pair in self.sharing.met for v in pair}
        blocks = tuple(replace(b, fixed=0) if b.name in floor else b for b in self.blocks.values())
        separations: tuple[Separation, ...] | None = None
        if self.scaled:
            found = placements(blocks)
            placement = best_scaled(found, blocks, self.sizes)
            if floor:
                placement = min((fixed_first(blocks, placement), *found), key=lambda p: p.peak)
            closed_form = scaled(blocks, self.sizes, placement, self.dims)
            fullest = fullest_of(blocks)
        elif self.segments:
            placement, fullest, separations = self._place_streams(blocks)
            closed_form = Scaled((), placement.offsets, placement.peak)
        else:
            placement, fullest = plan_offsets(blocks), fullest_of(blocks)
            closed_form = Scaled((), placement.offsets, placement.peak)
        # what a search proved beyond the largest live set no reader of the plan could check
        over = overlapping(blocks, placement.offsets, self.align)
        if any(s.flow is not None for s in self.segments):
            bound = placement.lower_bound
        else:
            bound = lower_bound(blocks) if over is None else min(placement.lower_bound, over)
        buffers = tuple(
            replace(b, offset=closed_form.offsets[self.block_of[b.name]]) if b.name in self.block_of else b
            for b in self.buffers
        )
        inputs = tuple(self.names[p.name] for p in self.graph.params)
        align = max([self.align, *(b.align for b in blocks)])
        arena = Region("arena", "arena", closed_form.bytes, align)
        states = self.state_bytes if self.module.states else None
        plan = Plan(
            self.graph.name,
            self.entry_dims,
            inputs,
            outputs,
            regions_of(arena, self.align, states, self.const_bytes, buffers, self.region_of.values()),
            buffers,
            (*self.head, *self.body),
            bound,
            closed_form.places,
        )
        return Laid(plan, blocks, placement, fullest, self.kernels.made, self.block_of, separations)

    def _place_streams(self, blocks: tuple[Block, ...]) -> tuple[Placement, tuple[Block, ...], tuple[Separation, ...]]:
        """Offsets by when calls for rows use each block, the blocks in use when most bytes are, and what was asked."""
        timeline = Timeline(self.segments)
        used: dict[str, Bits] = {}
        for b in blocks:
            by = self.used_by[b.name]
            used[b.name] = timeline.during(by) if isinstance(by, int) else timeline.used(by.values, by.born, by.last)
        of_value = {v.name: self.block_of.get(self.names[v.name], "") for v in self.graph.values()}
        separations, bound = timeline.problem(blocks, used, timeline.lags(of_value, used, self.align))
        placement = plan_offsets(blocks, separations=separations, bound=bound)
        return placement, timeline.fullest(blocks, used), tuple(separations)
