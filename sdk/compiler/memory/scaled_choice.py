"""Which placement to scale: among those as good at the upper bounds, one that stays near the live set at all dims."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.memory.layers import Folded, fold, unfolded
from sdk.compiler.memory.problem import Block, Placement, live_profile
from sdk.compiler.memory.stacks import Stacks, better_order
from sdk.compiler.sym import Dim, Var, evaluate_grid, free_vars

__all__ = ["best_scaled"]

Grid = NDArray[np.int64]
Points = dict[Var, Grid]  # by dim, its value at each point
NODE_LIMIT: Final = 40_000  # of one search
SAMPLES: Final = 36  # points that an order is searched at, about
CHECKED: Final = 400  # points that it is then looked at
ADDED: Final = 6  # of those, that join the others where it is worse there
WORSE: Final = 0.005
ROUNDS: Final = 3
FINE: Final = 1.02  # a worst ratio for which no other folding is tried
WHOLE: Final = 200  # blocks that are searched without any folding


def best_scaled(found: Sequence[Placement], blocks: Sequence[Block], sizes: Mapping[str, Dim]) -> Placement:
    """The placement whose scaled arena is the least above the largest live set at the worst dims.

    Args:
        found: placements that are as good as each other at the upper bounds; what is chosen is as good there.
        blocks: what they place.
        sizes: the bytes of each block as a dim.
    """
    held = [b for b in blocks if b.size > 0]
    dims = sorted({v for b in held for v in free_vars(sizes[b.name])}, key=lambda v: v.name)
    if not dims:
        return found[0]
    whole = unfolded(held)
    checked = _stacks(whole, sizes, _anywhere(dims), found[0].peak)
    orders = [_order_of(p, whole) for p in found]
    best = min(orders, key=lambda o: checked.score(checked.ends(o)))
    for folded in _folded(held, sizes):
        names = _searched(folded, found, sizes, dims)
        index = {b.name: k for k, b in enumerate(held)}
        best = min(best, [index[n] for n in names], key=lambda o: checked.score(checked.ends(o)))
        over, ratio, _ = checked.score(checked.ends(best))
        if not over and ratio <= FINE:
            break
    ends = checked.ends(best)[:, -1]
    offsets = {b.name: int(end) - b.size for b, end in zip(held, ends, strict=True)}
    return Placement({b.name: offsets.get(b.name, 0) for b in blocks}, int(ends.max()), found[0].lower_bound)


def _folded(blocks: Sequence[Block], sizes: Mapping[str, Dim]) -> Iterator[Folded]:
    """The problem as it is searched: with the layers alike, with every other one alike, and as it is where that is
    small enough."""
    kinds = [(sizes[b.name], b.size, b.align) for b in blocks]
    tried = 0
    for layers in (1, 2):
        folded = fold(blocks, kinds, layers)
        if tried < len(folded.blocks) < len(blocks):
            tried = len(folded.blocks)
            yield folded
    if len(blocks) <= WHOLE or not tried:
        yield unfolded(blocks)


def _searched(
    folded: Folded, found: Sequence[Placement], sizes: Mapping[str, Dim], dims: Sequence[Var]
) -> list[str]:
    """The names of all blocks in a good order: found at some points, and again with those where it turns out bad."""
    points, more = _samples(dims), _anywhere(dims)
    dense = _stacks(folded, sizes, more, found[0].peak)
    order: list[int] = []
    for _ in range(ROUNDS):
        stacks = _stacks(folded, sizes, points, found[0].peak)
        starts = [order] if order else [_order_of(p, folded) for p in found]
        start = min(starts, key=lambda o: stacks.score(stacks.ends(o)))
        order, worst = better_order(stacks, start, NODE_LIMIT)
        ratios = dense.ratios(dense.ends(order))
        bad = [k for k in np.argsort(-ratios, kind="stable")[:ADDED] if ratios[k] > worst + WORSE and k < CHECKED]
        if not bad:
            break
        points = {v: np.concatenate([points[v], more[v][bad]]) for v in dims}
    return [n for g in order for n in folded.names[g]]


def _order_of(placement: Placement, folded: Folded) -> list[int]:
    """The groups by where a placement has the first of each."""
    blocks = [folded.blocks[g[0]] for g in folded.groups]
    return sorted(range(len(blocks)), key=lambda g: (placement.offsets[blocks[g].name], blocks[g].first, g))


def _stacks(folded: Folded, sizes: Mapping[str, Dim], points: Points, peak: int) -> Stacks:
    """The blocks at these points and, last, at their largest, where they have ``peak`` bytes of room."""
    count = max((len(p) for p in points.values()), default=0)
    known: dict[Dim, Grid] = {}
    rows = []
    for block in folded.blocks:
        size = sizes[block.name]
        if size not in known:
            known[size] = np.broadcast_to(evaluate_grid(size, points), (count,))
        rows.append(np.append(known[size], block.size))
    grid = np.array(rows, dtype=np.int64)
    room = _live(folded.blocks, grid)
    room[-1] = peak
    return Stacks(folded.blocks, grid, room, folded.groups)


def _live(blocks: Sequence[Block], sizes: Grid) -> Grid:
    """The largest live set at each point, with the padding that any stack of it has."""
    index = {b.name: k for k, b in enumerate(blocks)}
    out = np.zeros(sizes.shape[1], dtype=np.int64)
    for _, live in live_profile(blocks):
        held = sizes[[index[b.name] for b in live]]
        align = min(b.align for b in live)
        padded = -(-held // align) * align
        out = np.maximum(out, padded.sum(axis=0) - (padded - held).max(axis=0))
    return out


def _samples(dims: Sequence[Var]) -> Points:
    """Points at which each dim has a few values, from the smallest to the largest in ratios: sizes that are of another
    power in a dim change places where it is small."""
    count = max(2, int(SAMPLES ** (1 / len(dims))))
    axes = [_values(v, count) for v in dims]
    if count ** len(dims) > 2 * SAMPLES:
        rng = random.Random(0)
        points = [tuple(a[0] for a in axes), tuple(a[-1] for a in axes)]
        points += [tuple(rng.choice(a) for a in axes) for _ in range(SAMPLES)]
    else:
        points = list(product(*axes))
    return {v: np.array(column) for v, column in zip(dims, zip(*points, strict=True), strict=True)}


def _values(var: Var, count: int) -> list[int]:
    low, high = max(var.minimum, 1), max(var.maximum, 1)
    found = {round(low * (high / low) ** (k / (count - 1))) // var.multiple * var.multiple for k in range(count)}
    return sorted({min(max(n, var.minimum), var.maximum) for n in found} | {var.minimum})


def _anywhere(dims: Sequence[Var]) -> Points:
    """Points of chance, half of them with small dims."""
    rng = np.random.default_rng(0)
    out = {}
    for var in dims:
        steps = (var.maximum - var.minimum) // var.multiple + 1
        even = rng.integers(0, steps, CHECKED)
        small = np.minimum(np.exp(rng.uniform(0, np.log(steps + 1), CHECKED)).astype(np.int64) - 1, steps - 1)
        out[var] = var.minimum + var.multiple * np.where(np.arange(CHECKED) % 2 == 0, even, small)
    return out
