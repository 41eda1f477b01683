"""Offsets near the lower bound: greedy orders, then exact searches by lifetimes or a climb by relations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sdk.compiler.memory.planner.climb import Climb
from sdk.compiler.memory.planner.greedy import FITS, ORDERS, greedy, ordered, place_all
from sdk.compiler.memory.planner.restarts import Restarts
from sdk.compiler.memory.planner.task import check_fixed, make_task, peak_of
from sdk.compiler.memory.problem import Block, Placement, Separation

__all__ = ["CLIMB", "MAX_EXACT_BLOCKS", "NODE_LIMIT", "placements", "plan_offsets"]

NODE_LIMIT: Final = 5_000_000  # of a search by lifetimes
MAX_EXACT_BLOCKS: Final = 2000  # blocks; more are searched by orders: the exact search's memory grows with their square
_LITTLE: Final = 64  # a gap of less than one part in so many of the bound is worth a tenth of the node limit
CLIMB: Final = 20_000  # of one by relations
SEED: Final = 0  # of both


def plan_offsets(
    blocks: Sequence[Block],
    *,
    separations: Sequence[Separation] | None = None,
    bound: int | None = None,
    enough: int = 0,
    node_limit: int | None = None,
    seconds: float | None = None,
) -> Placement:
    """Places every block; without ``seconds`` the same arguments give the same offsets on every machine.

    Args:
        blocks: what to place; names are unique.
        separations: all that is asked of pairs of blocks, where lifetimes say too much or too little; None = lifetimes.
        bound: bytes that the caller knows no placement goes below; counts where it is above the one known here.
        enough: bytes; a placement that needs no more ends the search.
        node_limit: how many blocks the search after the greedy orders may look at (0 = no search). None: NODE_LIMIT for
            lifetimes (some seconds at most; a tenth where there is little to gain), CLIMB for relations and for more
            than MAX_EXACT_BLOCKS blocks.
        seconds: a limit on time for the exact search, besides ``node_limit``.

    Raises:
        BuildError: two blocks at fixed offsets overlap while both are live, or break a relation.
    """
    task = make_task(blocks, separations, bound)
    check_fixed(task)
    goal = replace(task, bound=max(task.bound, enough))
    best, proved = greedy(goal), goal.bound
    if best.peak > proved and (separations is not None or len(task.blocks) > MAX_EXACT_BLOCKS):
        best = Climb(goal, CLIMB if node_limit is None else node_limit, SEED).run(best)
    elif best.peak > proved:
        if node_limit is None:
            node_limit = NODE_LIMIT // (10 if (best.peak - proved) * _LITTLE < proved else 1)
        best, proved = Restarts(goal).run(best, node_limit, SEED, seconds)
    places = {b.name: at for b, at in zip(task.blocks, best.offsets, strict=True)}
    lowest = proved if proved > goal.bound else task.bound
    return Placement({b.name: places.get(b.name, 0) for b in blocks}, best.peak, lowest)


def placements(blocks: Sequence[Block]) -> list[Placement]:
    """The placement that ``plan_offsets`` gives, and other ones that are as good: those of the greedy orders."""
    best = plan_offsets(blocks)
    task = make_task(blocks)
    out = [best]
    for key in ORDERS:
        for fit in FITS:
            offsets = place_all(task, ordered(task, key), fit)
            if peak_of(task, offsets) == best.peak:
                places = {b.name: at for b, at in zip(task.blocks, offsets, strict=True)}
                out.append(Placement({b.name: places.get(b.name, 0) for b in blocks}, best.peak, best.lower_bound))
    return out


