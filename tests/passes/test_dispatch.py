"""Library calls by patterns: the symbol of a C library is called with its buffers and dims, the rest is compiled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from as_c import Library, agree

from sdk.compiler import ops
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.text import parse_module
from sdk.compiler.passes.dispatch import Dispatch
from sdk.compiler.passes.pipeline import parse_pipeline, run_pipeline
from sdk.compiler.verify.module import check
from sdk.compiler.verify.plan import check_plan
from sdk.errors import BuildError

PATTERNS = """
internal graph @lib_gate<r in 1..4096, d in 1..64>(%x: f32[r, d], %by: f32[]) {
  %s = mul(%x, %by) : f32[r, d]
  %a = sigmoid(%s) : f32[r, d]
  %b = mul(%x, %a) : f32[r, d]
  return %b
}
internal graph @lib_stats<r in 1..64, d in 1..64>(%x: f32[r, d]) {
  %m = reduce_mean(%x) {axes = (1,)} : f32[r, 1]
  %c = sub(%x, %m) : f32[r, d]
  return %m, %c
}
"""
MODEL = f"""
module m typed
const @by: f32[] = [1.5]
{PATTERNS}
graph @main<n in 1..9>(%x: f32[n, 6], %w: f32[6, 4]) {{
  %y = matmul(%x, %w) : f32[n, 4]
  %s = mul(%y, @by) : f32[n, 4]
  %e = sigmoid(%s) : f32[n, 4]
  %g = mul(%y, %e) : f32[n, 4]
  %m = reduce_mean(%g) {{axes = (1,)}} : f32[n, 1]
  %c = sub(%g, %m) : f32[n, 4]
  %r = relu(%c) : f32[n, 4]
  return %r, %m
}}
"""
LIBRARY = """
#include <math.h>
void lib_gate(const float *x, const float *by, float *o, int32_t r, int32_t d) {
    for (int32_t i = 0; i < r * d; ++i) {
        o[i] = x[i] / (1.0f + expf(-x[i] * by[0]));
    }
}
void lib_stats(const float *x, float *m, float *o, int32_t r, int32_t d) {
    for (int32_t i = 0; i < r; ++i) {
        float sum = 0.0f;
        for (int32_t j = 0; j < d; ++j) {
            sum += x[i * d + j];
        }
        m[i] = sum / (float)d;
        for (int32_t j = 0; j < d; ++j) {
            o[i * d + j] = x[i * d + j] - m[i];
        }
    }
}
"""


def planned(text: str, io: str) -> tuple[Module, Module]:
    module = parse_module(text, ops=ops)
    check(module, ops)
    found = Dispatch().run(module)
    check(found, ops)
    done = run_pipeline(found, parse_pipeline(f"inline,cleanup,lower,fuse,schedule,cleanup,plan-memory{{io={io}}}"))
    check(done, ops)
    for plan in done.plans.values():
        check_plan(done, plan)
    return found, done


@pytest.mark.parametrize("io", ["caller", "arena"])
def test_symbols_of_a_c_library_compute_their_part(io: str, tmp_path: Path) -> None:
    module = parse_module(MODEL, ops=ops)
    found, done = planned(MODEL, io)
    library = Library({"net": done}, tmp_path, LIBRARY)
    for n in (1, 5, 9):
        rng = np.random.default_rng(n)
        inputs = {"x": rng.standard_normal((n, 6)), "w": rng.standard_normal((6, 4))}
        inputs = {k: v.astype(np.float32) for k, v in inputs.items()}
        want = run_graph(module, "main", inputs)
        agree(run_graph(found, "main", inputs), want, "the patterns say what the symbols compute")
        agree(library.run("net", done, inputs, {"n": n}), want, f"C at {n}")


def test_a_symbol_keeps_one_signature_wherever_its_buffers_lie(tmp_path: Path) -> None:
    text = f"""
module m typed
const @by: f32[] = [0.5]
{PATTERNS}
graph @main(%x: f32[2, 3]) {{
  %s = mul(%x, @by) : f32[2, 3]
  %e = sigmoid(%s) : f32[2, 3]
  %g = mul(%x, %e) : f32[2, 3]
  %t = mul(%g, @by) : f32[2, 3]
  %f = sigmoid(%t) : f32[2, 3]
  %h = mul(%g, %f) : f32[2, 3]
  return %h
}}
"""
    module = parse_module(text, ops=ops)
    _, done = planned(text, "caller")
    inputs = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    got = Library({"net": done}, tmp_path, LIBRARY).run("net", done, inputs, {})
    agree(got, run_graph(module, "main", inputs), "two calls")


@pytest.mark.parametrize(
    ("body", "results", "words"),
    [
        ("%a = relu(%x) : f32[r]\n  %b = neg(%x) : f32[r]", "%b", "every op of a pattern leads to its last one"),
        ("%a = read @s : f32[r]", "%a", "a pattern holds calls of ops alone"),
        ("%a = relu(%x) : f32[r]", "%x", "the results of a pattern are computed in it"),
    ],
)
def test_patterns_that_are_none_are_refused(body: str, results: str, words: str) -> None:
    text = f"""
module m typed
internal graph @lib<r in 1..8>(%x: f32[r]) {{
  {body}
  return {results}
}}
graph @main(%x: f32[4]) {{
  %y = relu(%x) : f32[4]
  return %y
}}
"""
    with pytest.raises(BuildError, match=words):
        Dispatch().run(parse_module(text))


def test_an_unknown_symbol_is_refused() -> None:
    with pytest.raises(BuildError, match="no pattern for the symbol nothing"):
        Dispatch(symbols="nothing").run(parse_module(MODEL, ops=ops))
