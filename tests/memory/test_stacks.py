"""Orders of blocks and their search, and the layers that are folded before it."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placements import overlaps

from sdk.compiler.memory.layers import fold
from sdk.compiler.memory.planner import placements
from sdk.compiler.memory.problem import Block, Placement, aligned, live_profile, lower_bound
from sdk.compiler.memory.scaled_choice import best_scaled
from sdk.compiler.memory.stacks import Stacks, better_order
from sdk.compiler.sym import Dim, Var, evaluate

N = Var("n", 1, 256)


def layers(count: int, seed: int = 0, align: int = 16) -> tuple[list[Block], dict[str, Dim]]:
    """Layers like those of a transformer, behind a head, before a tail, under a mask that lives through all of them."""
    rng = Random(seed)
    n = N.expr
    kinds = [n * 64, n * 96, n * n * 2, n * n + 3, n * 256, 2048]
    parts = [(rng.randrange(8), rng.randrange(5), rng.choice(kinds)) for _ in range(7)]
    rows: list[tuple[int, int, Dim]] = [(0, 3, n * 300), (1, count * 10 + 4, n * n)]
    rows += [(4 + 10 * k + first, 4 + 10 * k + first + more, size) for k in range(count) for first, more, size in parts]
    rows.append((count * 10 + 3, count * 10 + 8, n * 128))
    sizes = {f"b{k}": size for k, (_, _, size) in enumerate(rows)}
    top = {N: N.hi}
    blocks = [Block(f"b{k}", evaluate(size, top), first, last, align) for k, (first, last, size) in enumerate(rows)]
    return blocks, sizes


def live(blocks: list[Block]) -> int:
    return max(sum(b.size for b in held) for _, held in live_profile(blocks))


def kinds_of(blocks: list[Block], sizes: dict[str, Dim]) -> list[tuple[Dim, int, int]]:
    return [(sizes[b.name], b.size, b.align) for b in blocks]


@pytest.mark.parametrize("seed", range(12))
def test_layers_are_folded(seed: int) -> None:
    blocks, sizes = layers(24, seed)
    folded = fold(blocks, kinds_of(blocks, sizes))
    assert len(folded.blocks) <= len(layers(4, seed)[0])
    assert sorted(n for names in folded.names for n in names) == sorted(b.name for b in blocks)
    assert sorted(k for group in folded.groups for k in group) == list(range(len(folded.blocks)))
    assert live(list(folded.blocks)) == live(blocks)
    for group, names in zip(folded.groups, folded.names, strict=True):
        assert {folded.blocks[k].name for k in group} <= set(names)
        assert len({sizes[n] for n in names}) == 1


def test_what_does_not_repeat_stays() -> None:
    blocks, sizes = layers(2)
    folded = fold(blocks, kinds_of(blocks, sizes))
    assert folded.blocks == tuple(blocks)
    rng = Random(1)
    odd = [Block(f"b{k}", rng.randrange(1, 999), k, k + rng.randrange(4), 16) for k in range(60)]
    assert fold(odd, [b.size for b in odd]).blocks == tuple(odd)


@pytest.mark.some(4)
@pytest.mark.parametrize("seed", range(8))
def test_arena_stays_near_the_live_set_in_deep_nets(seed: int) -> None:
    blocks, sizes = layers(20, seed)
    found = placements(blocks)
    placement = best_scaled(found, blocks, sizes)
    assert placement.peak <= found[0].peak
    assert not overlaps(blocks, placement.offsets)
    assert placement == best_scaled(found, blocks, sizes)
    assert worst(blocks, sizes, placement) <= 1.08


def worst(blocks: list[Block], sizes: dict[str, Dim], placement: Placement) -> float:
    """The worst ratio of the stacked arena to the largest live set, with the padding that no stack avoids."""
    ratios = []
    for n in (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 256):
        at = {b.name: evaluate(sizes[b.name], {N: n}) for b in blocks}
        ends: dict[str, int] = {}
        for b in sorted(blocks, key=lambda b: (placement.offsets[b.name], b.first)):
            below = [ends[o.name] for o in blocks if o.name in ends and o.first <= b.last and b.first <= o.last]
            ends[b.name] = aligned(max(below, default=0), b.align) + at[b.name]
        now = [Block(b.name, at[b.name], b.first, b.last, b.align) for b in blocks]
        ratios.append(max(ends.values()) / lower_bound(now))
    return max(ratios)


rows = st.tuples(st.integers(0, 9), st.integers(0, 4), st.integers(0, 50), st.integers(0, 50))


@settings(max_examples=60, deadline=None)
@given(st.lists(rows, min_size=1, max_size=10), st.integers(0, 9))
def test_search_never_loses(found: list[tuple[int, int, int, int]], seed: int) -> None:
    blocks = [Block(f"b{k}", max(a, b), first, first + more, 8) for k, (first, more, a, b) in enumerate(found)]
    sizes = np.array([[a, b, max(a, b)] for _, _, a, b in found], dtype=np.int64)
    room = np.maximum(1, np.array([sum(s) for s in zip(*sizes.tolist(), strict=True)], dtype=np.int64) // 2)
    stacks = Stacks(blocks, sizes, room, [(k,) for k in range(len(blocks))])
    start = list(range(len(blocks)))
    order, ratio = better_order(stacks, start, 400, seed)
    assert sorted(order) == start
    assert stacks.score(stacks.ends(order)) <= stacks.score(stacks.ends(start))
    assert ratio == stacks.score(stacks.ends(order))[1]
    ends = stacks.ends(order)
    for k, a in enumerate(blocks):
        for j in stacks.rivals[k]:
            below = ends[j] <= ends[k] - sizes[k]
            above = ends[k] <= ends[j] - sizes[j]
            assert (below | above).all(), (a, blocks[j])
