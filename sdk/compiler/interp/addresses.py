"""Where accesses of a buffer are: found once for all iterations that run at once, and moved as other loops step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.loops import Buffer
from sdk.compiler.sym import Dim, Var, evaluate_mixed, separate

__all__ = ["MAX_KEPT", "Addresses", "Cell", "addresses", "copies", "iterations"]

Array = NDArray[Any]
MAX_KEPT: Final = 1 << 15  # elements of an array that is kept: of larger ones, making them is not what takes the time


@dataclass(slots=True)
class Cell:
    """Storage of a buffer: flat data, of a temporary one copy after the other for the iterations that run at once,
    which begin at ``first``."""

    buffer: Buffer
    shape: tuple[int, ...]
    data: Array
    first: Array | None = None

    @property
    def size(self) -> int:
        """Elements of one copy."""
        return self.data.size if self.first is None else self.data.size // self.first.size


@dataclass(frozen=True, slots=True)
class Addresses:
    """An access of ``buffer`` whose ``index`` is a sum of what loops that run as axes give, and of what others do.

    ``arrays`` are the variables of the former, ``first`` and ``shape`` those of the cell: while these are the same, it
    touches the elements ``flat``, counted from a place that ``start`` tells. ``steps`` has of each axis of the buffer
    where other loops give something, or where it may be outside, what the others give, from which value on and up to
    which it may be, and the elements of a step.
    """

    index: tuple[Dim, ...]
    buffer: Buffer
    arrays: tuple[tuple[Var, Array], ...]
    first: Array | None
    shape: tuple[int, ...]
    flat: Array
    steps: tuple[tuple[Dim, int, int, int], ...]
    origin: int
    end: int  # from the place on, of what one copy of the buffer must hold

    def holds(self, cell: Cell, env: Mapping[Var, Array | int]) -> bool:
        """Whether what it was made of is the same."""
        if self.first is not cell.first or self.shape != cell.shape:
            return False
        return all(env[var] is array for var, array in self.arrays)

    def start(self, cell: Cell, env: Mapping[Var, Array | int]) -> int | None:
        """The element that ``flat`` counts from; None where an access may be outside the buffer."""
        place = self.origin
        for step, minimum, maximum, pitch in self.steps:
            at = evaluate_mixed(step, env)
            if not isinstance(at, int) or not minimum <= at < maximum:
                return None
            place += at * pitch
        return place if place + self.end <= cell.size else None


def addresses(cell: Cell, index: tuple[Dim, ...], lanes: int, env: Mapping[Var, Array | int]) -> Addresses | None:
    """The addresses of an access of so many lanes; None where its index is no such sum."""
    if cell.buffer.ring is not None:
        return None
    varying: dict[Var, Array] = {}
    for dim in index:
        if not isinstance(dim, int):
            varying |= {var: found for var in dim.free if not isinstance(found := env[var], int)}
    pitch, flat, origin, end = cell.buffer.dtype.lanes if lanes > 1 else 1, np.zeros(1, np.int64), 0, 1
    steps: list[tuple[Dim, int, int, int]] = []
    for dim, size in zip(reversed(index), reversed(cell.shape), strict=True):
        moving, step = separate(dim, varying.keys())
        if not isinstance(moving, int) and not moving.free <= varying.keys():
            return None
        minimum = maximum = 0
        if not isinstance(moving, int):
            at = np.asarray(evaluate_mixed(moving, env))
            minimum, maximum = int(at.min()), int(at.max())
            flat = flat + (at - minimum) * pitch
        if isinstance(step, int) and -minimum <= step < size - maximum:
            minimum, maximum = step + minimum, step + maximum
        else:
            steps.append((step, -minimum, size - maximum, pitch))
        origin, end = origin + minimum * pitch, end + (maximum - minimum) * pitch
        pitch *= size
    if lanes > 1:
        flat, end = flat + np.arange(lanes), end + lanes - 1
    flat = flat if cell.first is None else flat + cell.first
    arrays = tuple(varying.items())
    return Addresses(index, cell.buffer, arrays, cell.first, cell.shape, flat, tuple(steps), origin, end)


def iterations(lo: int, hi: int, depth: int) -> Array:
    """The iterations of a loop as an axis, with ``depth`` axes after it; not to be changed."""
    make = _iterations if hi - lo <= MAX_KEPT else _iterations.__wrapped__
    return make(lo, hi, depth)


@lru_cache(maxsize=256)
def _iterations(lo: int, hi: int, depth: int) -> Array:
    return np.arange(lo, hi, dtype=np.int64).reshape(-1, *([1] * depth))


def copies(widths: tuple[int, ...], size: int) -> Array:
    """Where copies of a temporary begin, ``size`` elements each, for iterations in axes of ``widths``; not to be
    changed."""
    make = _copies if math.prod(widths) <= MAX_KEPT else _copies.__wrapped__
    return make(widths, size)


@lru_cache(maxsize=256)
def _copies(widths: tuple[int, ...], size: int) -> Array:
    return (np.arange(math.prod(widths), dtype=np.int64) * size).reshape(*widths, 1)
