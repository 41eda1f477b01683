"""What rules of every kind ask of a nest: names, extents, work; fusing chains of loops, writing tiles out."""

from __future__ import annotations

from typing import Final

from sdk.compiler.ir.loops import For, Loops
from sdk.compiler.machines.model import Machine
from sdk.compiler.schedules.locate import find, has, loop_names
from sdk.compiler.schedules.trace import Schedule

__all__ = ["BYTES", "extent", "from_rows", "fuse_all", "names", "products_of", "reductions", "trip", "unrolled"]


BYTES: Final = 4  # of a word


def extent(chain: tuple[For, ...]) -> int:
    """Iterations of a chain of loops at the largest dims."""
    out = 1
    for loop in chain:
        out *= loop.var.hi + 1
    return out


def names(chain: tuple[For, ...]) -> list[str]:
    """The names of a chain of loops."""
    return [loop.var.name for loop in chain]


def from_rows(loops: Loops, chain: tuple[For, ...]) -> tuple[For, ...]:
    """A chain from the loop over the rows of a call on; all of it where none of its loops is that."""
    lo = loops.rows.lo.expr if loops.rows else None
    return chain[next((k for k, loop in enumerate(chain) if loop.lo is lo), 0) :]


def products_of(machine: Machine) -> int:
    """The products that its dot instruction adds to each sum; 1 where it has none."""
    return machine.dot.products if machine.dot else 1


def trip(loops: Loops, name: str) -> int:
    """The end of a loop that starts at 0, or a very large number where it is symbolic."""
    hi = find(loops, name).hi
    return hi if isinstance(hi, int) else 1 << 30


def fuse_all(s: Schedule, chain: list[str], into: str) -> str:
    """Fuses a chain of loops into one; returns its name."""
    current = chain[0]
    for inner in chain[1:]:
        s.do("fuse", current, inner, into)
        current = into
    return current


def reductions(s: Schedule, k: str) -> list[str]:
    """The loops that the reduction ``k`` has become, for jam to enter."""
    return [n for n in (f"{k}_o_o", f"{k}_o_t", f"{k}_o", f"{k}_t", k) if has(s.loops, n)]


def unrolled(s: Schedule, stems: list[str]) -> Loops:
    """Writes out the tile loops ``<stem>_i`` and their copies in tails."""
    for name in dict.fromkeys(loop_names(s.loops.body)):
        for stem in filter(None, stems):
            tail = name.removeprefix(f"{stem}_i")
            if name.startswith(f"{stem}_i") and not tail.replace("_t", "") and trip(s.loops, name) <= 64:
                s.do("unroll", name)
                break
    return s.done()
