"""Channels that stay or go together, and which of them something needs."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Call, Graph, Value, node_args, node_outs
from sdk.compiler.passes.pruning.bounds import Bounds
from sdk.compiler.passes.pruning.roles import Role, channels

__all__ = ["kept_channels"]

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class _Reader:
    """A sum: which of its inputs each of its outputs cannot do without."""

    inputs: Ints
    outputs: Ints
    needs: Flags


@dataclass
class _Classes:
    """Every channel of every value has a number; once ``join`` has joined those of a class, ``parent`` leads to the
    smallest of them."""

    ids: dict[str, Ints] = field(default_factory=dict)
    pinned: list[Ints] = field(default_factory=list)
    readers: list[_Reader] = field(default_factory=list)
    joins: list[tuple[Ints, Ints]] = field(default_factory=list)
    size: int = 0
    makers: dict[int, list[int]] = field(default_factory=dict)  # of each class the sums it is an output of
    parent: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def fresh(self, value: Value) -> None:
        """Numbers for the channels of a value, where it has any."""
        if (count := channels(value)) is not None:
            self.ids[value.name] = np.arange(self.size, self.size + count)
            self.size += count

    def pin(self, value: Value) -> None:
        """All of this value stays."""
        if not value.const and value.name in self.ids:
            self.pinned.append(self.ids[value.name])

    def join(self) -> None:
        """Makes the channels ``a[k]`` and ``b[k]`` of each pair in ``joins`` one class."""
        self.parent = np.arange(self.size)
        for a, b in self.joins:
            while (separate := (x := self.find(a)) != (y := self.find(b))).any():
                np.minimum.at(self.parent, np.maximum(x, y)[separate], np.minimum(x, y)[separate])
        self.parent = self.find(np.arange(self.size))

    def read_by(self, roots: Ints) -> set[int]:
        """The numbers of the sums that have one of these classes among their outputs."""
        if not self.makers:
            for k, reader in enumerate(self.readers):
                for root in np.unique(self.find(reader.outputs)).tolist():
                    self.makers.setdefault(root, []).append(k)
        return {k for root in roots.tolist() for k in self.makers.get(root, ())}

    def find(self, at: Ints) -> Ints:
        """The class of each number."""
        start = at
        while not np.array_equal(up := self.parent[at], at):
            at = up
        self.parent[start] = at  # the next way up is one step
        return at


def kept_channels(
    graph: Graph, roles: Sequence[Role], bounds: Mapping[str, Bounds], multiple: int
) -> Mapping[str, Flags]:
    """For each value with channels which of them stay: those that a result, an opaque node or a sum needs, what these
    are computed from, and one of each value, as no extent becomes 0. Results of sums keep as many more as make
    their number a multiple of ``multiple``, or all."""
    classes = _classes(graph, roles, bounds)
    needed = np.zeros(classes.size, np.bool_)
    for ids in classes.pinned:
        needed[classes.find(ids)] = True
    _spread(classes, needed, range(len(classes.readers)))
    for ids in reversed(classes.ids.values()):
        roots = classes.find(ids)
        if len(roots) and not needed[roots].any():
            needed[roots[0]] = True
            _spread(classes, needed, classes.read_by(roots[:1]))
    for reader in classes.readers:
        roots = classes.find(reader.outputs)
        count = int(needed[roots].sum())
        missing = -count % multiple
        if missing:
            _keep_more(classes, needed, reader, missing)
    return {name: needed[classes.find(ids)] for name, ids in classes.ids.items()}


def _classes(graph: Graph, roles: Sequence[Role], bounds: Mapping[str, Bounds]) -> _Classes:
    """The channels of a graph and how they hang together."""
    classes = _Classes()
    for value in graph.params:
        classes.fresh(value)
        classes.pin(value)
    for node, role in zip(graph.body, roles, strict=True):
        if isinstance(node, Call) and role.kind != "opaque":
            _tie(classes, node, role, bounds)
            continue
        for value in node_outs(node):
            classes.fresh(value)
        for value in (*node_args(node), *node_outs(node)):
            classes.pin(value)
    for value in graph.results:
        classes.pin(value)
    classes.join()
    return classes


def _spread(classes: _Classes, needed: Flags, changed: Iterable[int]) -> None:
    """Marks what the sums of needed channels need, until nothing more is. ``changed`` are the sums of which outputs
    may be needed that were not: only these, and what makes their inputs, are looked at, the last first."""
    waiting = [-k for k in changed]  # a heap gives the smallest first
    heapq.heapify(waiting)
    queued = set(waiting)
    while waiting:
        number = heapq.heappop(waiting)
        queued.discard(number)
        reader = classes.readers[-number]
        inputs = classes.find(reader.inputs[reader.needs[needed[classes.find(reader.outputs)]].any(axis=0)])
        new = inputs[~needed[inputs]]
        needed[new] = True
        for more in (-k for k in classes.read_by(new)):
            if more not in queued:
                queued.add(more)
                heapq.heappush(waiting, more)


def _keep_more(classes: _Classes, needed: Flags, reader: _Reader, count: int) -> None:
    """Keeps more of the outputs of a sum, first those that need no more inputs."""
    roots = classes.find(reader.outputs)
    free = np.flatnonzero(~needed[roots])
    more = (reader.needs[free] & ~needed[classes.find(reader.inputs)]).sum(axis=1)
    chosen = roots[free[np.argsort(more, kind="stable")[:count]]]
    needed[chosen] = True
    _spread(classes, needed, classes.read_by(chosen))


def _tie(classes: _Classes, node: Call, role: Role, bounds: Mapping[str, Bounds]) -> None:
    """Numbers the result of a node as its arguments' channels go into it."""
    args = [v for v in node.args if not v.const]
    ids, count = classes.ids, channels(node.out) or 0
    first = ids.get(args[0].name)
    if role.sums is not None and first is not None:
        if role.sums.multiplier:
            ids[node.out.name] = np.repeat(first, role.sums.multiplier)
            return
        classes.fresh(node.out)
        absorbed = role.sums.absorbs(bounds[args[0].name])
        needs = role.sums.uses & ~absorbed if role.sums.may_shrink() else np.ones((count, len(first)), np.bool_)
        classes.readers.append(_Reader(first, ids[node.out.name], needs))
    elif role.kind == "stack":
        ids[node.out.name] = np.concatenate([ids[v.name] for v in args])
    elif role.kind == "fold" and first is not None:
        ids[node.out.name] = np.tile(first, count // len(first))
    elif role.kind == "part" and first is not None:
        begin: Any = node.attr("begin")
        ids[node.out.name] = first[begin[-1] :][:count]
    else:
        _alike(classes, args, node.out, count)


def _alike(classes: _Classes, args: Sequence[Value], out: Value, count: int) -> None:
    """Channel for channel; an argument that every channel reads keeps its only one."""
    full = [classes.ids[v.name] for v in args if channels(v) == count]
    for value in args:
        if channels(value) != count:
            classes.pin(value)
    if not full:
        classes.fresh(out)
        classes.pin(out)
        return
    classes.ids[out.name] = full[0]
    classes.joins += [(full[0], other) for other in full[1:]]
