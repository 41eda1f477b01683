"""Several memories: which blocks of the arena go to which, what is used most to the one that is preferred."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sdk.compiler.ir.plan import Copy, PlanCall, Region, walk_plan
from sdk.compiler.memory.laid import Laid
from sdk.compiler.memory.planner import plan_offsets
from sdk.compiler.memory.problem import Block, Placement, Separation, aligned, separations_by_lifetimes
from sdk.errors import BuildError, UsageError

__all__ = ["Pool", "Spread", "in_pools", "parse_pools", "spread"]

NODE_LIMIT: Final = 200_000  # of a search for offsets: there is one a block
SCRATCH_USES: Final = 8  # what a call writes and reads again and again
_SHOWN: Final = 4


@dataclass(frozen=True, slots=True)
class Pool:
    """At most ``bytes`` of the memory ``name``."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Spread:
    """The pool of each block, and the placement within each pool that holds one."""

    pool_of: Mapping[str, str]
    placements: Mapping[str, Placement]

    def offset(self, block: str) -> int:
        """Where a block lies in its pool; one without bytes lies at 0."""
        return self.placements[self.pool_of[block]].offsets.get(block, 0)


def parse_pools(text: str) -> tuple[Pool, ...]:
    """Pools in order of preference, from ``name:bytes+name:bytes``; "" is none.

    Raises:
        UsageError: the text is no such list, or names a memory twice.
    """
    pools = []
    for part in filter(None, text.split("+")):
        name, _, size = part.partition(":")
        if not name.isidentifier() or not size.isdecimal() or int(size) < 1:
            raise UsageError(f"{part!r} is no memory with its bytes", hint="write NAME:BYTES, joined by +")
        pools.append(Pool(name, int(size)))
    if len({r.name for r in pools}) < len(pools):
        raise UsageError(f"a memory is named twice in {text!r}", hint="name each once, with all of its bytes")
    return tuple(pools)


def in_pools(laid: Laid, pools: Sequence[Pool]) -> Laid:
    """A laid plan with its arena spread over ``pools``; the first pool's part keeps the name ``arena``.

    Raises:
        BuildError: not all fits, or the offsets follow the dims.
    """
    plan = laid.plan
    if plan.places:
        raise BuildError(
            "an arena whose offsets follow the dims lies in one memory",
            where=f"entry @{plan.name}",
            hint="give plan-memory offsets=fixed, or no pools",
        )
    found = spread(laid.blocks, _uses(laid), pools, laid.separations)
    names = {pool.name: "arena" if pool is pools[0] else f"arena_{pool.name}" for pool in pools}
    buffers = []
    for buffer in plan.buffers:
        block = laid.block_of.get(buffer.name)
        if block is not None:
            buffer = replace(buffer, region=names[found.pool_of[block]], offset=found.offset(block))
        buffers.append(buffer)
    old = plan.region("arena")
    used = [(names[pool], p.peak) for pool, p in found.placements.items() if p.peak or pool == pools[0].name]
    arenas = [Region(name, "arena", peak, old.align) for name, peak in used]
    regions = (*arenas, *(r for r in plan.regions if r is not old))
    whole = Placement(
        {b.name: found.offset(b.name) for b in laid.blocks},
        sum(p.peak for p in found.placements.values()),
        laid.placement.lower_bound,
    )
    return replace(laid, plan=replace(plan, buffers=tuple(buffers), regions=regions), placement=whole)


def _uses(laid: Laid) -> Mapping[str, int]:
    """How many statements touch each block; a call's scratch counts as several."""
    uses = Counter({b.name: 1 for b in laid.blocks})
    for stmt in walk_plan(laid.plan.body):
        touched: tuple[str, ...] = ()
        if isinstance(stmt, PlanCall):
            touched = (*stmt.args, *[stmt.scratch] * SCRATCH_USES)
        elif isinstance(stmt, Copy):
            touched = (stmt.dst, stmt.src)
        uses.update(laid.block_of[name] for name in touched if name in laid.block_of)
    return uses


def spread(
    blocks: Sequence[Block],
    uses: Mapping[str, int],
    pools: Sequence[Pool],
    separations: Sequence[Separation] | None = None,
) -> Spread:
    """Gives every block a pool, those with most ``uses`` the first that has space for them; the same arguments give the
    same pools.

    Bytes touched in later pools are kept few greedily: each pool is filled in several orders, the fill that takes in
    most uses times bytes counts, and then whatever else fits once offsets are searched.

    Args:
        blocks: what to place; names are unique.
        uses: how often each byte of a block is written or read.
        pools: at least one, the preferred first.
        separations: as in ``plan_offsets``.

    Raises:
        BuildError: not all blocks fit.
    """
    relations = separations_by_lifetimes(blocks) if separations is None else separations
    pool_of = {b.name: pools[0].name for b in blocks if not b.size}  # no pool is taken for these alone
    placements: dict[str, Placement] = {}
    left = [b for b in blocks if b.size]
    for pool in pools:
        chosen, placement = _fill(left, uses, pool, relations, separations is None)
        pool_of |= dict.fromkeys(chosen, pool.name)
        placements[pool.name] = placement
        left = [b for b in left if b.name not in chosen]
    if left:
        raise _too_small(left, pools)
    return Spread(pool_of, placements)


def _fill(
    blocks: Sequence[Block], uses: Mapping[str, int], pool: Pool, separations: Sequence[Separation], by_lifetimes: bool
) -> tuple[set[str], Placement]:
    """What goes into a pool, and where it lies there."""

    def place(names: set[str]) -> Placement:
        mine = [b for b in blocks if b.name in names]
        if by_lifetimes:
            return plan_offsets(mine, enough=pool.bytes, node_limit=NODE_LIMIT)
        return plan_offsets(mine, separations=_among(separations, names), enough=pool.bytes)

    whole = {b.name for b in blocks}
    placement = place(whole)
    if placement.peak <= pool.bytes:
        return whole, placement
    rivals = _rivals(separations)
    fills = (_first_fit(sorted(blocks, key=key), pool, rivals) for key in _orders(uses))
    best = max(fills, key=lambda fill: sum(uses[b.name] * b.size for b in blocks if b.name in fill))
    chosen = set(best)
    placement = place(chosen)
    if placement.peak > pool.bytes:
        placement = Placement(best, pool.bytes, placement.lower_bound)
    for block in sorted(blocks, key=_orders(uses)[0]):
        if block.name not in chosen and block.size <= pool.bytes:
            more = place({*chosen, block.name})
            if more.peak <= pool.bytes:
                chosen.add(block.name)
                placement = more
    return chosen, placement


_Order = Callable[[Block], tuple[int | str, ...]]


def _orders(uses: Mapping[str, int]) -> tuple[_Order, ...]:
    """Orders to fill a pool in: by uses of a byte, by bytes touched, and by bytes times the steps they are held."""
    return (
        lambda b: (-uses[b.name], b.size, b.name),
        lambda b: (-uses[b.name] * b.size, b.first, b.name),
        lambda b: (b.size * (b.last - b.first + 1) // max(uses[b.name], 1), b.name),
    )


def _among(separations: Sequence[Separation], names: set[str]) -> list[Separation]:
    return [r for r in separations if r.a in names and r.b in names]


def _rivals(separations: Sequence[Separation]) -> dict[str, list[tuple[str, int, int]]]:
    """For each block the others with the differences of offsets that are forbidden."""
    out: dict[str, list[tuple[str, int, int]]] = {}
    for r in separations:
        out.setdefault(r.b, []).append((r.a, r.low, r.high))
        out.setdefault(r.a, []).append((r.b, -r.high, -r.low))
    return out


def _first_fit(
    order: Sequence[Block], pool: Pool, rivals: Mapping[str, Sequence[tuple[str, int, int]]]
) -> dict[str, int]:
    """Offsets of the blocks that fit, each at the lowest place that is free when its turn comes."""
    at: dict[str, int] = {}
    for block in order:
        bans = sorted((at[j] + low, at[j] + high) for j, low, high in rivals.get(block.name, ()) if j in at)
        place = 0 if block.fixed is None else block.fixed
        for low, high in bans:
            if low < place < high and block.fixed is None:
                place = aligned(high, block.align)
        free = all(not low < place < high for low, high in bans)
        if free and place + block.size <= pool.bytes:
            at[block.name] = place
    return at


def _too_small(left: Sequence[Block], pools: Sequence[Pool]) -> BuildError:
    largest = sorted(left, key=lambda b: (-b.size, b.name))
    shown = ", ".join(f"%{b.name} {b.size:,} B" for b in largest[:_SHOWN])
    more = f" and {len(largest) - _SHOWN} smaller" if len(largest) > _SHOWN else ""
    return BuildError(
        f"{len(left)} tensors fit none of the memories {', '.join(f'{r.name} ({r.bytes:,} B)' for r in pools)}",
        why=f"left over: {shown}{more}",
        hint="give a memory more bytes with --region NAME=BYTES, or make the plan smaller with --memory min",
    )
