"""Ways of a nest: each computes the same, each comes once, and the one that is expected to execute least is taken."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from schedules.test_rules import conv, dense, depthwise, naive

from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.packing import pack_array
from sdk.compiler.ir.verify_loops import verify_loops
from sdk.compiler.passes import schedule as scheduling
from sdk.compiler.passes.fuse import Fuse
from sdk.compiler.passes.lower import Lower
from sdk.compiler.passes.schedule import ScheduleLoops, ways_of
from sdk.compiler.schedules.rules import CORES, Core, alternatives, core_for, schedule
from sdk.compiler.schedules.rules.choose import GAIN, cheapest, chosen, expected
from sdk.compiler.schedules.rules.ways import FIRST, WAYS, Way, ways_for
from sdk.compiler.schedules.trace import replay

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

CHOOSING = [core for core in CORES if core.name in WAYS]
DSP = ("dsp", "thumb2")
CASES = [
    conv(5, 6, 16, 18, 3, 1, 1),
    conv(5, 5, 16, 16, 1, 1, 0),
    conv(8, 7, 3, 16, 3, 2, 1),
    depthwise(8, 7, 9, 3, 3, 1),
    depthwise(6, 13, 6, 3, 3, 1),
    dense(1, 130, 34),
    dense(3, 64, 24),
]


def test_ways_are_of_cores_that_there_are() -> None:
    assert {core.name for core in CHOOSING} == set(WAYS)
    for core in CHOOSING:
        for kind in WAYS[core.name]:
            ways = ways_for(core.name, kind)
            assert ways[0] == FIRST
            assert len(set(map(str, ways))) == len(ways)
    assert ways_for("avx2", "contraction") == (FIRST,)


@pytest.mark.parametrize("core", CHOOSING, ids=lambda c: c.name)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{'x'.join(map(str, c[1][1].shape))}")
def test_every_way_computes_the_same(case: Any, core: Core) -> None:
    loops, arrays, want = naive(case, core)
    constants = {name: [values] for name, values in arrays.items() if name != "x"}
    constants["w"] = [np.maximum(constants["w"][0], -127)]
    arrays["w"] = constants["w"][0]
    plain = {**arrays, "o": np.zeros(want.shape, want.dtype)}
    run_loops(loops, plain)
    first = schedule(loops, core, constants, 1, (), constants)
    found = {FIRST: first, **dict(alternatives(loops, first, core, constants, 1, (), constants))}
    assert len({(f.body, f.params) for f in found.values()}) == len(found)
    for way, done in found.items():
        packed = {name: pack_array(arrays[name], layout) for name, layout in done.layouts.items()}
        given = {**arrays, **packed, "o": np.full(want.shape, 99, want.dtype)}
        run_loops(done, given)
        np.testing.assert_array_equal(given["o"], plain["o"], err_msg=str(way))
        problems: list[str] = []
        verify_loops(done, lambda where, message, into=problems: into.append(f"{where}: {message}"))
        assert problems == [], way
        if done.trace:
            assert replay(loops, done.trace) == done


def test_there_are_ways_of_products_and_windows() -> None:
    for case in (CASES[0], CASES[1], CASES[3]):
        loops, arrays, _ = naive(case, core_for(DSP))
        known = {"w": [np.maximum(arrays["w"], -127)], "bias": [arrays["bias"]]} if "bias" in arrays else {}
        first = schedule(loops, core_for(DSP), None, 1, (), known)
        assert list(alternatives(loops, first, core_for(DSP), None, 1, (), known)), case


def test_another_way_must_save_enough() -> None:
    assert cheapest([100.0]) == 0
    assert cheapest([100.0, 100.0 * (1 - GAIN / 2), 101.0]) == 0
    assert cheapest([100.0, 80.0, 70.0, 70.0]) == 2
    assert str(Way(form="columns", rows=2)) == "form=columns rows=2"
    assert str(FIRST) == "first"


def test_functions_of_one_structure_go_one_way() -> None:
    wide, tall = Way(cols=4), Way(rows=3)
    costs = {
        "a": {FIRST: 100.0, wide: 75.0, tall: 120.0},
        "b": {FIRST: 100.0, wide: 101.0, tall: 60.0},
        "c": {FIRST: 50.0},
    }
    assert chosen(costs, 50.0) == (wide, {})
    assert chosen(costs, 30.0) == (wide, {"b": tall})
    assert chosen({"a": {FIRST: 100.0, wide: 99.0}}, 0.0) == (FIRST, {})
    assert chosen({}, 1.0) == (FIRST, {})


def fused() -> Module:
    """A pointwise and a depthwise layer, fused."""
    from random_layers import net

    return Fuse().run(Lower().run(net((11, 12))))


def test_functions_go_the_way_that_is_expected_to_be_cheapest(monkeypatch: pytest.MonkeyPatch) -> None:
    module, isa = fused(), ".".join(DSP)
    ways = ways_of(module, core_for(DSP))
    assert all(found[0] == FIRST for found in ways.values())
    first = ScheduleLoops(isa, way=0).run(module)
    taken = []
    for number in range(max(map(len, ways.values()))):
        done = ScheduleLoops(isa, way=number).run(module)
        costs = {f.trace: expected(f, frozenset(DSP)) for f in done.loops.values()}
        monkeypatch.setattr(
            scheduling, "expected", lambda f, isa, liked=costs: 1000.0 if f.trace in liked else 5000.0
        )
        chosen = ScheduleLoops(isa).run(module)
        assert chosen.loops == done.loops
        assert ScheduleLoops(isa, opt="size").run(module).loops.keys() == first.loops.keys()
        taken.append(chosen.loops)
    assert len({str(loops) for loops in taken}) > 1


def test_cores_without_prices_take_what_the_rules_have() -> None:
    module = fused()
    assert expected(next(iter(module.loops.values())), frozenset({"avx2"})) is None
    assert ScheduleLoops("avx2").run(module) == ScheduleLoops("avx2", way=0).run(module)


def test_functions_that_take_little_keep_the_first_way(monkeypatch: pytest.MonkeyPatch) -> None:
    module, isa = fused(), ".".join(DSP)
    first = ScheduleLoops(isa, way=0).run(module)
    monkeypatch.setattr(scheduling, "WORTH", 2.0)
    assert ScheduleLoops(isa).run(module).loops == first.loops
