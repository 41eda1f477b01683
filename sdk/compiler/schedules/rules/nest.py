"""What rules of every kind ask of a nest: names, extents, work; fusing chains of loops, writing tiles out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sdk.compiler.ir.loops import For, Loops
from sdk.compiler.machines.machine import Machine
from sdk.compiler.schedules.locate import Loop, find
from sdk.compiler.schedules.trace import Schedule

__all__ = ["BYTES", "extent", "from_rows", "fuse_all", "products_of", "trip", "write_out"]

BYTES: Final = 4  # of a word


def extent(chain: tuple[For, ...]) -> int:
    """Iterations of a chain of loops at the largest dims."""
    out = 1
    for loop in chain:
        out *= loop.var.hi + 1
    return out


def from_rows(loops: Loops, chain: tuple[For, ...]) -> tuple[For, ...]:
    """A chain from the loop over the rows of a call on; all of it where none of its loops is that."""
    lo = loops.rows.lo.expr if loops.rows else None
    return chain[next((k for k, loop in enumerate(chain) if loop.lo is lo), 0) :]


def products_of(machine: Machine) -> int:
    """The products that its dot instruction adds to each sum; 1 where it has none."""
    return machine.dot.products if machine.dot else 1


def trip(loops: Loops, name: Loop) -> int:
    """The iterations of a loop, or a very large number where that is symbolic."""
    loop = find(loops, name)
    count = loop.hi - loop.lo
    return count if isinstance(count, int) else 1 << 30


def fuse_all(s: Schedule, chain: list[Loop], into: str) -> Loop:
    """Fuses a chain of loops into one."""
    current = chain[0]
    for inner in chain[1:]:
        current = s.fuse(current, inner, into)
    return current


def write_out(s: Schedule, loops: Iterable[Loop]) -> Loops:
    """The schedule done, once these are unrolled."""
    for loop in loops:
        s.unroll(loop)
    return s.done()
