"""Hostile files by the thousand: an error that names its place, or a module that compiles; never a crash, a hang, a
word of the compiler about itself, or a file left behind."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import numpy as np
import pytest
from fuzz_cases import GENERATORS, flat_seeds, mutated, proto_seeds
from fuzz_flat import mutated as mutated_fields
from fuzz_flat import places
from fuzz_run import FINE, Findings, run

TODAY = int(datetime.datetime.now(datetime.UTC).strftime("%Y%m%d"))
SEED = int(os.environ.get("CROSSLEVEL_FUZZ_SEED", TODAY))
WORKERS = 2


def judge(found: Findings, count: int) -> None:
    """Every file ended as it may, and the mutations were neither all fatal nor all harmless."""
    print(f"seed {SEED}: {dict(found.counts)}, slowest {found.slowest}")
    assert not found.faults, "\n".join(found.faults)
    assert sum(found.counts.values()) == count
    assert found.counts["refused"] > count // 10
    assert found.counts["compiled"] + found.counts["imported"] > count // 20


def test_some_mutated_files() -> None:
    judge(run("mutated", SEED, range(100), every=20), 100)


def test_some_shaped_models() -> None:
    judge(run("shaped", SEED, range(50), every=20), 50)


def test_some_nodes_of_every_operator() -> None:
    judge(run("converted", SEED, range(300), every=20), 300)


@pytest.mark.slow
def test_50000_nodes_of_every_operator() -> None:
    judge(run("converted", SEED, range(1000, 51000), workers=WORKERS), 50000)


@pytest.mark.slow
def test_20000_mutated_files() -> None:
    judge(run("mutated", SEED, range(1000, 21000), every=10, workers=WORKERS), 20000)


@pytest.mark.slow
def test_2000_shaped_models() -> None:
    judge(run("shaped", SEED, range(1000, 3000), workers=WORKERS), 2000)


def test_the_same_number_makes_the_same_file() -> None:
    for make in GENERATORS.values():
        assert [make(3, k).data for k in range(12)] == [make(3, k).data for k in range(12)]
    assert len({mutated(3, k).data for k in range(60)}) > 50


def test_every_kind_of_field_is_changed() -> None:
    data = flat_seeds()["conv same strided relu"]
    found = places(data)
    assert {p.kind for p in found} == {"float", "length", "number", "offset", "slot"}
    names = {p.name for p in found}
    assert any("quantized_dimension" in n for n in names) or any("scale" in n for n in names)
    said = " ".join(mutated_fields(data, found, np.random.default_rng(k))[1] for k in range(300))
    assert all(word in said for word in ("scale", "zero_point", "shape", "inputs", "builtin_options"))


def test_seeds_are_whole() -> None:
    assert len(flat_seeds()) > 20
    assert len(proto_seeds()) >= 5


def test_a_fault_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that cannot do its work is a finding, not silence."""
    monkeypatch.setattr("fuzz_run.SCRIPT", Path(os.devnull))
    found = run("mutated", 1, range(1))
    assert not set(found.counts) & set(FINE)
    assert found.faults
