"""Offsets that follow the dims: each block sits on the highest end of the blocks that the fixed plan puts below it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Final

from sdk.compiler.memory.problem import Block, Placement
from sdk.compiler.sym import Dim, Var, ceildiv, dmax, max_value, prove_eq
from sdk.errors import BuildError

__all__ = ["Scaled", "scaled"]

_MAX_BYTES: Final = (1 << 31) - 1
REMEMBERED: Final = 1 << 12  # layers have the same ends


@dataclass(frozen=True)
class Scaled:
    """Offsets by block and the bytes of the arena, in the dims and in the named ``places``, defined in order."""

    places: tuple[tuple[Var, Dim], ...]
    offsets: Mapping[str, Dim]
    bytes: Dim


def scaled(
    blocks: Sequence[Block], sizes: Mapping[str, Dim], placement: Placement, taken: Collection[str] = ()
) -> Scaled:
    """The closed form of a placement, which no dims within bounds bring above it; no place is called as one of
    ``taken``, the dims.

    Raises:
        BuildError: an offset has no bound.
    """
    places: dict[Dim, Var] = {}
    names = (name for k in count() if (name := f"at_{k}") not in taken)
    offsets: dict[str, Dim] = {b.name: 0 for b in blocks}
    below = _below(blocks, placement)
    for block in _order(blocks, placement):
        arms = (_end(offsets[o.name], sizes[o.name], block.align) for o in below[block.name])
        value = _max_of(tuple(dict.fromkeys(arms)))
        if not isinstance(value, int) and value not in places:
            places[value] = Var(next(names), 0, _bound(value), block.align)
        offsets[block.name] = value if isinstance(value, int) else places[value].expr
    covered = {b.name for others in below.values() for b in others}
    ends = (offsets[b.name] + sizes[b.name] for b in _order(blocks, placement) if b.name not in covered)
    return Scaled(tuple((var, value) for value, var in places.items()), offsets, _max_of(tuple(dict.fromkeys(ends))))


@lru_cache(maxsize=REMEMBERED)
def _max_of(arms: tuple[Dim, ...]) -> Dim:
    """The maximum of dims, at least 0."""
    value: Dim = 0
    for arm in arms:
        value = dmax(value, arm)
    return value


def _bound(value: Dim) -> int:
    maximum = max_value(value)
    if maximum is None or maximum > _MAX_BYTES:
        raise BuildError(f"the offset {value} has no bound that fits 32 bits", hint="give smaller bounds with --dim")
    return maximum


@lru_cache(maxsize=REMEMBERED)
def _end(offset: Dim, size: Dim, align: int) -> Dim:
    """The first multiple of ``align`` behind a block; the offset stays by itself where it is one, as most are."""
    if prove_eq(offset % align, 0) is True:
        return offset + ceildiv(size, align) * align
    return ceildiv(offset + size, align) * align


def _order(blocks: Sequence[Block], placement: Placement) -> list[Block]:
    held = [b for b in blocks if b.size > 0]
    return sorted(held, key=lambda b: (placement.offsets[b.name], b.first, b.name))


def _below(blocks: Sequence[Block], placement: Placement) -> dict[str, list[Block]]:
    """For each block those that lie below it while both live, but for those that one of them lies on anyway."""
    order = _order(blocks, placement)
    all_below: list[int] = []  # of each, the set of those below it, a bit each
    out: dict[str, list[Block]] = {}
    for k, block in enumerate(order):
        rivals = [j for j, b in enumerate(order[:k]) if b.first <= block.last and block.first <= b.last]
        deeper = 0
        for j in rivals:
            deeper |= all_below[j]
        out[block.name] = [order[j] for j in rivals if not deeper >> j & 1]
        all_below.append(deeper | sum(1 << j for j in rivals))
    return out
