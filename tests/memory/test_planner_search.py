"""The exact search for offsets: to the byte, the same in C as in Python, within its limits, fast on hard problems."""

from __future__ import annotations

import csv
import importlib
import itertools
import random
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placements import overlaps

from sdk.compiler.memory import planner
from sdk.compiler.memory.compiled_search import maker, provide
from sdk.compiler.memory.planner import native, plan_offsets
from sdk.compiler.memory.planner.greedy import greedy
from sdk.compiler.memory.planner.restarts import Restarts
from sdk.compiler.memory.planner.task import Found, make_task
from sdk.compiler.memory.problem import Block, aligned, lower_bound
from sdk.driver.host_c import load_c


@pytest.fixture
def in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every search runs in C."""
    monkeypatch.setattr(native._Library, "made", load_c(native.SOURCE))


@pytest.fixture
def in_python() -> Iterator[None]:
    """No search runs in C."""
    make = maker()
    provide(None)
    yield
    provide(make)


@pytest.fixture
def nets(root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The generator of problems of the benchmark."""
    monkeypatch.syspath_prepend(root / "benchmarks")
    return importlib.import_module("generated_nets")


@st.composite
def few(draw: st.DrawFn) -> list[Block]:
    count = draw(st.integers(1, 6))
    out = []
    for k in range(count):
        first = draw(st.integers(0, 5))
        size, align = draw(st.integers(1, 12)), draw(st.sampled_from([1, 1, 2, 4]))
        out.append(Block(f"b{k}", size, first, first + draw(st.integers(0, 4)), align))
    if draw(st.booleans()):
        size, first, last, at = (draw(st.integers(*r)) for r in ((1, 9), (0, 4), (4, 9), (0, 10)))
        out.append(Block("fixed", size, first, last, fixed=at))
    return out


def min_peak(blocks: list[Block]) -> int:
    """The best over all orders of dropping blocks; one of them gives an optimal placement."""
    loose = [b for b in blocks if b.fixed is None]
    best = 1 << 30
    for order in itertools.permutations(loose):
        at = {b.name: b.fixed for b in blocks if b.fixed is not None}
        for b in order:
            rivals = [o for o in blocks if o.name in at and o.first <= b.last and b.first <= o.last]
            place = 0
            for o in sorted(rivals, key=lambda o: at[o.name]):
                if at[o.name] - place >= b.size:
                    break
                place = max(place, aligned(at[o.name] + o.size, b.align))
            at[b.name] = place
        best = min(best, max(at[b.name] + b.size for b in blocks))
    return best


@settings(max_examples=120, deadline=None)
@given(few())
def test_small_problems_are_solved_to_the_byte_and_proved(blocks: list[Block]) -> None:
    placed = plan_offsets(blocks, node_limit=200_000)
    assert not overlaps(blocks, placed.offsets)
    assert placed.peak == min_peak(blocks)
    assert placed.optimal


def random_problem(seed: int) -> list[Block]:
    rng = random.Random(seed)
    blocks, align = [], rng.choice([1, 4, 16])
    for k in range(rng.randrange(8, 45)):
        first = rng.randrange(20)
        last = first + int(rng.expovariate(0.3))
        blocks.append(Block(f"b{k}", rng.randrange(1, 400), first, last, rng.choice([1, align, align])))
    if rng.random() < 0.5:
        blocks.append(Block("io", 64, 3, 9, align, fixed=align * rng.randrange(20)))
    return blocks


def test_python_and_c_make_the_same_choices(in_python: None, monkeypatch: pytest.MonkeyPatch) -> None:
    problems = [random_problem(seed) for seed in range(60)]
    limits = [500 * (1 + k % 7) for k in range(60)]  # most end out of budget, so that each choice counts
    slow = [plan_offsets(blocks, node_limit=limit) for blocks, limit in zip(problems, limits, strict=True)]
    provide(load_c)
    monkeypatch.setattr(native._Library, "made", load_c(native.SOURCE))
    fast = [plan_offsets(blocks, node_limit=limit) for blocks, limit in zip(problems, limits, strict=True)]
    assert slow == fast
    assert any(not placed.optimal for placed in fast)
    assert all(not overlaps(b, p.offsets) for b, p in zip(problems, fast, strict=True))


def test_a_long_search_asks_for_the_library_once(in_python: None, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def make(source: Path) -> object:
        asked.append(source)
        return load_c(source)

    provide(make)
    monkeypatch.setattr(native._Library, "made", None)
    monkeypatch.setattr(native, "PATIENCE", 50)
    for seed in range(10):
        plan_offsets(random_problem(seed), node_limit=5000)
    assert asked == [native.SOURCE]


def test_generated_nets_reach_their_bound_soon(in_c: None, nets: ModuleType) -> None:
    """Three times the 100 ms of ``benchmarks/planning.py``, for a machine that does other work as well."""
    results = []
    for _, hard, blocks in nets.problems(80):
        start = time.process_time()
        placed = plan_offsets(blocks)
        results.append((hard, placed.optimal and time.process_time() - start <= 0.3))
        assert not overlaps(blocks, placed.offsets)
    assert sum(hard for hard, _ in results) >= 40
    assert sum(good for _, good in results) >= 0.98 * len(results)


def test_generated_nets_are_the_same_every_time(nets: ModuleType) -> None:
    blocks = nets.problem(64)
    assert blocks == nets.problem(64)
    assert (len(blocks), sum(b.size for b in blocks)) == (35, 586_560)
    assert nets.live_set(blocks) == nets.by_size(blocks) == 157_696


def test_hard_problems_fit(root: Path, in_c: None) -> None:
    folder = root.parent / "shared" / "data" / "minimalloc"
    if not folder.is_dir():
        pytest.skip(f"no minimalloc problems at {folder}")
    for path in sorted(folder.glob("*.csv")):
        with path.open() as file:
            rows = [
                (r["id"], int(r["size"]), int(r["lower"]), int(r["upper"]) - 1) for r in csv.DictReader(file)
            ]
        blocks = [Block(*row) for row in rows]
        placed = plan_offsets(blocks, enough=1 << 20, node_limit=20_000_000)
        assert not overlaps(blocks, placed.offsets)
        assert placed.peak <= 1 << 20, path.name


def test_enough_ends_the_search(in_c: None) -> None:
    blocks = [b for seed in range(3, 6) for b in random_problem(seed) if b.fixed is None]
    blocks = [Block(f"{k}", b.size, b.first, b.last, b.align) for k, b in enumerate(blocks)]
    best = plan_offsets(blocks, node_limit=100_000)
    first = plan_offsets(blocks, node_limit=0)
    assert best.peak < first.peak
    middle = (best.peak + first.peak) // 2
    placed = plan_offsets(blocks, enough=middle, node_limit=100_000)
    assert best.peak <= placed.peak <= middle
    assert placed.lower_bound == lower_bound(blocks)


def test_seconds_end_the_search(in_c: None) -> None:
    rng = random.Random(1)
    blocks = [
        Block(f"b{k}", rng.randrange(1, 4000), at := rng.randrange(200), at + rng.randrange(60)) for k in range(300)
    ]
    start = time.monotonic()
    placed = plan_offsets(blocks, node_limit=1 << 40, seconds=0.5)
    assert time.monotonic() - start < 10  # a busy machine; without the limit it takes hours
    assert not overlaps(blocks, placed.offsets)


def test_very_many_blocks_are_searched_by_orders(in_c: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "MAX_EXACT_BLOCKS", 5)
    monkeypatch.setattr(planner, "Restarts", None)
    for seed in range(5):
        blocks = random_problem(seed)
        placed = plan_offsets(blocks, node_limit=2000)
        assert not overlaps(blocks, placed.offsets)
        assert placed.peak <= plan_offsets(blocks, node_limit=0).peak


def test_a_search_never_gives_back_something_worse(in_c: None) -> None:
    for seed in range(20):
        task = make_task(random_problem(seed))
        start = greedy(task)
        found, bound = Restarts(task).run(Found(start.peak, start.offsets), 2000, seed)
        assert task.bound <= bound <= found.peak <= start.peak
