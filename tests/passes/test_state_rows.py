"""Writes of rows of states through the graph passes: positions are uses of dims, and calls are inlined with theirs."""

from __future__ import annotations

import numpy as np
import pytest

from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.compiler.interp.plan import run_plan
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.text import parse_module, print_module
from sdk.compiler.ops import registry
from sdk.compiler.passes.cleanup import Cleanup
from sdk.compiler.passes.inline import Inline
from sdk.compiler.passes.lower import Lower
from sdk.compiler.passes.plan_memory import PlanMemory
from sdk.compiler.passes.schedule import ScheduleLoops
from sdk.compiler.verify.module import check, verify
from sdk.compiler.verify.plan import check_plan
from sdk.errors import BuildError, UsageError
from tests.ir.round_trip import check_round_trip

LAYERS = """module m typed

state @a<cap in 2..9>: f32[cap, 3] ring(0) = 0
state @b<cap in 2..9>: f32[3, cap] ring(1) = 1

graph @main<p in 0..50, cap in 2..9>(%x: f32[1, 3], %count: i32[1]) {
  bind where in 0..60 = %count
  %y = graph @put(%x, %count) : f32[cap, 3]
  %t = reshape(%x) {shape = (3, 1)} : f32[3, 1]
  write @b[p + where] = %t
  %now = read @b : f32[3, cap]
  return %y, %now
}

internal graph @put<p in 0..50, cap in 2..9>(%x: f32[1, 3], %count: i32[1]) {
  bind where in 0..60 = %count
  write @a[2*where + p] = %x
  %all = read @a : f32[cap, 3]
  return %all
}
"""


def read(text: str) -> Module:
    module = parse_module(text, ops=registry)
    check(module, registry)
    return module


def compiled(module: Module) -> Module:
    for step in (Inline(), Cleanup(), Lower(), Cleanup(), ScheduleLoops("avx2"), Cleanup(), PlanMemory("caller")):
        module = step.run(module)
        check(module, registry)
        check_round_trip(module)
    for plan in module.plans.values():
        check_plan(module, plan)
    return module


@pytest.mark.parametrize("cap", [2, 5, 9])
def test_positions_go_through_inlining_and_cleanup(cap: int) -> None:
    module = read(LAYERS)
    inlined = Cleanup().run(Inline().run(module))
    assert "write @a[p + 2*where_2] = %x" in print_module(inlined)
    planned = compiled(module)
    rng = np.random.default_rng(cap)
    for p in (0, 3, 50):
        x = {"x": rng.standard_normal((1, 3)).astype(np.float32), "count": np.array([p + 1], np.int32)}
        want = run_graph(module, "main", x, initial_states(module, {"cap": cap}), {"p": p})
        got = run_plan(planned, "main", x, None, {"p": p, "cap": cap})
        for name, value in want.items():
            np.testing.assert_array_equal(got[name], value)


def test_rows_of_the_state_itself_are_copied_first() -> None:
    module = read(
        "module m typed\nstate @s: f32[4, 2] plain(0) = @w\n"
        "const @w: f32[4, 2] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]\n"
        "graph @main<at in 0..2>(%x: f32[2, 2]) {\n  %old = read @s : f32[4, 2]\n"
        "  %some = slice(%old) {begin = (0, 0), size = (2, 2), strides = (1, 1)} : f32[2, 2]\n"
        "  write @s[at] = %some\n  write @s[2] = %x\n  write @s[0] = %old\n"
        "  %now = read @s : f32[4, 2]\n  return %now, %old\n}\n"
    )
    planned = compiled(module)
    x = {"x": np.full((2, 2), 9, np.float32)}
    for at in range(3):
        want = run_graph(module, "main", x, None, {"at": at})
        got = run_plan(planned, "main", x, None, {"at": at})
        for name, value in want.items():
            np.testing.assert_array_equal(got[name], value)
            np.testing.assert_array_equal(value, np.arange(8, dtype=np.float32).reshape(4, 2))


def test_dims_bound_at_init_have_bounds() -> None:
    module = read(LAYERS)
    assert initial_states(module)["a"].shape == (9, 3)
    with pytest.raises(UsageError, match=r"cap = 10, outside its bounds 2\.\.9"):
        initial_states(module, {"cap": 10})
    x = {"x": np.zeros((1, 3), np.float32), "count": np.zeros(1, np.int32)}
    states = initial_states(module, {"cap": 4})
    states["b"] = states["b"][:, :3]
    with pytest.raises(UsageError, match="'b' has 3 elements on axis 1, the model wants 4"):
        run_graph(module, "main", x, states, {"p": 0})


def test_one_range_for_the_module() -> None:
    module = parse_module(LAYERS.replace("@b<cap in 2..9>", "@b<cap in 2..8>"), ops=registry)
    assert any("the dim cap has two ranges in the types of states" in str(d) for d in verify(module, registry))


def test_row_numbers_fit_32_bits() -> None:
    module = parse_module(LAYERS.replace("p in 0..50", f"p in 0..{(1 << 31) // 3 - 100}"), ops=registry)
    with pytest.raises(BuildError, match="may not fit 32 bits"):
        Lower().run(module)
