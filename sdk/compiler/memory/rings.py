"""Rings: buffers that keep only the last R rows, row ``r`` in slot ``r mod R``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sdk.compiler.analysis.dependence import row_axis
from sdk.compiler.analysis.row_calls import by_rows
from sdk.compiler.ir.graph import fresh_name
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.types import TensorType
from sdk.errors import BuildError

__all__ = ["RowKernels", "dense", "row_axis", "stored_bytes", "stored_type", "with_rings"]


def stored_type(type: TensorType, ring: int | None) -> TensorType:
    """The type as it lies in memory: with ``ring``, that many rows on the row axis."""
    if ring is None:
        return type
    axis = row_axis(type.shape)
    return replace(type, shape=(*type.shape[:axis], ring, *type.shape[axis + 1 :]))


def stored_bytes(type: TensorType, ring: int | None) -> int:
    """Most bytes the buffer takes in memory over the box of its dims.

    Raises:
        BuildError: a dim has no upper bound.
    """
    return stored_type(type, ring).max_bytes


def with_rings(loops: Loops, rings: Mapping[str, int]) -> Loops:
    """``loops`` specialised for parameters kept as rings of so many rows: row by row, as rows no longer follow each
    other in memory. Indices stay logical.

    Raises:
        BuildError: no such parameter, or a ring without rows.
    """
    names = {p.buffer.name for p in loops.params}
    for name, rows in rings.items():
        if name not in names or rows < 1:
            raise BuildError(
                f"{loops.name} cannot keep {name} as a ring of {rows} rows",
                why=f"its parameters are {', '.join(sorted(names))}",
            )
    params = tuple(
        replace(p, buffer=replace(p.buffer, ring=rings[p.buffer.name])) if p.buffer.name in rings else p
        for p in loops.params
    )
    return replace(by_rows(loops) if rings else loops, params=params)


def dense(loops: Loops) -> Loops:
    """``loops`` with all its parameters kept whole."""
    return replace(loops, params=tuple(replace(p, buffer=replace(p.buffer, ring=None)) for p in loops.params))


class RowKernels:
    """Functions specialised for calls row by row, one for all whose buffers keep as many rows; ``made`` holds them."""

    def __init__(self, taken: set[str]) -> None:
        """``taken`` are names that functions have already."""
        self.taken = taken
        self.made: dict[str, Loops] = {}
        self._known: dict[tuple[str, tuple[int | None, ...]], Loops] = {}

    def on(self, loops: Loops, rings: Sequence[int | None]) -> Loops:
        """``loops`` for arguments that keep so many rows (None = all), in the order of its parameters."""
        key = loops.name, tuple(rings)
        if key not in self._known:
            given = {p.buffer.name: r for p, r in zip(loops.params, rings, strict=True) if r is not None}
            name = fresh_name(f"{loops.name}_rows", self.taken)
            self._known[key] = self.made[name] = replace(with_rings(by_rows(loops), given), name=name)
        return self._known[key]
