"""Generated networks on every core give what other engines give: some in each run, many others in the long tests."""

from __future__ import annotations

import os

import pytest
from generate import KINDS

from differential.command import SIZE, Chunk, chunks, described, table, work
from differential.compare import Tally
from differential.cores import CORES

SEED = int(os.environ["CROSSLEVEL_SEED"])
FEW = SIZE // 4  # networks in an image of a short test
COUNT = 2 * FEW  # networks on every core, one image a compiler; of other seeds on each half of the cores
HALVES = list(CORES)[::2], list(CORES)[1::2]
SOAK = {core: 20_000 if core == "m4" else 5_000 for core in CORES}
PART = 1_000  # networks of a long test


EVERY = [
    c for k, half in enumerate(HALVES) for c in chunks(half, KINDS, COUNT, SEED + k * COUNT, "any", {}, size=FEW)
]


def judge(tally: Tally) -> None:
    assert not tally.wrong, "\n".join([*map(described, tally.wrong), table(tally)])
    assert sum(tally.right.values()) > sum(tally.refused.values())


@pytest.mark.emulator
@pytest.mark.parametrize("chunk", EVERY, ids=lambda c: str(c.networks[0][0]))
def test_some_networks(chunk: Chunk) -> None:
    judge(work(chunk))


@pytest.mark.slow
@pytest.mark.emulator
@pytest.mark.parametrize(
    ("core", "first"), [(core, first) for core, count in SOAK.items() for first in range(0, count, PART)]
)
def test_many_networks(core: str, first: int) -> None:
    tally = Tally()
    for chunk in chunks([core], KINDS, PART, SEED + 1_000_000 + first, "any", {}):
        tally.add(work(chunk))
    judge(tally)


def test_every_core_runs_networks_of_every_kind_by_all_its_compilers() -> None:
    able = {(name, compiler) for name, core in CORES.items() for compiler in core.compilers}
    assert {pair for c in EVERY for pair in c.cores} == able
    for name in CORES:
        networks = [n for c in EVERY if name in dict(c.cores) for n in c.networks]
        assert len(set(networks)) == len(networks) == COUNT
        assert {kind for _, kind in networks} == set(KINDS)


def test_chunks_hold_every_network_once_and_all_compilers() -> None:
    found = list(chunks(list(CORES), KINDS, 3 * SIZE, 5, "any", {}))
    networks = [n for c in found for n in c.networks]
    assert len(networks) == len(set(networks)) == 3 * SIZE
    assert {kind for _, kind in networks} == set(KINDS)
    assert {pair for c in found for pair in c.cores} == {(n, c) for n, core in CORES.items() for c in core.compilers}
