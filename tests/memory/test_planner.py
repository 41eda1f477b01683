"""The offset planner: never overlaps, reaches the bound where nets allow it, and is the same every time."""

from __future__ import annotations

import csv
import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdk.compiler.memory.planner import plan_offsets
from sdk.compiler.memory.problem import Block, lower_bound, overlaps
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
    start = time.perf_counter()
    placed = plan_offsets(chain(sizes))
    assert time.perf_counter() - start < 0.1
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
    placed = plan_offsets(blocks, effort=500)
    assert not overlaps([b for b in blocks if b.size], placed.offsets)
    assert placed.peak == max((placed.offsets[b.name] + b.size for b in blocks if b.size), default=0)
    assert lower_bound(blocks) <= placed.peak
    assert placed == plan_offsets(list(reversed(blocks)), effort=500)


def test_fixed_blocks_stay() -> None:
    blocks = [Block("io", 64, 0, 9, 16, fixed=128), Block("a", 100, 0, 4, 16), Block("b", 100, 3, 9, 16)]
    placed = plan_offsets(blocks)
    assert placed.offsets["io"] == 128
    assert not overlaps(blocks, placed.offsets)
    with pytest.raises(BuildError, match="overlapping bytes"):
        plan_offsets([*blocks, Block("clash", 8, 2, 3, 1, fixed=130)])


def test_hard_problems_beat_greedy(root: Path) -> None:
    folder = root.parent / "shared" / "data" / "minimalloc"
    if not folder.is_dir():
        pytest.skip(f"no minimalloc problems at {folder}")
    for path in sorted(folder.glob("*.csv")):
        with path.open() as file:
            rows = [
                (r["id"], int(r["size"]), int(r["lower"]), int(r["upper"]) - 1) for r in csv.DictReader(file)
            ]
        blocks = [Block(*row) for row in rows]
        placed = plan_offsets(blocks)
        assert not overlaps(blocks, placed.offsets)
        assert placed.peak <= 1.3 * placed.lower_bound
