"""Dims that a run computes, and shapes that it checks: in the graph, the plan, C and what an agent shows of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from c_model import CModel, files_of, load

from sdk.compiler import ops
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.interp.plan import run_plan
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Bind, Check
from sdk.compiler.ir.text import parse_module, print_module
from sdk.compiler.passes.pipeline import parse_pipeline, run_pipeline
from sdk.compiler.verify.module import check, verify
from sdk.compiler.verify.plan import check_plan
from sdk.errors import BuildError, UsageError
from tests.ir.round_trip import check_round_trip

CHOSEN = """
module net typed
graph @main<n in 1..9>(%x: f32[n, 2], %y: f32[4]) {
  %c = count_nonzero(%x) : i32[1]
  bind k in 0..6 = %c from "NonZero found"
  %p = nonzero(%x) {count = [k]} : i64[2, k]
  %f = cast(%p) {to = "f32"} : f32[2, k]
  %t = transpose(%f) {perm = (1, 0)} : f32[k, 2]
  %s = relu(%t) : f32[k, 2]
  return %p, %s
}
"""
STATED = """
module net typed
graph @main<n in 1..12 multiple 2, m in 1..12>(%x: f32[n, 3], %y: f32[m]) {
  %a = match_cast(%x) : <h in 1..4> f32[2*h, 3]
  %b = match_cast(%y) : f32[h]
  %c = relu(%b) : f32[h]
  %d = relu(%a) : f32[2*h, 3]
  return %c, %d
}
"""


def build(text: str, io: str = "caller") -> tuple[Module, Module]:
    module = parse_module(text, ops=ops)
    check(module, ops)
    done = run_pipeline(module, parse_pipeline(f"inline,cleanup,lower,fuse,cleanup,plan-memory{{io={io}}}"))
    check(done, ops)
    for plan in done.plans.values():
        check_plan(done, plan)
    check_round_trip(done)
    return module, done


def sparse(n: int, count: int) -> np.ndarray:
    x = np.zeros(2 * n, np.float32)
    x[np.random.default_rng(count).permutation(2 * n)[:count]] = 1.5
    return x.reshape(n, 2)


@pytest.mark.parametrize("io", ["caller", "arena"])
def test_results_as_large_as_the_data_say(io: str, tmp_path: Path) -> None:
    module, done = build(CHOSEN, io)
    model = CModel(load(files_of(done), tmp_path), "net")
    for n, count in ((5, 3), (1, 0), (9, 6), (4, 1)):
        inputs = {"x": sparse(n, count), "y": np.zeros(4, np.float32)}
        want = run_graph(module, "main", inputs)
        assert want["p"].shape == (2, count)
        np.testing.assert_array_equal(run_plan(done, "main", inputs)["s"], want["s"])
        assert model.run(inputs, [n]) == 0
        got = model.outputs()
        assert got["dim k"].tolist() == [count]
        for name in ("p", "s"):
            np.testing.assert_array_equal(got[name][: want[name].size].reshape(want[name].shape), want[name])


def test_more_than_the_bound_is_an_error_of_its_own(tmp_path: Path) -> None:
    module, done = build(CHOSEN)
    inputs = {"x": sparse(7, 7), "y": np.zeros(4, np.float32)}
    for run in (lambda: run_graph(module, "main", inputs), lambda: run_plan(done, "main", inputs)):
        with pytest.raises(UsageError, match=r"makes k = 7, outside its bounds 0\.\.6"):
            run()
    files = files_of(done)
    assert "NET_E_DIM_K = -17" in files["net.h"]
    assert CModel(load(files, tmp_path), "net").run(inputs, [7]) == -2  # the agent's word for any dim


def test_what_no_proof_gives_is_checked_before_any_work(tmp_path: Path) -> None:
    module, done = build(STATED)
    (plan,) = done.plans.values()
    assert [type(s) for s in plan.body[:2]] == [Bind, Check]
    model = CModel(load(files_of(done), tmp_path), "net")
    for n, m, good in ((4, 2, True), (8, 4, True), (2, 1, True), (4, 3, False), (10, 5, False)):
        inputs = {"x": np.ones((n, 3), np.float32), "y": np.ones(m, np.float32)}
        assert (model.run(inputs, [n, m]) == 0) == good
        if good:
            assert run_plan(done, "main", inputs)["c"].shape == (n // 2,)
            assert model.outputs()["dim h"].tolist() == [n // 2]
        else:
            with pytest.raises(UsageError, match=r"match_cast|makes h = 5"):
                run_graph(module, "main", inputs)
            with pytest.raises(UsageError, match="match_cast"):
                run_plan(done, "main", inputs)


def test_error_codes_name_what_they_are_about() -> None:
    _, done = build(STATED)
    header = files_of(done)["net.h"]
    assert "NET_E_DIM_H = -18, /* h is not in 1..4 */" in header
    assert "NET_E_CHECK_0 = -19 /* match_cast %b axis 0: m is not h */" in header


def test_a_dim_that_nothing_tells_is_refused() -> None:
    text = CHOSEN.replace('  bind k in 0..6 = %c from "NonZero found"\n', "").replace(
        "%p = nonzero(%x) {count = [k]} : i64[2, k]", '%p = extern "find"(%x) : <k in 0..6> i64[2, k]'
    )
    with pytest.raises(BuildError, match="nothing tells the dim k of %p at run time"):
        build(text)


def test_dead_dims_go_with_what_they_were_for() -> None:
    text = CHOSEN.replace("return %p, %s", "%u = relu(%y) : f32[4]\n  return %u")
    _, done = build(text)
    (plan,) = done.plans.values()
    assert plan.fresh == ()
    assert len(plan.body) == 1


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("bind k = %c", "bind k = n", "the dim k has no value here"),
        ("call 1 @nonzero", "bind k = n\n  call 1 @nonzero", "the dim k is bound twice"),
        ("at p[0]", "at p[8*k]", "depends on a dim that the run computes"),
    ],
)
def test_the_verifier_sees_dims_without_value(old: str, new: str, finding: str) -> None:
    _, done = build(CHOSEN)
    text = print_module(done)
    if new == "bind k = n":  # used before
        lines = text.split("\n")
        at = next(k for k, line in enumerate(lines) if "bind k" in line)
        lines[at], lines[at + 1] = lines[at + 1], lines[at]
        text = "\n".join(lines)
    assert old in text or new == "bind k = n"
    module = parse_module(text.replace(old, new) if new != "bind k = n" else text, ops=ops)
    assert verify(module, ops) == []
    (plan,) = module.plans.values()
    with pytest.raises(BuildError, match=finding):
        check_plan(module, plan)
