"""What a call for one row touches: of each argument the rows from and to, row by row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from sdk.compiler.analysis.accumulate import accumulators
from sdk.compiler.analysis.dependence import row_axis
from sdk.compiler.analysis.rows_touched import rows_touched
from sdk.compiler.ir.graph import Call, Graph, Node, Value, node_args, node_outs
from sdk.compiler.ir.loops import Loops
from sdk.compiler.memory.scratch import scratch_layout

__all__ = ["RowCall", "Touched", "row_calls_of"]

Rows = tuple[tuple[int, int], ...]  # by row of the call, the rows from and to (exclusive) of an argument


@dataclass(frozen=True, slots=True)
class Touched:
    """The rows of an argument that a call for row r reads or writes, by r; ``row`` is the bytes of one of its rows.

    ``exact``: row r of the call is row r of the argument and no other.
    """

    value: Value
    rows: Rows
    row: int
    exact: bool

    @property
    def bytes(self) -> list[tuple[int, int]]:
        """The bytes of the argument from and to that each row touches."""
        return [(lo * self.row, hi * self.row) for lo, hi in self.rows]


@dataclass(frozen=True, slots=True)
class RowCall:
    """A call that may run row by row: its rows, what it touches but constants, and the bytes of its scratch. It
    writes row r of a result and no other, or gathers a result whole from one row after the other."""

    extent: int
    reads: tuple[Touched, ...]
    writes: tuple[Touched, ...]
    scratch: int


def row_calls_of(graph: Graph, loops: Mapping[str, Loops]) -> list[RowCall | None]:
    """Of each node of a graph, how it runs row by row; None where it runs whole, as it does where a size is no number.

    ``loops`` are the functions as calls for single rows have them.
    """
    known: dict[tuple[str, str], Rows] = {}
    return [_row_call(node, loops, known) for node in graph.body]


def _row_call(node: Node, loops: Mapping[str, Loops], known: dict[tuple[str, str], Rows]) -> RowCall | None:
    if not isinstance(node, Call) or node.kind != "loops" or node.place:
        return None
    function = loops[node.callee]
    if function.rows is None or not isinstance(function.rows.extent, int) or function.dims:
        return None
    if any(not isinstance(d, int) for p in function.params for d in p.buffer.shape):
        return None
    extent = function.rows.extent
    given = list(zip(function.params, (*node_args(node), *node_outs(node)), strict=True))
    touched: list[tuple[str, Touched]] = []
    for p, value in given:
        if value.const:
            continue
        key = function.name, p.buffer.name
        if key not in known:
            known[key] = _rows(function, p.buffer.name, extent, p.mode != "read")
        shape = p.buffer.type.static_shape
        count = shape[row_axis(shape)] if shape else 1
        row = p.buffer.type.max_bytes // count if count else 0
        exact = count == extent and known[key] == tuple((r, r + 1) for r in range(extent))
        if not exact and (p.mode == "write" or (p.mode == "update" and p.buffer.name not in accumulators(function))):
            return None
        touched.append((p.mode, Touched(value, known[key], row, exact)))
    reads = tuple(t for mode, t in touched if mode == "read")
    writes = tuple(t for mode, t in touched if mode != "read")
    return RowCall(extent, reads, writes, scratch_layout(function).bytes)


def _rows(function: Loops, param: str, extent: int, store: bool) -> Rows:
    found = (rows_touched(function, param, {}, (r, r + 1), store) for r in range(extent))
    return tuple(_monotone(found))


def _monotone(found: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges with starts that never fall again behind them and ends that never fall: what they keep alive."""
    ranges = list(found)
    ends = list(accumulate((hi for _, hi in ranges), max, initial=0))[1:]
    low, out = ends[-1] if ends else 0, []
    for (lo, hi), high in zip(reversed(ranges), reversed(ends), strict=True):
        low = min(low, lo) if hi > lo else low  # no rows keep nothing alive
        out.append((low, high))
    return out[::-1]
