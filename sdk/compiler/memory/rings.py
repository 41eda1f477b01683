"""Rings: buffers that keep only the last R rows, row ``r`` in slot ``r mod R``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sdk.compiler.ir.dependence import row_axis
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.types import TensorType
from sdk.errors import BuildError

__all__ = ["row_axis", "stored_bytes", "stored_type", "with_rings"]


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
    """``loops`` specialised for parameters kept as rings of so many rows; indices stay logical.

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
    return replace(loops, params=params)
