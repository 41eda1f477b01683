"""Conditions in lanes: a mask that is read twice stays in a register, a kept one is bytes of 0 and 1 in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from as_c import Library
from test_random_graphs import PIPELINE

from sdk.compiler import ops
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.text import parse_module
from sdk.compiler.passes.pipeline import parse_pipeline, run_pipeline

GRAPHS = {
    # the mask of is_nan serves two choices: one register of lanes of bool
    "register": """
  %bad = is_nan(%x) : bool[n, 5]
  %size = abs(%x) : f32[n, 5]
  %near = where(%bad, %y, %size) : f32[n, 5]
  %sum = add(%near, %y) : f32[n, 5]
  %o = where(%bad, %x, %sum) : f32[n, 5]
  return %o""",
    # masks of 32 and of 64 bits, and bytes, meet
    "widths": """
  %a = greater(%x, %y) : bool[n, 5]
  %wide = cast(%x) {to = "f64"} : f64[n, 5]
  %other = cast(%y) {to = "f64"} : f64[n, 5]
  %b = less_equal(%wide, %other) : bool[n, 5]
  %c = xor(%a, %b) : bool[n, 5]
  %d = where(%kept, %c, %a) : bool[n, 5]
  %o = where(%d, %x, %y) : f32[n, 5]
  return %o, %d""",
    "memory": """
  %a = equal(%x, %y) : bool[n, 5]
  %b = and(%a, %kept) : bool[n, 5]
  %c = not(%b) : bool[n, 5]
  %o = cast(%c) {to = "f32"} : f32[n, 5]
  return %c, %o""",
    "reduced": """
  %a = greater(%x, %y) : bool[n, 5]
  %b = or(%a, %kept) : bool[n, 5]
  %o = reduce_max(%b) {axes = (1,)} : bool[n, 1]
  %p = reduce_min(%b) {axes = (0,)} : bool[1, 5]
  return %o, %p""",
}


def module(name: str) -> Module:
    head = "%x: f32[n, 5], %y: f32[n, 5]" + (", %kept: bool[n, 5]" if name != "register" else "")
    return parse_module(f"module t typed\n\ngraph @main<n in 1..9>({head}) {{{GRAPHS[name]}\n}}\n", ops=ops)


@pytest.mark.parametrize("name", GRAPHS)
def test_masks(name: str, tmp_path: Path) -> None:
    plain = module(name)
    passes = parse_pipeline(PIPELINE.format(isa="sse2+avx2+fma") + ",plan-memory{io=caller}")
    done = run_pipeline(plain, passes)
    assert any("boolx" in str(f.trace) or "vectorize" in str(f.trace) for f in done.loops.values())
    library = Library({name: done}, tmp_path)
    rng = np.random.default_rng(5)
    for n in range(1, 10):
        x, y = (rng.integers(-2, 3, (n, 5)).astype(np.float32) for _ in range(2))
        x[rng.random(x.shape) < 0.2] = np.nan
        inputs = {"x": x, "y": y} | ({"kept": rng.random((n, 5)) < 0.5} if name != "register" else {})
        got = library.run(name, done, inputs, {"n": n})
        want = run_graph(plain, "main", inputs)
        assert [v.dtype for v in got.values()] == [v.dtype for v in want.values()]
        for a, b in zip(got.values(), want.values(), strict=True):
            np.testing.assert_array_equal(a, b, err_msg=f"{name} at {n}")


def test_a_choice_between_whole_vectors_of_bools(tmp_path: Path) -> None:
    """32 lanes of one bit are no packed word."""
    head = "%k: bool[3, 64], %a: bool[3, 64], %b: bool[3, 64]"
    body = "  %o = where(%k, %a, %b) : bool[3, 64]\n  return %o"
    plain = parse_module(f"module t typed\n\ngraph @main({head}) {{\n{body}\n}}\n", ops=ops)
    done = run_pipeline(plain, parse_pipeline(PIPELINE.format(isa="sse2+avx2+fma") + ",plan-memory{io=caller}"))
    rng = np.random.default_rng(6)
    inputs = {name: rng.random((3, 64)) < 0.5 for name in "kab"}
    got = Library({"chosen": done}, tmp_path).run("chosen", done, inputs, {})
    np.testing.assert_array_equal(got["o"], np.where(inputs["k"], inputs["a"], inputs["b"]))
