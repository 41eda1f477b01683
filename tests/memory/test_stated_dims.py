"""Dims that match_cast and bind bring: plans use their bounds, and what they are told of them, or are refused."""

from __future__ import annotations

import numpy as np
import pytest
from plan_bytes import arena, live_set, points

from sdk.boards import load_board
from sdk.compiler import ops
from sdk.compiler.interp.plan import run_plan
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Plan
from sdk.compiler.ir.text import parse_module
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes, lower_module
from sdk.errors import BuildError, UsageError
from sdk.source import ParseError

HALF = """
module m typed
graph @main<m in 1..4096>(%y: f32[m]) {{
  %a = match_cast(%y) : <s in 1..{maximum}> f32[2*s]
  %z = full() {{dtype = "f32", shape = ([s], 5), value = 1.5}} : f32[s, 5]
  %t = exp(%z) : f32[s, 5]
  %r = softmax(%t) : f32[s, 5]
  %p = transpose(%r) {{perm = (1, 0)}} : f32[5, s]
  %q = softmax(%p) : f32[5, s]
  %o = transpose(%q) {{perm = (1, 0)}} : f32[s, 5]
  return %o
}}
"""
COUNTED = """
module m typed
graph @main<n in 1..100>(%x: f32[n, 3]) {{
  %c = count_nonzero(%x) : i32[1]
{bind}
  %p = nonzero(%x) {{count = [k]}} : i64[2, k]
  %f = cast(%p) {{to = "f32"}} : f32[2, k]
  %e = softmax(%f) : f32[2, k]
  return %e
}}
"""


def planned(text: str) -> Module:
    return lower_module(parse_module(text, ops=ops), default_passes(load_board("host"), BuildOptions()))


def main(text: str) -> Plan:
    return planned(text).plans["main"]


def test_a_stated_relation_is_used() -> None:
    plan = main(HALF.format(maximum=2048))
    at = points([{v: n for v in plan.dims} for n in (2, 50, 1000, 4096)])
    assert plan.fresh
    assert (arena(plan, at) <= 1.1 * live_set(plan, at)).all()
    assert arena(plan, at)[1] < arena(plan, at)[-1] / 4


def test_a_relation_that_the_bounds_cut_counts_at_most() -> None:
    plan = main(HALF.format(maximum=8))
    at = points([{v: n for v in plan.dims} for n in (2, 16, 4096)])
    assert np.ptp(arena(plan, at)) == 0


def test_what_data_tells_counts_at_its_bound() -> None:
    small, large = (main(COUNTED.format(bind=f"  bind k in 0..{maximum} = %c")) for maximum in (10, 300))
    at = [{v: n for v in small.dims} for n in (1, 100)]
    for plan, maximum in ((small, 10), (large, 300)):
        assert (arena(plan, points(at)) >= 8 * maximum).all()
    assert (arena(large, points(at)) > arena(small, points(at))).all()


def test_a_run_outside_the_bounds_ends_with_an_error() -> None:
    module = planned(COUNTED.format(bind="  bind k in 0..10 = %c"))
    assert run_plan(module, "main", {"x": np.eye(3, dtype=np.float32)})
    with pytest.raises(UsageError, match=r"k = 12"):
        run_plan(module, "main", {"x": np.ones((4, 3), np.float32)})


def test_a_stated_dim_needs_bounds() -> None:
    with pytest.raises(ParseError, match="the dim s has no bounds"):
        planned(HALF.format(maximum=8).replace("<s in 1..8>", "<s>"))


def test_a_bound_that_no_arena_holds_is_refused() -> None:
    with pytest.raises(BuildError, match=r"32 bits|at most 2147483647") as error:
        main(COUNTED.format(bind="  bind k in 0..2147483647 = %c"))
    assert "bounds" in str(error.value)


def test_a_dim_that_nothing_tells_is_refused() -> None:
    text = COUNTED.format(bind="  %w = match_cast(%x) : <k in 0..10, j in 0..10> f32[k + j, 3]")
    with pytest.raises(BuildError, match=r"nothing tells the dim|unknown|not told"):
        main(text)
