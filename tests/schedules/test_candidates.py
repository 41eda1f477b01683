"""Candidate schedules of a nest: each computes the same, each comes once, and the rules' own choice is the first."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from schedules.test_rules import conv, dense, depthwise, naive

from sdk.boards import load_board
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.packing import pack_array
from sdk.compiler.machines.lookup import MACHINES, machine_for
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import DEFAULT, Choice, Nest
from sdk.compiler.passes.fuse import Fuse
from sdk.compiler.passes.lower import Lower
from sdk.compiler.passes.schedule import ScheduleLoops, candidates_of
from sdk.compiler.schedules.rules import alternatives, schedule_nest
from sdk.compiler.schedules.trace import replay
from sdk.compiler.verify.loops import verify_loops

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

CHOOSING = [core for core in MACHINES if core.candidates]
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


def test_candidates_begin_with_what_the_rules_choose() -> None:
    assert {core.name for core in CHOOSING} == {"dsp", "dsp-dual-issue", "rvm", "thumb2"}
    for core in CHOOSING:
        for kind in core.candidates:
            choices = core.choices(kind)
            assert choices[0] == DEFAULT
            assert len(set(map(str, choices))) == len(choices)
    assert machine_for({"avx2"}).choices("contraction") == (DEFAULT,)
    assert str(Choice(variant="columns", rows=2)) == "variant=columns rows=2"
    assert str(DEFAULT) == "default"


@pytest.mark.parametrize("core", CHOOSING, ids=lambda c: c.name)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{'x'.join(map(str, c[1][1].shape))}")
def test_every_candidate_computes_the_same(case: Any, core: Machine) -> None:
    loops, arrays, want = naive(case, core)
    constants = {name: [values] for name, values in arrays.items() if name != "x"}
    constants["w"] = [np.maximum(constants["w"][0], -127)]
    arrays["w"] = constants["w"][0]
    plain = {**arrays, "o": np.zeros(want.shape, want.dtype)}
    run_loops(loops, plain)
    nest = Nest(loops, frozenset(constants), known=constants)
    first = schedule_nest(nest, core)
    found = {DEFAULT: first, **dict(alternatives(nest, first, core))}
    assert len({(f.body, f.params) for f in found.values()}) == len(found)
    for choice, done in found.items():
        packed = {name: pack_array(arrays[name], layout) for name, layout in done.layouts.items()}
        given = {**arrays, **packed, "o": np.full(want.shape, 99, want.dtype)}
        run_loops(done, given)
        np.testing.assert_array_equal(given["o"], plain["o"], err_msg=str(choice))
        problems: list[str] = []
        verify_loops(done, lambda where, message, into=problems: into.append(f"{where}: {message}"))
        assert problems == [], choice
        if done.trace:
            assert replay(loops, done.trace) == done


def test_products_and_windows_have_candidates() -> None:
    for case in (CASES[0], CASES[1], CASES[3]):
        loops, arrays, _ = naive(case, machine_for(DSP))
        known = {"w": [np.maximum(arrays["w"], -127)], "bias": [arrays["bias"]]} if "bias" in arrays else {}
        nest = Nest(loops, known=known)
        assert list(alternatives(nest, schedule_nest(nest, machine_for(DSP)), machine_for(DSP))), case


def fused() -> Module:
    """A pointwise and a depthwise layer, fused."""
    from random_layers import net

    return Fuse().run(Lower().run(net((11, 12))))


def test_a_pass_takes_the_candidate_of_a_number() -> None:
    module, isa = fused(), "+".join(DSP)
    names = candidates_of(module, machine_for(DSP))
    assert all(found[0] == DEFAULT for found in names.values())
    maximum = max(map(len, names.values()))
    taken = [ScheduleLoops(isa, candidate=k).run(module) for k in range(maximum)]
    assert taken[0] == ScheduleLoops(isa).run(module)
    assert len({str(done.loops) for done in taken}) == maximum
    assert ScheduleLoops(isa, candidate=maximum).run(module) == taken[0]


def test_cores_without_candidates_take_what_the_rules_choose() -> None:
    module = fused()
    assert ScheduleLoops("avx2", candidate=1).run(module) == ScheduleLoops("avx2").run(module)


@pytest.mark.emulator
def test_the_benchmark_counts_every_candidate(need_tool) -> None:
    need_tool("qemu-system-arm")
    from random_layers import kind_of
    from schedule_candidates import BEST, measured, summary

    layers = measured(load_board("qemu-cortex-m4"), (11, 12, 13))
    assert [layer.number for layer in layers] == [11, 12]
    assert [kind_of(layer.number) for layer in layers] == ["pointwise", "depthwise"]
    assert all(next(iter(layer.counts)) == str(DEFAULT) and len(layer.counts) > 1 for layer in layers)
    rows = list(summary("m4", layers))
    assert all(row["over"] == 0.0 for row in rows if row["candidate"] == str(DEFAULT))
    assert all(row["over"] <= 0.0 for row in rows if row["candidate"] == BEST)
