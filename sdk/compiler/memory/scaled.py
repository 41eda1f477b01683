"""Offsets that follow the dims: each block sits on the highest end of the blocks that the fixed plan puts below it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sdk.compiler.memory.problem import Block, Placement, aligned
from sdk.compiler.sym import Dim, Var, ceildiv, dmax, evaluate, floordiv, free_vars, max_value, prove_eq, prove_ge
from sdk.errors import BuildError

__all__ = ["Covered", "Scaled", "best_scaled", "lower_arms", "scaled"]

Env = Mapping[Var, int]
_STEPS: Final = 8  # of the range of the dims at which plans are compared
_MOST: Final = (1 << 31) - 1


@dataclass(frozen=True)
class Scaled:
    """Offsets by block and the bytes of the arena, in the dims and in the named ``places``, defined in order."""

    places: tuple[tuple[Var, Dim], ...]
    offsets: Mapping[str, Dim]
    bytes: Dim


def best_scaled(found: Sequence[Placement], blocks: Sequence[Block], sizes: Mapping[str, Dim]) -> Placement:
    """Of placements that are equal at the upper bounds, the one whose scaled arena is the least above the largest live
    set at the worst dims; ``sizes`` gives the bytes of each block as a dim."""
    held = [b for b in blocks if b.size > 0]
    if not held:
        return found[0]
    points = list(_points({v for b in held for v in free_vars(sizes[b.name])}))
    at = [{b.name: evaluate(sizes[b.name], env) for b in held} for env in points]
    return min(found, key=lambda p: max((_ratio(held, s, p) for s in at), default=1.0))


def scaled(blocks: Sequence[Block], sizes: Mapping[str, Dim], placement: Placement) -> Scaled:
    """The closed form of a placement, which no dims within bounds bring above it.

    Raises:
        BuildError: an offset has no bound.
    """
    places: dict[Dim, Var] = {}
    offsets: dict[str, Dim] = {b.name: 0 for b in blocks}
    below = _below(blocks, placement)
    for block in _order(blocks, placement):
        value = _most([_end(offsets[o.name], sizes[o.name], block.align) for o in below[block.name]])
        if not isinstance(value, int) and value not in places:
            places[value] = Var(f"at_{len(places)}", 0, _bound(value), block.align)
        offsets[block.name] = value if isinstance(value, int) else places[value].expr
    covered = {b.name for others in below.values() for b in others}
    ends = [offsets[b.name] + sizes[b.name] for b in _order(blocks, placement) if b.name not in covered]
    return Scaled(tuple((var, value) for value, var in places.items()), offsets, _most(ends))


def _most(arms: Sequence[Dim]) -> Dim:
    """The maximum of different dims, at least 0."""
    value: Dim = 0
    for arm in dict.fromkeys(arms):
        value = dmax(value, arm)
    return value


def _bound(value: Dim) -> int:
    most = max_value(value)
    if most is None or most > _MOST:
        raise BuildError(f"the offset {value} has no bound that fits 32 bits", hint="give smaller bounds with --dim")
    return most


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
    all_below: dict[str, set[str]] = {}
    out: dict[str, list[Block]] = {}
    for k, block in enumerate(order):
        rivals = [b for b in order[:k] if b.first <= block.last and block.first <= b.last]
        deeper = {name for r in rivals for name in all_below[r.name]}
        out[block.name] = [r for r in rivals if r.name not in deeper]
        all_below[block.name] = {r.name for r in rivals} | deeper
    return out


def _ratio(blocks: Sequence[Block], sizes: Mapping[str, int], placement: Placement) -> float:
    """The scaled arena over the largest live set, with sizes as numbers."""
    ends: dict[str, int] = {}
    for block in _order(blocks, placement):
        rivals = [b for b in blocks if b.name in ends and b.first <= block.last and block.first <= b.last]
        at = max((aligned(ends[b.name], block.align) for b in rivals), default=0)
        ends[block.name] = at + sizes[block.name]
    live = max(sum(sizes[b.name] for b in blocks if b.first <= a.first <= b.last) for a in blocks)
    return max(ends.values()) / max(live, 1)


def _points(dims: set[Var]) -> Iterator[dict[Var, int]]:
    """Dims from the lower to the upper bounds together, then each alone."""
    order = sorted(dims, key=lambda v: v.name)
    for k in range(_STEPS + 1):
        yield {v: _fraction(v, k) for v in order}
    for one in order if len(order) > 1 else ():
        yield {v: _fraction(v, 0 if v is one else _STEPS) for v in order}


def _fraction(var: Var, k: int) -> int:
    low, high = -(-var.lo // var.multiple), var.hi // var.multiple
    return (low + (high - low) * k // _STEPS) * var.multiple


class Covered:
    """What is proved to end below ``room``: dims that it is no less than, found by looking into its places."""

    def __init__(self, room: Dim, places: Mapping[Var, Dim]) -> None:
        self.places = places
        self.lower: dict[Dim, frozenset[Var]] = {}
        waiting = [room]
        while waiting:
            dim = waiting.pop()
            if dim not in self.lower:
                self.lower[dim] = self._used(dim)
                waiting += [*lower_arms(dim), *self._inside(dim), _floor(dim)]

    def _used(self, dim: Dim) -> frozenset[Var]:
        return frozenset(v for v in free_vars(dim) if v in self.places)

    def _inside(self, dim: Dim) -> Iterator[Dim]:
        """What the places are made of to which ``dim`` adds something."""
        for var in sorted(self._used(dim), key=lambda v: v.name):
            rest = dim - var.expr
            if var not in free_vars(rest) and prove_ge(rest, 0) is True:
                yield self.places[var]

    def holds(self, value: Dim) -> bool:
        """Whether ``value`` is proved to be no more than the room."""
        used = self._used(value)
        near = [d for d, places in self.lower.items() if places == used]
        far = [d for d, places in self.lower.items() if places != used]
        return any(prove_ge(d, value) is True or prove_ge(_floor(d - value), 0) is True for d in (*near, *far))


def _floor(dim: Dim) -> Dim:
    """Something no more than ``dim``, without the rounding up of sizes: ``b*floordiv(a, b) >= a - b + 1``."""
    out = dim
    for term, coefficient in () if isinstance(dim, int) else dim.terms:
        factor, power = term[0]
        if len(term) > 1 or power > 1 or isinstance(factor, Var) or factor.name != "floordiv" or coefficient < 0:
            continue
        if isinstance(factor.b, int) and factor.b > 0 and coefficient % factor.b == 0:
            out = out - coefficient * floordiv(factor.a, factor.b) + coefficient // factor.b * (factor.a - factor.b + 1)
    return out


def lower_arms(dim: Dim) -> Iterator[Dim]:
    """The arms of a maximum, none for what is no maximum."""
    if isinstance(dim, int) or dim.const or len(dim.terms) != 1:
        return
    ((term, coefficient),) = dim.terms
    if coefficient == 1 and len(term) == 1 and term[0][1] == 1:
        factor = term[0][0]
        if not isinstance(factor, Var) and factor.name == "max":
            yield factor.a
            yield factor.b
