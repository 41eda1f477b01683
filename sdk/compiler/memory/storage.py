"""Which values of a scheduled graph share bytes, from when to when, and where those bytes live."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sdk.compiler.ir.graph import (
    Call,
    Graph,
    MatchCast,
    Node,
    ReadState,
    Value,
    WriteState,
    node_args,
    node_outs,
)
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.types import TensorType
from sdk.compiler.memory.inplace import may_take_over
from sdk.compiler.memory.repeats import Repeated, marks
from sdk.compiler.ops.registry import get_op
from sdk.compiler.sym import prove_eq
from sdk.errors import BuildError

__all__ = ["Io", "MemoryKind", "Sharing", "Storage", "Takes", "is_view", "replaces", "share_bytes"]

MemoryKind = Literal["arena", "state", "const", "caller"]
Io = Literal["arena", "caller"]
Origin = Literal["param", "const", "read", "call"]
Takes = Callable[[int, str, str], bool]


@dataclass
class Storage:
    """Bytes that values take turns in or see at once: ``born`` and ``last`` are steps (inclusive).

    Step 0 is before the first node, node k is step k + 1, the step after the last node hands out results.
    ``users`` are the steps that read it; ``result`` says that a result lies here; ``place`` is the state or
    the result whose bytes these are, where the memory is not the arena.
    """

    origin: Origin
    type: TensorType
    born: int
    values: list[str] = field(default_factory=list)
    users: list[int] = field(default_factory=list)
    memory: MemoryKind = "arena"
    place: str = ""
    result: bool = False

    @property
    def last(self) -> int:
        """The last step at which the bytes are needed."""
        return max([self.born, *self.users])


@dataclass
class Sharing:
    """The decisions for one graph, by value name (constants under ``@name``).

    ``alias``: the value whose bytes a view sees or an in-place result takes over. ``direct_reads`` and
    ``direct_writes``: steps of state accesses that need no copy. ``copied_results``: positions in the results
    that need bytes of their own. ``renames``: views without any difference. ``met``: what an iteration begins with and
    what the one before made, never in use at once, are to lie at one place.
    """

    storage: dict[str, Storage]
    alias: dict[str, str] = field(default_factory=dict)
    direct_reads: set[int] = field(default_factory=set)
    direct_writes: set[int] = field(default_factory=set)
    copied_results: set[int] = field(default_factory=set)
    renames: set[str] = field(default_factory=set)
    met: list[tuple[str, str]] = field(default_factory=list)

    def of(self, value: Value) -> Storage:
        """The storage of a value."""
        return self.storage[str(value) if value.const else value.name]

    def unique(self) -> list[Storage]:
        """Every storage once, in order of birth."""
        return list({id(s): s for s in self.storage.values()}.values())


def is_view(node: Node) -> bool:
    """Whether the node only renames bytes."""
    return isinstance(node, MatchCast) or (isinstance(node, Call) and node.kind == "op" and get_op(node.callee).view)


def share_bytes(
    graph: Graph,
    loops: Mapping[str, Loops],
    states: Mapping[str, TensorType],
    io: Io,
    takes: Takes | None = None,
    iterations: tuple[Repeated, ...] = (),
    meet: bool = True,
) -> Sharing:
    """Decides views, results, state accesses and in-place results of a scheduled graph.

    Args:
        graph: what runs.
        loops: its functions.
        states: the states of its module.
        io: where inputs and outputs live.
        takes: whether the value that step k makes (first name) may have the bytes of an argument that dies there
            (second name); by default where the accesses of the call allow it.
        iterations: the nodes that run repeatedly.
        meet: whether what an iteration makes of the carried value may lie where that lay, else it is copied there.

    Raises:
        BuildError: an op that was not lowered, a call of a graph, or a view whose size cannot be proved.
    """
    out = _views(graph)
    for span in iterations:
        _kept(out, span)
    _results(graph, out, io)
    _states(graph, out, loops, states, marks(iterations))
    _take_over(graph, out, loops, takes, iterations, meet)
    return out


def replaces(node: Node, loops: Mapping[str, Loops]) -> set[tuple[str, str]]:
    """Which results of a call may be written over which of its arguments, by the names of the values."""
    if not isinstance(node, Call) or node.kind != "loops":
        return set()
    function = loops[node.callee]
    names = [p.buffer.name for p in function.params]
    outs = list(zip(names[len(node.args) :], node.outs, strict=True))
    sources = [(n, a) for n, a in zip(names, node.args, strict=False) if not a.const]
    held = [a.name for _, a in sources]
    return {
        (value.name, arg.name)
        for o, value in outs
        for s, arg in sources
        if held.count(arg.name) == 1 and may_take_over(function, o, s)
    }


def _views(graph: Graph) -> Sharing:
    out = Sharing({})
    for p in graph.params:
        out.storage[p.name] = Storage("param", p.type, 0, [p.name])
    for step, node in enumerate(graph.body, 1):
        for arg in node_args(node):
            if arg.const and str(arg) not in out.storage:
                out.storage[str(arg)] = Storage("const", arg.type, 0, [str(arg)], memory="const")
            out.of(arg).users.append(step)
        if is_view(node):
            _view(out, node_args(node)[0], node_outs(node)[0], checked=isinstance(node, MatchCast))
            continue
        if isinstance(node, Call) and node.kind not in ("loops", "extern"):
            raise BuildError(
                f"{node.kind} {node.callee} was not lowered",
                where=f"graph @{graph.name}, %{node.outs[0].name}",
            )
        origin: Origin = "read" if isinstance(node, ReadState) else "call"
        for value in node_outs(node):
            out.storage[value.name] = Storage(origin, value.type, step, [value.name])
    return out


def _view(out: Sharing, source: Value, value: Value, checked: bool) -> None:
    """``checked``: the run checks that the two have the same bytes."""
    if not checked and prove_eq(source.type.nbytes, value.type.nbytes) is not True:
        raise BuildError(
            f"%{value.name} views {source.type.nbytes} bytes as {value.type.nbytes}",
            hint="state the dims so that the two are equal",
        )
    out.storage[value.name] = out.of(source)
    out.of(source).values.append(value.name)
    out.alias[value.name] = str(source) if source.const else source.name
    if value.type.shape == source.type.shape and value.type.dtype == source.type.dtype:
        out.renames.add(value.name)


def _kept(out: Sharing, span: Repeated) -> None:
    """What iterations find there when they begin stays until the last is done."""
    for storage in out.unique():
        if storage.born < span.first and any(span.first < step <= span.last for step in storage.users):
            storage.users.append(span.last)


def _results(graph: Graph, out: Sharing, io: Io) -> None:
    """One result owns the bytes it was computed in; others, and inputs, constants and states, are copied."""
    end = len(graph.body) + 1
    for k, value in enumerate(graph.results):
        if value.const and str(value) not in out.storage:
            out.storage[str(value)] = Storage("const", value.type, 0, [str(value)], memory="const")
        storage = out.of(value)
        storage.users.append(end)
        if storage.origin != "call" or storage.result or value.name in out.renames:
            out.copied_results.add(k)
            continue
        storage.result = True
        if io == "caller":
            storage.memory, storage.place = "caller", value.name
    if io == "caller":
        for p in graph.params:
            out.of(p).memory, out.of(p).place = "caller", p.name


# --- states --------------------------------------------------------------------------------------------


def _states(
    graph: Graph, out: Sharing, loops: Mapping[str, Loops], states: Mapping[str, TensorType], marks: frozenset[int]
) -> None:
    reads = [(k, n) for k, n in enumerate(graph.body, 1) if isinstance(n, ReadState)]
    writes = [(k, n) for k, n in enumerate(graph.body, 1) if isinstance(n, WriteState)]
    events: list[tuple[int, str]] = []  # from which step the old value of a state is gone
    for step, node in writes:
        storage = out.of(node.value)
        alone = node.at is None and sum(n.state == node.state for _, n in writes) == 1
        old = [(r, out.of(n.out)) for r, n in reads if n.state == node.state and r < step]
        if alone and storage.born not in marks and _may_write_directly(graph, storage, states[node.state], old, loops):
            storage.memory, storage.place = "state", node.state
            out.direct_writes.add(step)
            for _, reader in old:
                if reader.last == storage.born:
                    out.alias.setdefault(storage.values[0], reader.values[0])
            events.append((storage.born, node.state))
        else:
            events.append((step, node.state))
    rows = {step for step, node in writes if node.at is not None}  # of their own old value they need a copy
    for step, read in reads:
        storage = out.of(read.out)
        gone = [
            e for e, name in events
            if name == read.state and (step < e < storage.last or (e in rows and step < e == storage.last))
        ]  # fmt: skip
        if gone:
            storage.origin = "call"  # a copy of the old value, in the arena
        else:
            storage.memory, storage.place = "state", read.state
            out.direct_reads.add(step)


def _may_write_directly(
    graph: Graph,
    storage: Storage,
    state: TensorType,
    old: list[tuple[int, Storage]],
    loops: Mapping[str, Loops],
) -> bool:
    """Whether the producer of the value can put it into the state: nothing reads the old value after it."""
    if storage.origin != "call" or storage.result or storage.memory != "arena":
        return False
    if storage.type.shape != state.shape or storage.type.dtype != state.dtype:
        return False
    producer = graph.body[storage.born - 1]
    if not isinstance(producer, Call) or producer.kind != "loops":
        return False
    for read, reader in old:
        if reader.last > storage.born or read > storage.born:
            return False
        if reader.last == storage.born and not _replaces(producer, storage, reader, loops):
            return False
    return True


def _replaces(node: Node, new: Storage, old: Storage, loops: Mapping[str, Loops]) -> bool:
    """Whether the call may write ``new`` over ``old``, which it reads."""
    if not isinstance(node, Call) or node.kind != "loops":
        return False
    function = loops[node.callee]
    names = [p.buffer.name for p in function.params]
    outs = [n for n, v in zip(names[len(node.args) :], node.outs, strict=True) if v.name in new.values]
    sources = [n for n, a in zip(names, node.args, strict=False) if not a.const and a.name in old.values]
    return bool(outs) and all(may_take_over(function, o, s) for o in outs for s in sources)


# --- in place ------------------------------------------------------------------------------------------


def _take_over(
    graph: Graph, out: Sharing, loops: Mapping[str, Loops], takes: Takes | None, iterations: Sequence[Repeated],
    meet: bool,
) -> None:
    """Lets results of calls take the bytes of arguments that die there, where the accesses allow it."""
    begins, ends = {t.first: t for t in iterations}, {t.last: t for t in iterations}
    carried = {goes.name: begun for t in iterations if meet for begun, goes in (_carried(graph, t),)}
    for step, node in enumerate(graph.body, 1):
        if step in ends:
            _next_iteration(graph, out, ends[step], meet)
            continue
        if not isinstance(node, Call) or node.kind != "loops":
            continue
        for value in node.outs:
            new = out.of(value)
            if new.memory == "state" or new.born != step:
                continue
            if any(name in carried and out.of(carried[name]).last < step for name in new.values):
                continue  # it lies where the carried value was
            for arg in node.args:
                old = out.of(arg)
                dies = old.memory == "arena" and old.last == step and not any(v.name in old.values for v in node.outs)
                if dies and (takes is None or takes(step, value.name, arg.name)):
                    if step not in begins and not _replaces(node, new, old, loops):
                        continue
                    _merge(out, old, new)
                    out.alias[value.name] = arg.name
                    break


def _carried(graph: Graph, span: Repeated) -> tuple[Value, Value]:
    """What an iteration begins with, and what the next one does."""
    return node_outs(graph.body[span.first - 1])[0], node_args(graph.body[span.last - 1])[0]


def _next_iteration(graph: Graph, out: Sharing, span: Repeated, meet: bool) -> None:
    """The carried value goes where it was when the iteration began: it may be there already, or be made there."""
    begun, last = _carried(graph, span)
    (then,) = node_outs(graph.body[span.last - 1])
    home, made, new = out.of(begun), out.of(last), out.of(then)
    if meet and made is not home and (made.memory, made.origin) == ("arena", "call") and made.born > home.last:
        out.met.append((begun.name, last.name))
        home = made
    out.alias[then.name] = last.name if made is home else begun.name
    _merge(out, home, new)
    new.users.append(span.last)


def _merge(out: Sharing, old: Storage, new: Storage) -> None:
    """``new`` continues in the bytes of ``old``."""
    new.born = old.born
    new.origin = old.origin if old.origin == "param" else new.origin
    new.values, new.users = [*old.values, *new.values], [*old.users, *new.users]
    for name in old.values:
        out.storage[name] = new
