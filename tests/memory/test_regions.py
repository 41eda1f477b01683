"""Blocks in several memories: each in one, none on another, limits kept, what is used most where it is wanted."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placements import overlaps, violated
from sound_plans import scaled

from sdk.compiler.memory.problem import Block, Separation
from sdk.compiler.memory.regions import Pool, parse_pools, spread
from sdk.errors import BuildError, UsageError


@st.composite
def _blocks(draw: st.DrawFn) -> list[Block]:
    out = []
    for k in range(draw(st.integers(1, 14))):
        first = draw(st.integers(0, 12))
        last = first + draw(st.integers(0, 6))
        out.append(Block(f"b{k}", draw(st.integers(0, 40)) * 4, first, last, draw(st.sampled_from([1, 4, 16]))))
    return out


@settings(max_examples=80, deadline=None)
@given(_blocks(), st.integers(16, 400), st.integers(0, 5))
def test_every_block_has_one_pool_and_keeps_its_limit(blocks: list[Block], near: int, seed: int) -> None:
    uses = {b.name: (k * 7 + seed) % 5 for k, b in enumerate(blocks)}
    pools = (Pool("near", near), Pool("far", 100_000))
    found = spread(blocks, uses, pools)
    assert set(found.pool_of) == {b.name for b in blocks}
    for pool in pools:
        mine = [b for b in blocks if found.pool_of[b.name] == pool.name]
        placement = found.placements[pool.name]
        assert overlaps([b for b in mine if b.size], placement.offsets) == []
        assert all(placement.offsets[b.name] + b.size <= min(placement.peak, pool.bytes) for b in mine if b.size)


def test_relations_hold_inside_a_pool() -> None:
    """An output that may begin a little below its input does so only where both are in one pool."""
    blocks = [Block("x", 100, 0, 1), Block("y", 80, 1, 2)]
    separations = [Separation("x", "y", -20, 100)]
    found = spread(blocks, {"x": 2, "y": 2}, (Pool("near", 120), Pool("far", 500)), separations)
    assert set(found.pool_of.values()) == {"near"}
    assert violated(blocks, separations, found.placements["near"].offsets) == []
    assert found.placements["near"].peak == 120


def test_what_is_used_most_goes_near() -> None:
    blocks = [Block("cold", 64, 0, 5), Block("hot", 64, 0, 5)]
    found = spread(blocks, {"cold": 1, "hot": 9}, (Pool("near", 64), Pool("far", 64)))
    assert found.pool_of == {"hot": "near", "cold": "far"}


def test_all_in_the_first_pool_where_it_is_large_enough() -> None:
    blocks = [Block("a", 64, 0, 1), Block("b", 64, 1, 2), Block("c", 64, 2, 3)]
    found = spread(blocks, dict.fromkeys("abc", 1), (Pool("near", 128), Pool("far", 128)))
    assert set(found.pool_of.values()) == {"near"}
    assert found.placements["far"].peak == 0


def test_pools_that_are_too_small() -> None:
    with pytest.raises(BuildError, match="1 tensors fit none of the memories near") as error:
        spread([Block("a", 64, 0, 1)], {"a": 1}, (Pool("near", 32), Pool("far", 60)))
    assert "%a 64 B" in str(error.value.why)


def test_offsets_that_follow_the_dims_have_one_pool() -> None:
    with pytest.raises(BuildError, match="lies in one memory") as error:
        scaled(pools="near:600+far:4000")
    assert "offsets=fixed" in str(error.value.hint)


def test_pools_as_text() -> None:
    assert parse_pools("") == ()
    assert parse_pools("dtcm:64+sram:128") == (Pool("dtcm", 64), Pool("sram", 128))
    for bad in ("dtcm", "dtcm:0", "a b:4", "x:4+x:5", "x:-1"):
        with pytest.raises(UsageError) as error:
            parse_pools(bad)
        assert error.value.hint
