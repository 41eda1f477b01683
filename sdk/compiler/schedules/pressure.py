"""How many registers straight code needs: for the sums that it keeps, and for the places that it reads from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sdk.compiler.ir.dependence import linear
from sdk.compiler.ir.loops import Block, Buffer, For, Load, Store
from sdk.compiler.ir.walk import statements, walk
from sdk.compiler.sym import Dim, Var, flat_index, free_vars

__all__ = ["Pressure", "pressure"]

REACH: Final = 510  # bytes from a pointer on that an access reaches


@dataclass(frozen=True, slots=True)
class Pressure:
    """Elements of register buffers that are written, and pointers that what is read in memory needs."""

    sums: int
    pointers: int


def pressure(block: Block, memory: Mapping[str, Buffer]) -> Pressure:
    """That of a body of stores and of loops of them that are written out; ``memory``: the buffers not in registers."""
    written_out = {s.var: s.var.hi + 1 for s in statements(block) if isinstance(s, For)}
    stores = {(s.buffer, s.index) for s in statements(block) if isinstance(s, Store) and s.buffer not in memory}
    sums = sum(math.prod(written_out.get(v, 1) for v in _vars(index)) for _, index in stores)
    reads = {(n.buffer, n.index) for n in walk(block) if isinstance(n, Load) and n.buffer in memory}
    return Pressure(sums, len({place for at in reads for place in _places(memory[at[0]], at[1], written_out)}))


def _vars(index: tuple[Dim, ...]) -> frozenset[Var]:
    return frozenset(v for dim in index for v in free_vars(dim))


def _places(buffer: Buffer, index: tuple[Dim, ...], written_out: Mapping[Var, int]) -> set[tuple[str, str, int]]:
    """The pointers from which all copies of an access are reached: its buffer, what it is apart from, and how far."""
    rest: Dim = flat_index(index, buffer.shape)
    apart = [0]
    for var in sorted(_vars(index) & written_out.keys(), key=str):
        found = linear(rest, var)
        if found is None:
            return {(buffer.name, f"{rest} {k}", 0) for k in range(written_out[var])}
        step, rest = found
        apart = [a + step * k for a in apart for k in range(written_out[var])]
    start = rest if isinstance(rest, int) else rest.const
    return {(buffer.name, str(rest - start), (a + start) * buffer.dtype.nbytes // REACH) for a in apart}
