"""Primitive for windows of several pixels: the words that are multiplied together lie side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sdk.compiler.ir.loops import Alloc, Load, Loops, Store
from sdk.compiler.ir.walk import rewrite, statements
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.sym import Dim, floordiv, mod

__all__ = ["interleave"]


def interleave(loops: Loops, window: str, group: int) -> Loops:
    """Lays the rows of a scratch buffer out in groups of elements by turns.

    rewrite: ``t[r, k]`` of a buffer ``[rows, n]`` --> ``t[k / group, r, k mod group]`` of ``[n / group, rows, group]``
    obligation: two axes, of which the second is a multiple of ``group`` long; every access lies inside a group by
    proof, which starts at a place that is known.
    """
    step = f"interleave({window}, {group})"
    found = [n.buffer for n in statements(loops.body) if isinstance(n, Alloc) and n.buffer.name == window]
    if len(found) != 1 or found[0].space != "scratch" or len(found[0].shape) != 2 or found[0].ring is not None:
        raise ScheduleError(f"{step}: it is no scratch buffer of two axes")
    rows, length = found[0].shape
    if not isinstance(length, int) or length % group:
        raise ScheduleError(f"{step}: {length} elements are no whole groups")

    def moved(index: tuple[Dim, ...], lanes: int, count: Dim | None) -> tuple[Dim, ...]:
        row, at = index
        inside = mod(at, group)
        if not isinstance(inside, int) or inside + lanes > group or count is not None:
            raise ScheduleError(f"{step}: {at} is not proved to lie inside a group")
        return floordiv(at, group), row, inside

    def one(node: Any) -> Any:
        match node:
            case Alloc(buffer) if buffer.name == window:
                return Alloc(replace(buffer, shape=(length // group, rows, group)))
            case Load() if node.buffer == window:
                return replace(node, index=moved(node.index, node.dtype.lanes, node.count))
            case Store() if node.buffer == window:
                return replace(node, index=moved(node.index, node.value.dtype.lanes, node.count))
            case _:
                return node

    return replace(loops, body=rewrite(loops.body, one))
