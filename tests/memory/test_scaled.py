"""Offsets that follow the dims: the closed form against a recomputation, and never above the fixed plan."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_nets import Net
from plan_bytes import arena, stacked
from plan_bytes import points as at_points

from sdk.compiler.interp.plan import run_plan
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import F32
from sdk.compiler.memory.planner import placements
from sdk.compiler.memory.problem import Block
from sdk.compiler.memory.report import plan_summary
from sdk.compiler.memory.scaled import scaled
from sdk.compiler.memory.scaled_choice import best_scaled
from sdk.compiler.passes.plan_memory import PlanMemory
from sdk.compiler.sym import Dim, Var, evaluate, floordiv
from sdk.compiler.verify.plan import verify_plan
from sdk.compiler.verify.plan_covered import Covered
from tests.ir.round_trip import check_round_trip

N = Var("n", 1, 50)
M = Var("m", 3, 40)


def scheduled() -> Module:
    """Sizes that are linear, products and squares of two dims: no order of ends holds everywhere."""
    net = Net()
    net.dims = (N, M)
    x, y = net.input("x", N.expr, 9, dtype=F32), net.input("y", M.expr, 9, dtype=F32)
    a = net.op("matmul", x, y, name="a", trans_b=True)
    b = net.op("softmax", a, name="b")
    c = net.op("matmul", b, y, name="c")
    d = net.op("matmul", y, x, name="d", trans_b=True)
    e = net.op("add", net.op("matmul", a, d, name="f"), net.op("matmul", b, d, name="ff"), name="e")
    return net.module(c, net.op("matmul", e, x, name="g"))


def both(io: str = "arena") -> tuple[Module, Module]:
    module = scheduled()
    return tuple(PlanMemory(io=io, offsets=o).run(module) for o in ("fixed", "scaled"))  # type: ignore[return-value]


def points(count: int) -> list[dict[Var, int]]:
    rng = Random(3)
    return [{N: rng.randint(1, 50), M: rng.randint(3, 40)} for _ in range(count)]


def test_the_closed_form_is_what_the_plan_needs() -> None:
    fixed, module = both()
    plan, old = module.plans["main"], fixed.plans["main"]
    maximum = old.region("arena").bytes
    assert isinstance(maximum, int)
    assert verify_plan(module, plan) == []
    assert plan_summary(module, plan).peak == maximum
    at = at_points([*points(20), {N: 50, M: 40}, {N: 1, M: 3}])
    assert (arena(plan, at) == stacked(plan, at, 16)).all()
    assert (arena(plan, at) <= maximum).all()
    assert evaluate(plan.region("arena").bytes, plan.placed({N: 1, M: 3})) < maximum // 20


def test_text_round_trip() -> None:
    module = both()[1]
    assert "place at_0 in 0.." in check_round_trip(module)


@pytest.mark.parametrize("io", ["arena", "caller"])
def test_interpreter_agrees(io: str) -> None:
    fixed, module = both(io)
    rng = np.random.default_rng(0)
    for env in [*points(3), {N: 50, M: 40}]:
        inputs = {
            "x": rng.standard_normal((env[N], 9)).astype(np.float32),
            "y": rng.standard_normal((env[M], 9)).astype(np.float32),
        }
        want, got = (run_plan(m, "main", inputs) for m in (fixed, module))
        for name, value in want.items():
            np.testing.assert_array_equal(got[name], value)


def test_wrong_places_are_found() -> None:
    module = both()[1]
    plan = module.plans["main"]
    (last, value) = plan.places[-1]
    smaller = replace(plan, places=(*plan.places[:-1], (last, value - 16)))
    found = verify_plan(module, smaller)
    assert any("not proved to" in d.message for d in found)
    early = replace(plan, places=plan.places[::-1])
    assert any("has no value before it" in d.message for d in verify_plan(module, early))
    narrow = Var(last.name, 0, 16, 16)
    cut = replace(plan, places=(*plan.places[:-1], (narrow, value)))
    assert any("not proved to be in 0..16" in d.message for d in verify_plan(module, cut))


def test_rounding_up_is_covered() -> None:
    big, other = Var("b", 1, 1 << 20), Var("c", 1, 1 << 9)
    size = big.expr * other.expr * 3
    room = 16 * floordiv(size + 15, 16)
    assert Covered(room, {}).holds(size)
    assert not Covered(room, {}).holds(size + 16)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4), st.integers(0, 40), st.integers(0, 3)), min_size=1))
def test_random_blocks(rows: list[tuple[int, int, int, int]]) -> None:
    sizes: dict[str, Dim] = {f"b{k}": N.expr * c + M.expr * q + 1 for k, (_, _, c, q) in enumerate(rows)}
    top = {N: N.hi, M: M.hi}
    blocks = [
        Block(f"b{k}", evaluate(sizes[f"b{k}"], top), first, first + more, 64 if k % 3 == 0 else 16)
        for k, (first, more, _, _) in enumerate(rows)
    ]
    placement = best_scaled(placements(blocks), blocks, sizes)
    closed_form = scaled(blocks, sizes, placement)
    covered = Covered(closed_form.bytes, dict(closed_form.places))
    assert all(covered.holds(closed_form.offsets[b.name] + sizes[b.name]) for b in blocks)
    for env in [top, *points(5)]:
        known = dict(env)
        for var, value in closed_form.places:
            known[var] = evaluate(value, known)
            assert known[var] % 16 == 0
            assert known[var] <= var.hi
        at = {b.name: evaluate(closed_form.offsets[b.name], known) for b in blocks}
        for k, a in enumerate(blocks):
            assert at[a.name] <= placement.offsets[a.name]
            for b in blocks[:k]:
                if a.first <= b.last and b.first <= a.last:
                    apart = at[a.name] + evaluate(sizes[a.name], env) <= at[b.name]
                    assert apart or at[b.name] + evaluate(sizes[b.name], env) <= at[a.name]
