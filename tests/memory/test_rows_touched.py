"""Which rows a call for some rows touches: by intervals the same as by walking every iteration; and how often."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from sound_plans import SOUND
from test_streams import laid_out, random_cut, random_net, streams_of
from touched import touched

from sdk.boards import load_board
from sdk.compiler.analysis.dependence import row_axis
from sdk.compiler.analysis.rows_touched import rows_touched
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Plan, PlanCall, PlanStmt, Repeat, walk_plan
from sdk.compiler.memory.placed import CallRows, place_of
from sdk.compiler.sym import Var, evaluate
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes, import_model, lower_module


def differences(function: Loops) -> Iterator[str]:
    """Where the rows of a parameter found by intervals are not those found by brute force, call by call for one row;
    and results of which a call for a row leaves elements out."""
    assert function.rows is not None
    extent = function.rows.extent
    if not isinstance(extent, int) or any(
        not isinstance(d, int) for p in function.params for d in p.buffer.shape
    ):
        return
    for row in sorted({0, 1, extent // 2, extent - 1} & set(range(extent))):
        found = touched(function, {}, (row, row + 1))
        for p in (p for p in function.params if p.buffer.shape):
            shape = p.buffer.type.static_shape
            size = math.prod(shape[row_axis(shape) + 1 :])
            for store, flat in ((False, found.reads), (True, found.writes)):
                elements = flat[p.buffer.name]
                if (p.mode == "read") == store or not elements:
                    continue
                wanted = min(elements) // size, max(elements) // size + 1
                got = rows_touched(function, p.buffer.name, {}, (row, row + 1), store)
                if got != wanted:
                    yield f"{function.name} {p.buffer.name} row {row}: {got}, not {wanted}"
                if store and len(elements) < (wanted[1] - wanted[0]) * size:
                    yield f"{function.name} leaves out elements of {p.buffer.name} in row {row}"


@pytest.mark.parametrize("name", ["stream", "streams"])
def test_a_call_without_rows_touches_what_one_for_all_rows_does(name: str) -> None:
    """Rings too: of these no reader of a plan may take such a call for one that touches nothing."""
    module, plan = SOUND[name]()
    places, known, rings = {b.name: place_of(b, {}) for b in plan.buffers}, CallRows(module), 0
    for call in (s for s in walk_plan(plan.body) if isinstance(s, PlanCall) and s.rows is not None):
        function = module.loops[call.callee]
        assert function.rows is not None
        whole = known.at(replace(call, rows=None), {})
        every = known.at(replace(call, rows=(0, evaluate(function.rows.extent, {}))), {})
        for k, p in enumerate(function.params):
            place, store = places[call.args[k]], p.mode != "read"
            found = known.touched(whole, k, place, store)
            assert found == known.touched(every, k, place, store)
            assert p.mode == "update" or found == (0, place.rows)
            rings += p.buffer.ring is not None
    assert rings


@pytest.mark.parametrize("name", ["residual", "stateful", "streams", "overlay"])
def test_naive_loops(name: str) -> None:
    module, _ = SOUND[name]()
    for function in module.loops.values():
        if function.rows is not None:
            assert list(differences(function)) == []


@pytest.mark.parametrize("seed", range(8))
def test_random_nets(seed: int) -> None:
    module, _ = random_net(Random(seed))
    for function in module.loops.values():
        if function.rows is not None:
            assert list(differences(function)) == []


def rows_run(plan: Plan) -> dict[int, list[int]]:
    """By call, the rows that a run computes, in order."""
    env: dict[Var, int] = {}
    out: dict[int, list[int]] = {}

    def body(stmts: tuple[PlanStmt, ...]) -> None:
        for s in stmts:
            if isinstance(s, Repeat):
                for k in range(evaluate(s.lo, env), evaluate(s.hi, env)):
                    env[s.var] = k
                    body(s.body)
            elif isinstance(s, PlanCall) and s.rows is not None:
                out.setdefault(s.index, []).extend(range(evaluate(s.rows[0], env), evaluate(s.rows[1], env)))

    body(plan.body)
    return out


def check_once(module: Module) -> None:
    """Every row of every call is computed once, and none is left out."""
    for plan in module.plans.values():
        calls = {s.index: s for s in walk_plan(plan.body) if isinstance(s, PlanCall)}
        for index, rows in rows_run(plan).items():
            function = module.loops[calls[index].callee]
            assert function.rows is not None
            assert rows == list(range(evaluate(function.rows.extent, {}))), calls[index]


@pytest.mark.parametrize("name", ["nested", "streams", "overlay"])
def test_no_row_is_computed_twice(name: str) -> None:
    check_once(SOUND[name]()[0])


@pytest.mark.parametrize("seed", range(12))
def test_no_row_of_random_streams_is_computed_twice(seed: int) -> None:
    rng = Random(seed)
    module, _ = random_net(rng)
    check_once(laid_out(module, random_cut(streams_of(module, 1), rng)))


@pytest.mark.models
def test_scheduled_kernels_on_rings(models: Path) -> None:
    """The kernels of a streamed model, as a Cortex-M4 runs them."""
    options = BuildOptions(memory="min")
    module = import_model(models / "kws_ref_model.tflite", options, "kws")
    module = lower_module(module, default_passes(load_board("nucleo_l4r5zi"), options))
    kernels = [f for f in module.loops.values() if f.rows is not None]
    check_once(module)
    assert any(p.buffer.ring for f in kernels for p in f.params)
    for function in kernels:
        assert list(differences(function)) == []
