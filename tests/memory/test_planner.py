"""The offset planner: never overlaps, reaches the bound where nets allow it, and is the same every time."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placements import overlaps, violated

from sdk.compiler.memory.planner import plan_offsets
from sdk.compiler.memory.problem import Block, Separation, lower_bound, separations_by_lifetimes
from sdk.errors import BuildError


def chain(sizes: list[int], align: int = 16) -> list[Block]:
    """A net of one op after the other: tensor k is made at step k and read at step k + 1."""
    return [Block(f"t{k}", size, k, k + 1, align) for k, size in enumerate(sizes)]


# Sizes of the tensors between the layers of three real int8 nets (input first).
VWW = [
    27648, 18432, 18432, 36864, 9216, 18432, 18432, 18432, 4608, 9216, 9216, 9216, 2304,
    *[4608] * 11, 1152, *[2304] * 3, 256, 2, 2,
]  # fmt: skip
KWS = [490, 8000, *[8000] * 8, 64, 64, 12, 12]
CHAINS = {"vww": (VWW, 55296), "kws": (KWS, 16000)}


@pytest.mark.parametrize("name", CHAINS)
def test_chains_reach_the_bound_at_once(name: str) -> None:
    sizes, bound = CHAINS[name]
    start = time.process_time()
    placed = plan_offsets(chain(sizes))
    assert time.process_time() - start < 0.1
    assert placed.peak == placed.lower_bound == bound
    assert placed.optimal
    assert not overlaps(chain(sizes), placed.offsets)


def test_residual_net_reaches_the_bound() -> None:
    # conv, then three residual blocks: the sum and the shortcut are live across two convolutions
    big, half, quarter = 16384, 8192, 4096
    blocks = [
        Block("x", 3072, 0, 1), Block("a", big, 1, 4), Block("b", big, 2, 3), Block("c", big, 3, 4),
        Block("d", big, 4, 7), Block("e", half, 5, 6), Block("f", half, 6, 8), Block("g", half, 7, 8),
        Block("h", half, 8, 11), Block("i", quarter, 9, 10), Block("j", quarter, 10, 12),
        Block("k", quarter, 11, 12),
        Block("l", quarter, 12, 13), Block("m", 64, 13, 14), Block("n", 10, 14, 15),
    ]  # fmt: skip
    assert plan_offsets(blocks).peak == 3 * big


def test_bound_counts_padding_that_cannot_be_avoided() -> None:
    blocks = [Block("a", 10, 0, 1, 16), Block("b", 20, 0, 1, 16), Block("c", 1, 0, 1, 16)]
    assert lower_bound(blocks) == 16 + 32 + 1
    assert plan_offsets(blocks).optimal


def net(rng: random.Random) -> list[Block]:
    """Tensors of a random net: a chain with skips, sizes that shrink and grow."""
    steps = rng.randrange(10, 40)
    out = []
    for k in range(steps):
        reach = rng.choice([1, 1, 1, 2, 3, rng.randrange(1, 12)])
        out.append(
            Block(f"t{k}", rng.randrange(1, 64) * rng.choice([16, 256, 1024]), k, min(k + reach, steps), 16)
        )
    return out


def test_random_nets_are_at_the_bound() -> None:
    rng = random.Random(7)
    problems = [net(rng) for _ in range(60)]
    solved = 0
    for blocks in problems:
        placed = plan_offsets(blocks)
        assert not overlaps(blocks, placed.offsets)
        solved += placed.optimal
    assert solved >= 57


@st.composite
def problems(draw: st.DrawFn) -> list[Block]:
    count = draw(st.integers(1, 24))
    out = []
    for k in range(count):
        first = draw(st.integers(0, 12))
        last = first + draw(st.integers(0, 8))
        align = draw(st.sampled_from([1, 4, 16]))
        out.append(Block(f"b{k}", draw(st.integers(0, 99)), first, last, align))
    return out


@settings(max_examples=150, deadline=None)
@given(problems())
def test_placements_are_sound(blocks: list[Block]) -> None:
    placed = plan_offsets(blocks, node_limit=500)
    assert not overlaps([b for b in blocks if b.size], placed.offsets)
    assert placed.peak == max((placed.offsets[b.name] + b.size for b in blocks if b.size), default=0)
    assert lower_bound(blocks) <= placed.peak
    assert placed == plan_offsets(list(reversed(blocks)), node_limit=500)


@settings(max_examples=100, deadline=None)
@given(problems())
def test_lifetimes_as_relations_ask_for_the_same(blocks: list[Block]) -> None:
    separations = separations_by_lifetimes(blocks)
    placed = plan_offsets(blocks, separations=separations, node_limit=500)
    assert lower_bound(blocks, separations) <= plan_offsets(blocks, node_limit=2000).peak
    assert not violated(blocks, separations, placed.offsets)
    assert not overlaps([b for b in blocks if b.size], placed.offsets)


def test_an_output_may_lie_over_consumed_input() -> None:
    image, result = Block("image", 1000, 0, 1, 4), Block("result", 900, 0, 1, 4)
    over = [Separation("image", "result", -100, 1000)]
    placed = plan_offsets([image, result], separations=over)
    assert placed.peak == placed.lower_bound == 1100
    assert not violated([image, result], over, placed.offsets)
    assert placed.offsets["image"] - placed.offsets["result"] == 100
    separations = [Separation("image", "result", -100, 1000), Separation("result", "more", -64, 900)]
    more = Block("more", 64, 0, 0, 4)  # apart from the result only: over the image it is welcome
    assert plan_offsets([image, result, more], separations=separations).peak == 1100


@st.composite
def related(draw: st.DrawFn) -> tuple[list[Block], list[Separation]]:
    blocks = draw(problems())
    index = st.integers(0, len(blocks) - 1)
    relation = st.tuples(index, index, st.integers(-60, 60), st.integers(0, 99))
    separations = [
        Separation(f"b{a}", f"b{b}", low, low + more)
        for a, b, low, more in draw(st.lists(relation, max_size=40))
        if a != b
    ]
    return blocks, separations


@settings(max_examples=150, deadline=None)
@given(related())
def test_relations_hold(problem: tuple[list[Block], list[Separation]]) -> None:
    blocks, separations = problem
    placed = plan_offsets(blocks, separations=separations, node_limit=500)
    held = {b.name for b in blocks if b.size}
    assert not violated(blocks, [r for r in separations if {r.a, r.b} <= held], placed.offsets)
    assert placed.lower_bound <= placed.peak
    assert placed == plan_offsets(blocks[::-1], separations=separations[::-1], node_limit=500)


@settings(max_examples=60, deadline=None)
@given(related(), st.integers(0, 400))
def test_a_placement_that_is_enough_ends_the_search(problem: tuple[list[Block], list[Separation]], enough: int) -> None:
    blocks, separations = problem
    placed = plan_offsets(blocks, separations=separations, enough=enough, node_limit=500)
    best = plan_offsets(blocks, separations=separations, node_limit=500)
    assert placed.lower_bound == best.lower_bound <= placed.peak
    assert placed.peak <= max(enough, best.peak)


def test_a_bound_of_the_caller_counts_when_it_is_higher() -> None:
    blocks = chain([8, 8, 8])
    assert plan_offsets(blocks, bound=20).lower_bound == 20 + 4
    assert plan_offsets(blocks, bound=100).lower_bound == 100


def test_fixed_blocks_stay() -> None:
    blocks = [Block("io", 64, 0, 9, 16, fixed=128), Block("a", 100, 0, 4, 16), Block("b", 100, 3, 9, 16)]
    placed = plan_offsets(blocks)
    assert placed.offsets["io"] == 128
    assert not overlaps(blocks, placed.offsets)
    with pytest.raises(BuildError, match="overlapping bytes"):
        plan_offsets([*blocks, Block("clash", 8, 2, 3, 1, fixed=130)])
