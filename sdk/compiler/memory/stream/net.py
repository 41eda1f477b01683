"""A scheduled graph as streams see it: which bytes live from node to node, and how each node runs by rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sdk.compiler.analysis.row_calls import by_rows
from sdk.compiler.ir.graph import Graph, Node, Value, node_args, node_outs
from sdk.compiler.ir.loops import Loops
from sdk.compiler.memory.inplace import may_take_over
from sdk.compiler.memory.problem import aligned
from sdk.compiler.memory.scratch import SCRATCH_ALIGN, scratch_layout
from sdk.compiler.memory.storage import Sharing, Storage, replaces
from sdk.compiler.memory.stream.row_calls import RowCall, row_calls_of

__all__ = ["Lifetime", "Net"]


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
        self._single = {name: by_rows(f) for name, f in loops.items()}  # as calls for single rows have them
        self.row_calls = self._row_calls(sharing)
        self._replaced: dict[int, list[tuple[str, str]]] = {}
        self._in_row: dict[tuple[str, str, str], bool] = {}

    def _hold(self, storage: Storage, sharing: Sharing) -> None:
        plain = all(v in sharing.renames or v not in sharing.alias for v in storage.values)
        size = aligned(storage.type.max_bytes, self.align)
        arena = storage.memory == "arena"
        for value in storage.values:
            self.of[value] = len(self.held)
        self.held.append(Lifetime(tuple(storage.values), size, storage.born, storage.last, arena, plain))

    def _row_calls(self, sharing: Sharing) -> dict[int, RowCall]:
        """How nodes run by rows; what a state holds is written at once, before or after all that reads the old, and
        what is read of a constant in another shape is no result that could come by rows."""
        out = {}
        for step, row_call in enumerate(row_calls_of(self.graph, self._single), 1):
            values = [] if row_call is None else [t.value for t in (*row_call.reads, *row_call.writes)]
            if row_call is not None and all(v.name in self.of and sharing.of(v).memory != "state" for v in values):
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
