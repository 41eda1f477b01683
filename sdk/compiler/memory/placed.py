"""A plan's buffers as bytes at given dims, and the rows of them that a call touches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sdk.compiler.analysis.accumulate import accumulators
from sdk.compiler.analysis.dependence import row_axis
from sdk.compiler.analysis.rows_touched import rows_touched
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import PlanBuffer, PlanCall
from sdk.compiler.sym import Var, evaluate

__all__ = ["CallAt", "CallRows", "Place", "Rows", "place_of"]

Rows = tuple[int, int]  # the first, and the one behind the last


@dataclass(frozen=True, slots=True)
class Place:
    """A buffer at some dims: its first byte, bytes of one logical row, rows, rows kept."""

    buffer: PlanBuffer
    at: int
    row: int
    rows: int
    kept: int

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return self.row * self.kept

    def spans(self, lo: int, hi: int) -> Iterator[tuple[int, int, int]]:
        """``(first byte, first row, rows)`` of rows ``lo..hi`` in runs of consecutive bytes."""
        while lo < hi:
            slot = lo % self.kept
            count = min(hi - lo, self.kept - slot)
            yield self.at + slot * self.row, lo, count
            lo += count


def place_of(buffer: PlanBuffer, env: Mapping[Var, int]) -> Place:
    """Where a buffer lies at ``env``, which gives dims and places."""
    shape = tuple(evaluate(d, env) for d in buffer.type.shape)
    rows = shape[row_axis(buffer.type.shape)] if shape else 1
    row = math.prod(shape) * buffer.type.dtype.nbytes // max(rows, 1)
    kept = min(buffer.ring or rows, rows) if rows else 1
    return Place(buffer, evaluate(buffer.offset, env), row, rows, kept)


@dataclass(frozen=True, slots=True)
class CallAt:
    """A call at some dims.

    ``function``: None where a library has it. ``dims``: those of the function. ``extent``: how many rows the function
    has (0: none). ``stated``: the rows that the call is for, as the plan has them; None where it runs as a whole.
    """

    call: PlanCall
    function: Loops | None
    dims: Mapping[Var, int]
    extent: int
    stated: Rows | None

    @property
    def rows(self) -> Rows | None:
        """The rows that the call is for and that there are; none where the first is not below the other."""
        return None if self.stated is None else (max(self.stated[0], 0), min(self.stated[1], self.extent))

    @property
    def every(self) -> bool:
        """Whether the call runs all rows, or as a whole."""
        return self.rows in (None, (0, self.extent))


class CallRows:
    """The rows of its arguments that a call touches; what is found is kept, for calls of a stream are much alike."""

    def __init__(self, module: Module) -> None:
        """``module`` has the functions that are called."""
        self.module = module
        self._gathered: dict[str, frozenset[str]] = {}
        self._known: dict[tuple[object, ...], Rows] = {}

    def at(self, call: PlanCall, env: Mapping[Var, int]) -> CallAt:
        """The call at the dims of ``env``."""
        function = self.module.loops.get(call.callee)
        if function is None:
            return CallAt(call, None, {}, 0, None)
        dims = {v: evaluate(d, env) for v, d in zip(function.dims, call.dims, strict=True)}
        if function.rows is None:
            return CallAt(call, function, dims, 0, None)
        stated = None if call.rows is None else (evaluate(call.rows[0], env), evaluate(call.rows[1], env))
        return CallAt(call, function, dims, evaluate(function.rows.extent, dims), stated)

    def begins(self, at: CallAt, k: int) -> bool:
        """Whether the call writes all of argument ``k``, which it updates, before it reads any of it: see
        ``accumulators``. What was there does not matter to it then."""
        if at.function is None or at.rows is None or at.rows[0] > 0:
            return False
        name = at.function.name
        if name not in self._gathered:
            self._gathered[name] = accumulators(at.function)
        return at.function.params[k].buffer.name in self._gathered[name]

    def touched(self, at: CallAt, k: int, place: Place, store: bool) -> Rows:
        """Rows of argument ``k``, which lies at ``place``, that the call may read, or write with ``store``.

        All of them where the call does all there is to do. Of a ring, and in a stream, those that it touches then:
        others may be lost by that time, or lie under its result.
        """
        if at.function is None:
            return 0, place.rows
        param = at.function.params[k].buffer
        streamed = at.call.rows is not None and at.call.rows[0] != 0  # whole calls begin with row 0
        if param.ring is None and at.every and not streamed:
            return 0, place.rows
        rows = at.rows or (0, at.extent)
        key = (at.call.callee, k, rows, store, tuple(at.dims.values()))
        if key not in self._known:
            self._known[key] = rows_touched(at.function, param.name, at.dims, rows, store)
        return self._known[key]
