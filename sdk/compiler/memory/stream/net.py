"""A scheduled graph as streams see it: which bytes live from node to node, and how each node runs by rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sdk.compiler.analysis.row_calls import by_rows
from sdk.compiler.ir.graph import Call, Graph, Node, Value, node_args, node_outs
from sdk.compiler.ir.loops import Loops
from sdk.compiler.memory.inplace import may_take_over
from sdk.compiler.memory.overlap import min_lag
from sdk.compiler.memory.problem import aligned
from sdk.compiler.memory.scratch import SCRATCH_ALIGN, scratch_layout
from sdk.compiler.memory.storage import Sharing, Storage, replaces
from sdk.compiler.memory.stream.row_calls import RowCall, row_calls_of

__all__ = ["Lifetime", "Net", "spared"]


def spared(argument: int, result: int, lag: int) -> int:
    """Bytes that two blocks of these sizes take less when the result begins ``lag`` bytes below the argument."""
    return argument + result - max(argument + max(lag, 0), result)


@dataclass(frozen=True)
class Lifetime:
    """Bytes that values see, from the step where they are born to the last that needs them.

    ``arena``: they count. ``plain``: no value sees them in another shape.
    """

    values: tuple[str, ...]
    bytes: int
    born: int
    last: int
    arena: bool
    plain: bool


class Net:
    """The nodes of a graph by step, from 1; step 0 has the inputs, the step after the last node the results."""

    def __init__(self, graph: Graph, loops: Mapping[str, Loops], sharing: Sharing, align: int) -> None:
        """``sharing`` is that of the graph without results in place; ``align`` in bytes, of every buffer."""
        self.graph, self.loops, self.align = graph, loops, align
        self.count = len(graph.body)
        self.held: list[Lifetime] = []
        self.of: dict[str, int] = {}  # value -> its bytes
        for storage in sharing.unique():
            if storage.origin != "const":
                self._hold(storage, sharing)
        self._sharing = sharing
        self._replaced: dict[int, list[tuple[str, str]]] = {}
        self._in_row: dict[tuple[str, str, str], bool] = {}

    def _hold(self, storage: Storage, sharing: Sharing) -> None:
        plain = all(v in sharing.renames or v not in sharing.alias for v in storage.values)
        size = aligned(storage.type.max_bytes, self.align)
        arena = storage.memory == "arena"
        for value in storage.values:
            self.of[value] = len(self.held)
        self.held.append(Lifetime(tuple(storage.values), size, storage.born, storage.last, arena, plain))

    @cached_property
    def _single(self) -> dict[str, Loops]:
        """The functions as calls for single rows have them."""
        return {name: by_rows(f) for name, f in self.loops.items()}

    @cached_property
    def row_calls(self) -> dict[int, RowCall]:
        """How nodes run by rows; what a state holds is written at once, before or after all that reads the old, and
        what is read of a constant in another shape is no result that could come by rows."""
        out = {}
        for step, row_call in enumerate(row_calls_of(self.graph, self._single), 1):
            values = [] if row_call is None else [t.value for t in (*row_call.reads, *row_call.writes)]
            held = (v.name in self.of and self._sharing.of(v).memory != "state" for v in values)
            if row_call is not None and all(held):
                out[step] = row_call
        return out

    def node(self, step: int) -> Node:
        """The node of a step from 1."""
        return self.graph.body[step - 1]

    def held_by(self, value: Value) -> Lifetime:
        """The bytes of a value that is no constant."""
        return self.held[self.of[value.name]]

    @cached_property
    def across(self) -> list[int]:
        """Bytes of the arena live both at step k and at step k + 1, by k."""
        out = [0] * (self.count + 2)
        for held in self.held:
            if held.arena:
                for step in range(held.born, min(held.last, self.count + 1)):
                    out[step] += held.bytes
        return out

    def through(self, first: int, last: int) -> int:
        """Bytes of the arena live from before step ``first`` to after step ``last``."""
        return sum(h.bytes for h in self.held if h.arena and h.born < first and h.last > last)

    def scratch(self, step: int) -> int:
        """Bytes of scratch of the call at a step."""
        function = self.loops.get(getattr(self.node(step), "callee", ""))
        need = 0 if function is None else scratch_layout(function).bytes
        return aligned(need, max(self.align, SCRATCH_ALIGN))

    def replaced(self, step: int) -> Sequence[tuple[str, str]]:
        """Which result may take the bytes of which argument that dies at the step, by names of values."""
        if step not in self._replaced:
            node = self.node(step)
            held = [a for a in node_args(node) if a.name in self.of]
            dying = {a.name for a in held if self.held_by(a).last == step}
            pairs = replaces(node, self.loops) if dying else set()
            order = {v.name: k for k, v in enumerate((*node_outs(node), *node_args(node)))}
            found = [(o, a) for o, a in pairs if a in dying and self.held[self.of[a]].arena]
            self._replaced[step] = sorted(found, key=lambda p: (order[p[0]], order[p[1]]))
        return self._replaced[step]

    def lags(self, step: int) -> dict[tuple[str, str], int]:
        """By result and argument of the node of a step, run whole: how many bytes the result must begin below the
        argument, which dies there, at least to be written over it. None that takes it over in place, or saves nothing.
        """
        node = self.node(step)
        if not isinstance(node, Call) or node.kind != "loops":
            return {}
        function, taken = self.loops[node.callee], {name for pair in self.replaced(step) for name in pair}
        names = [p.buffer.name for p in function.params]
        held = [a for a in node.args if a.name in self.of]  # a constant in another shape has no bytes here
        found: dict[tuple[str, str], int] = {}
        for out, result in zip(names[len(node.args) :], node.outs, strict=True):
            to = self.held_by(result)
            for arg in dict.fromkeys(a for a in held if {a.name, result.name}.isdisjoint(taken)):
                of = self.held_by(arg)
                if not (to.arena and of.arena and of.last == step and of.values != to.values):
                    continue
                given = zip(names, node.args, strict=False)
                read = [n for n, a in given if a in held and self.of[a.name] == self.of[arg.name]]
                minimum = [min_lag(function, out, name) for name in read]
                # at one place a result is in place, or it is none
                lag = max((n for n in minimum if n is not None), default=0) or int(of.bytes == to.bytes)
                if None not in minimum and spared(of.bytes, to.bytes, aligned(lag, self.align)) > 0:
                    found[result.name, arg.name] = lag
        return found

    def in_row(self, step: int, out: str, arg: str) -> bool:
        """Whether a call for one row alone may write its row of ``out`` over that of ``arg``."""
        node, row_call = self.node(step), self.row_calls[step]
        exact = {t.value.name for t in (*row_call.reads, *row_call.writes) if t.exact}
        function = self._single[getattr(node, "callee", "")]
        names = {
            v.name: p.buffer.name for v, p in zip((*node_args(node), *node_outs(node)), function.params, strict=True)
        }
        key = function.name, names[out], names[arg]
        if key not in self._in_row:
            rows = ((r, r + 1) for r in range(row_call.extent))
            self._in_row[key] = {out, arg} <= exact and all(may_take_over(function, *key[1:], part) for part in rows)
        return self._in_row[key]
