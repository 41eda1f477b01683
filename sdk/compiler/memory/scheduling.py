"""The order of operators that needs the fewest bytes at once: exact where few orders differ, else with a bound."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

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
    node_args,
    node_outs,
    node_symbols,
)
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.types import TensorType
from sdk.compiler.memory.planner import plan_offsets
from sdk.compiler.memory.problem import Block, aligned
from sdk.compiler.memory.scratch import scratch_layout
from sdk.compiler.memory.storage import Io, Sharing, replaces, share_bytes
from sdk.compiler.sym import free_vars

__all__ = ["NODE_LIMIT", "Ordered", "arena_bytes", "best_order"]

NODE_LIMIT: Final = 60_000  # nodes looked at in the search, about 0.2 s
BEAM: Final = 8  # orders carried on side by side, at most, where the search ends early
BEAM_WORK: Final = 80_000  # nodes that may come next, times nodes, times orders
BRANCHES: Final = 3  # choices at each of them


@dataclass(frozen=True, slots=True)
class Ordered:
    """A graph in the order found. In bytes live at once, at the upper bounds of the dims: ``given`` before, ``peak``
    after, and ``bound``, below which no order goes (as far as the search knows: equal to ``peak`` where it is done)."""

    graph: Graph
    given: int
    peak: int
    bound: int

    @property
    def optimal(self) -> bool:
        """Whether no order is proved to need less."""
        return self.peak == self.bound


def best_order(
    graph: Graph,
    loops: Mapping[str, Loops],
    states: Mapping[str, TensorType],
    io: Io = "arena",
    align: int = 1,
    node_limit: int = NODE_LIMIT,
) -> Ordered:
    """``graph`` with its nodes in the order that has the fewest bytes live at once; itself where that is its own.

    Effects keep their order: accesses of one state, calls of libraries, and all that may end a run with an error.

    Args:
        graph: a scheduled graph, fully lowered.
        loops: its functions.
        states: the states of its module, by name.
        io: where inputs and outputs live.
        align: bytes that each tensor is rounded up to.
        node_limit: how many nodes the search may look at; the same limit finds the same order.

    Raises:
        BuildError: the graph is not fully lowered, or a size has no bound.
    """
    problem = _problem(graph, loops, states, io, align)
    given = problem.peak(range(problem.count))
    search = _Search(problem, given, node_limit)
    found = search.run()
    if found is None:
        return Ordered(graph, given, given, min(search.bound, given))
    body = tuple(graph.body[k] for k in found)
    return Ordered(replace(graph, body=body), given, problem.peak(found), search.bound)


def arena_bytes(
    graph: Graph, loops: Mapping[str, Loops], states: Mapping[str, TensorType], io: Io = "arena", align: int = 1
) -> int:
    """The arena that whole tensors of ``graph`` need in its order.

    Raises:
        BuildError: as ``best_order``.
    """
    sharing = share_bytes(graph, loops, states, io)
    held = [s for s in sharing.unique() if s.memory == "arena"]
    blocks = [Block(s.values[0], s.type.max_bytes, s.born, s.last, align) for s in held]
    for step, node in enumerate(graph.body, 1):
        blocks.append(Block(f"scratch {step}", _scratch(node, loops), step, step, align))
    end = len(graph.body) + 1
    for k in sharing.copied_results if io == "arena" else ():
        blocks.append(Block(f"copy {k}", graph.results[k].type.max_bytes, end, end, align))
    return plan_offsets(blocks).peak


def _scratch(node: Node, loops: Mapping[str, Loops]) -> int:
    function = loops.get(node.callee) if isinstance(node, Call) and node.kind == "loops" else None
    return 0 if function is None else scratch_layout(function).bytes


# --- the problem -----------------------------------------------------------------------------------------------------


@dataclass
class _Problem:
    """Nodes by number; of bytes by number their size, who makes them (-1: there from the start) and who needs them.

    ``takes`` lists, for a node, the bytes it makes with those that they may replace where these die with it.
    """

    count: int
    sizes: list[int] = field(default_factory=list)
    maker: list[int] = field(default_factory=list)
    users: list[int] = field(default_factory=list)  # as sets of nodes, a bit each; the last bit: the results
    makes: list[list[int]] = field(default_factory=list)
    needs: list[list[int]] = field(default_factory=list)
    takes: list[list[tuple[int, list[int]]]] = field(default_factory=list)
    extra: list[int] = field(default_factory=list)
    before: list[int] = field(default_factory=list)  # sets of nodes that come first
    after: list[list[int]] = field(default_factory=list)
    at_end: int = 0

    @property
    def start(self) -> int:
        """Bytes live before the first node, that some node needs."""
        return sum(n for n, maker, users in zip(self.sizes, self.maker, self.users, strict=True) if maker < 0 and users)

    @property
    def inputs(self) -> int:
        """Bytes that are there from the start."""
        return sum(n for n, maker in zip(self.sizes, self.maker, strict=True) if maker < 0)

    @cached_property
    def minimum(self) -> int:
        """What some node, the start or the end needs whatever the order."""
        held = [self.sizes[k] for k in range(len(self.sizes)) if self.users[k] >> self.count]
        alone = []
        for node in range(self.count):
            saved = sum(self.sizes[new] for new, _ in self.takes[node])
            touched = {*self.needs[node], *self.makes[node]}
            alone.append(sum(self.sizes[k] for k in touched) + self.extra[node] - saved)
        return max([self.inputs, sum(held) + self.at_end, *alone])

    def step(self, node: int, done: int, live: int) -> tuple[int, int]:
        """Bytes live while a node runs after those ``done``, and after it, when ``live`` were before."""
        left = ~(done | 1 << node)
        dying = [k for k in self.needs[node] if not self.users[k] & left]
        new = sum(self.sizes[k] for k in self.makes[node])
        during = live + new + self.extra[node]
        free = set(dying)
        for made, olds in self.takes[node]:
            for old in olds:
                if old in free:
                    free.remove(old)
                    during -= self.sizes[made]
                    break
        dead = sum(self.sizes[k] for k in self.makes[node] if not self.users[k])
        return during, live + new - dead - sum(self.sizes[k] for k in dying)

    def peak(self, order: Sequence[int]) -> int:
        """The most bytes live at once."""
        done, live = 0, self.start
        peak = self.inputs
        for node in order:
            during, live = self.step(node, done, live)
            done |= 1 << node
            peak = max(peak, during)
        return max(peak, live + self.at_end)


def _problem(
    graph: Graph, loops: Mapping[str, Loops], states: Mapping[str, TensorType], io: Io, align: int
) -> _Problem:
    sharing = share_bytes(graph, loops, states, io, lambda *_: False)
    out = _Problem(len(graph.body))
    number: dict[int, int] = {}
    for storage in sharing.unique():
        if storage.memory == "arena":
            number[id(storage)] = len(out.sizes)
            out.sizes.append(aligned(storage.type.max_bytes, align))
            out.maker.append(-1 if storage.origin == "param" else storage.born - 1)
            out.users.append(_set(step - 1 for step in storage.users))
    for node in graph.body:
        made = _numbers(node_outs(node), sharing, number)
        needed = _numbers(node_args(node), sharing, number)
        out.makes.append([k for k in made if k not in needed])
        out.needs.append(needed)
        out.takes.append(_takes(node, loops, sharing, number))
        out.extra.append(aligned(_scratch(node, loops), align))
    if io == "arena":
        out.at_end = sum(aligned(graph.results[k].type.max_bytes, align) for k in sharing.copied_results)
    out.before = _before(graph, loops)
    out.after = [[k for k in range(out.count) if out.before[k] >> node & 1] for node in range(out.count)]
    return out


def _set(items: Iterable[int]) -> int:
    found = 0
    for k in items:
        found |= 1 << k
    return found


def _numbers(values: Iterable[Value], sharing: Sharing, number: Mapping[int, int]) -> list[int]:
    found: dict[int, None] = {}
    for value in values:
        k = number.get(id(sharing.of(value)))
        if k is not None:
            found[k] = None
    return list(found)


def _takes(
    node: Node, loops: Mapping[str, Loops], sharing: Sharing, number: Mapping[int, int]
) -> list[tuple[int, list[int]]]:
    allowed = replaces(node, loops)
    out = []
    for value in node_outs(node) if allowed else ():
        new = sharing.of(value)
        olds = [sharing.of(a) for a in node_args(node) if (value.name, a.name) in allowed]
        fit = [number[id(s)] for s in olds if id(s) in number and s is not new]
        if fit and id(new) in number:
            out.append((number[id(new)], list(dict.fromkeys(fit))))
    return out


def _before(graph: Graph, loops: Mapping[str, Loops]) -> list[int]:
    """For each node those that must come first: what makes its values and dims, and effects that it follows."""
    maker: dict[str, int] = {}
    dims: dict[object, int] = {}
    fresh = set(fresh_dims(graph))
    read: dict[str, list[int]] = {}
    written: dict[str, int] = {}
    last_effect = -1
    out = []
    for k, node in enumerate(graph.body):
        needs = {maker[a.name] for a in node_args(node) if not a.const and a.name in maker}
        types = [v.type for v in (*node_args(node), *node_outs(node))]
        used = {v for t in types for d in t.shape for v in free_vars(d)} | node_symbols(node)
        brought = {node.var} if isinstance(node, BindDim) else {v for v in used & fresh if v not in dims}
        called = loops.get(node.callee) if isinstance(node, Call) else None
        passed = set(called.dims) if called else set()  # also those that are in no shape of an argument
        needs |= {dims[v] for v in used | passed if v in dims}
        dims |= {v: k for v in brought if v not in dims}
        if isinstance(node, ReadState):
            needs |= {written[node.state]} if node.state in written else set()
            read.setdefault(node.state, []).append(k)
        if isinstance(node, WriteState):
            needs |= {*read.pop(node.state, []), *([written[node.state]] if node.state in written else [])}
            written[node.state] = k
        if _effect(node):
            needs |= {last_effect} if last_effect >= 0 else set()
            last_effect = k
        maker |= {v.name: k for v in node_outs(node)}
        out.append(_set(needs))
    return out


def _effect(node: Node) -> bool:
    """Whether others may see when it runs, or that it ends the run."""
    if isinstance(node, Call):
        return node.kind == "extern" or bool(node.place)
    return isinstance(node, WriteState | BindDim | MatchCast)


# --- the search ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _State:
    """What is done, the bytes live then, the most there were, and what it came from by which node."""

    done: int
    live: int
    peak: int
    ready: tuple[int, ...]
    before: _State | None = None
    node: int = -1

    def order(self) -> list[int]:
        """The nodes done, in order."""
        out = []
        state: _State = self
        while state.before is not None:
            out.append(state.node)
            state = state.before
        return out[::-1]


class _Search:
    """Sets of nodes done, those that reached less first; ``bound`` is what no order is below as far as is known."""

    def __init__(self, problem: _Problem, given: int, node_limit: int) -> None:
        self.problem, self.given, self.nodes_left = problem, given, node_limit
        self.bound = problem.minimum
        self.all = (1 << problem.count) - 1

    def run(self) -> list[int] | None:
        """An order that needs less than the given one, the best within the limit; None where there is none."""
        if self.bound >= self.given:
            return None
        first = tuple(k for k in range(self.problem.count) if not self.problem.before[k])
        start = self._free(_State(0, self.problem.start, self.bound, first))
        waiting = [(start.peak, 0, 0, start)]
        seen = {start.done}
        made = 1
        while waiting:
            self.bound = max(self.bound, waiting[0][0])
            _, _, _, state = heapq.heappop(waiting)
            if state.done == self.all:
                return state.order()
            if self.nodes_left <= 0:
                return self._beam([state, *(s for *_, s in heapq.nsmallest(BEAM - 1, waiting))])
            for node in state.ready:
                new = self._free(self._after(state, node))
                if new.peak < self.given and new.done not in seen:
                    seen.add(new.done)
                    heapq.heappush(waiting, (new.peak, -new.done.bit_count(), made, new))
                    made += 1
        self.bound = self.given
        return None

    def _after(self, state: _State, node: int) -> _State:
        during, live = self.problem.step(node, state.done, state.live)
        done = state.done | 1 << node
        opened = [k for k in self.problem.after[node] if not self.problem.before[k] & ~done]
        ready = (*(k for k in state.ready if k != node), *opened)
        return _State(done, live, max(state.peak, during), ready, state, node)

    def _free(self, state: _State) -> _State:
        """The state after all nodes that cost nothing now: doing them at once is never worse than later."""
        waiting = list(state.ready)
        while waiting:
            node = waiting.pop(0)
            self.nodes_left -= 1
            during, live = self.problem.step(node, state.done, state.live)
            if during <= state.peak and live <= state.live:
                state = self._after(state, node)
                waiting = list(state.ready)
        return state

    def _beam(self, states: list[_State]) -> list[int] | None:
        """An order from the best of the states, a few of them carried on side by side."""
        width = max(1, min(BEAM, BEAM_WORK // (self.problem.count * max(len(states[0].ready), 1))))
        while states and states[0].done != self.all:
            new: dict[int, _State] = {}
            for state in states:
                if state.done == self.all:
                    new.setdefault(state.done, state)
                for node in self._cheapest(state):
                    after = self._free(self._after(state, node))
                    if after.done not in new or after.peak < new[after.done].peak:
                        new[after.done] = after
            kept = sorted(new.values(), key=lambda s: (s.peak, s.live - s.peak * s.done.bit_count(), s.done))
            states = [s for s in kept if s.peak < self.given][:width]
        return states[0].order() if states else None

    def _cheapest(self, state: _State) -> list[int]:
        """The nodes that may come next and need least, then leave least."""
        cost = {k: self.problem.step(k, state.done, state.live) for k in state.ready}
        return sorted(state.ready, key=lambda k: (max(cost[k][0], state.peak), cost[k][1], k))[:BRANCHES]
