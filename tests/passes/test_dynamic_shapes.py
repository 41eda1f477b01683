"""Graphs with symbolic shapes of the kinds that compilers get wrong, through every pass, as plan and as C.

Each was a fault of a compiler for dynamic shapes: dims used only in the shape of a result, in an attribute or inside
a function, dims that no argument carries alone, shapes computed as data, several results.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from as_c import Library, agree

from sdk.compiler import ops
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.interp.plan import run_plan
from sdk.compiler.ir.graph import BindDim, Call
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.text import parse_module
from sdk.compiler.passes.pipeline import parse_pipeline
from sdk.compiler.verify.module import check
from sdk.compiler.verify.plan import check_plan
from tests.ir.round_trip import check_round_trip

PASSES = (
    "inline,fold,fold-pad,canonicalize,cleanup,lower,fuse,simplify-loops,schedule{isa=avx2},simplify-loops,cleanup,"
    "plan-memory{io=caller}"
)
Arrays = dict[str, np.ndarray]


def through(text: str, inputs: list[tuple[Arrays, dict[str, int]]], folder: Path) -> dict[str, Module]:
    """The module after each pass, having checked that every one agrees with the first on ``inputs``."""
    module = parse_module(text, ops=ops)
    check(module, ops)
    want = [run_graph(module, "main", x, dims=dims) for x, dims in inputs]
    after = {"": module}
    for step in parse_pipeline(PASSES):
        module = step.run(module)
        check(module, ops)
        after[step.name] = module
        check_round_trip(module)
        for (x, dims), w in zip(inputs, want, strict=True):
            if module.graphs:
                agree(run_graph(module, "main", x, dims=dims), w, step.name)
    (plan,) = module.plans.values()
    check_plan(module, plan)
    library = Library({"net": module}, folder)
    for (x, dims), w in zip(inputs, want, strict=True):
        agree(run_plan(module, "main", x, dims=dims), w, "plan")
        values = {v.name: dims[v.name] for v in plan.dims if v.name in dims}
        for name in plan.inputs:
            shape = plan.buffer(name).type.shape
            values |= {str(d): n for d, n in zip(shape, x[name].shape, strict=True) if not isinstance(d, int)}
        agree(library.run("net", module, x, values), w, "C")
    return after


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def calls(module: Module) -> list[str]:
    return [n.callee for n in module.graphs["main"].body if isinstance(n, Call)]


def test_a_result_whose_dim_is_bound_between_its_producer_and_its_place(tmp_path: Path) -> None:
    """Fusing the first branch with the end must not move the second before its dim has a value."""
    text = """
module m typed
graph @main<n in 1..8>(%x: f32[n, 8], %flags: i32[n]) {
  %first = relu(%x) : f32[n, 8]
  %c = count_nonzero(%flags) : i32[1]
  bind s in 0..8 = %c
  %second = full() {dtype = "f32", shape = ([s], 8), value = 2.0} : f32[s, 8]
  %third = neg(%second) : f32[s, 8]
  %t = concat(%third, %first) {axis = 0} : f32[s + n, 8]
  %y = abs(%t) : f32[s + n, 8]
  return %y
}
"""
    cases = [({"x": floats(n, 8), "flags": (np.arange(n) % 3).astype(np.int32)}, {}) for n in (1, 4, 8)]
    after = through(text, cases, tmp_path)
    body = after["fuse"].graphs["main"].body
    at = next(k for k, n in enumerate(body) if isinstance(n, BindDim))
    assert all("s" not in str(n.out.type.shape) for n in body[:at] if isinstance(n, Call))


def test_a_stated_shape_that_only_a_later_result_uses(tmp_path: Path) -> None:
    text = """
module m typed
graph @main<n in 1..8, m in 1..16>(%x: f32[n, 2], %y: f32[m]) {
  %a = match_cast(%y) : <s in 1..8> f32[2*s]
  %one = neg(%x) : f32[n, 2]
  %z = full() {dtype = "f32", shape = ([s], 2), value = 1.5} : f32[s, 2]
  %w = match_cast(%one) : f32[s, 2]
  %r = add(%z, %w) : f32[s, 2]
  return %r
}
"""
    through(text, [({"x": floats(n, 2), "y": floats(2 * n)}, {}) for n in (1, 3, 8)], tmp_path)


def test_a_fused_function_whose_dims_no_argument_has_alone(tmp_path: Path) -> None:
    """Strided convolutions leave floordiv(h + 1, 2) and the like; the kernel needs h itself."""
    text = """
module m typed
const @w: f32[2, 3, 3, 1] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5]
const @b: f32[2] = [0.5, -0.5]
const @v: f32[1, 3, 3, 2] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9]
const @c: f32[1] = [0.25]
graph @main<h in 4..16, w in 4..16>(%x: f32[1, h, w, 1]) {
  %a = conv2d(%x, @w, @b) {dilation = (1, 1), groups = 1, pad = (1, 1, 1, 1), stride = (2, 2)} : f32[1, floordiv(h + 1, 2), floordiv(w + 1, 2), 2]
  %d = conv2d(%a, @v, @c) {dilation = (1, 1), groups = 1, pad = (1, 1, 1, 1), stride = (2, 2)} : f32[1, floordiv(h + 3, 4), floordiv(w + 3, 4), 1]
  %e = add(%d, @c) : f32[1, floordiv(h + 3, 4), floordiv(w + 3, 4), 1]
  %y = relu(%e) : f32[1, floordiv(h + 3, 4), floordiv(w + 3, 4), 1]
  return %y
}
"""  # noqa: E501
    after = through(text, [({"x": floats(1, h, w, 1)}, {}) for h, w in ((4, 4), (7, 5), (16, 13))], tmp_path)
    assert len(calls(after["fuse"])) == 2


def test_shapes_as_data_are_no_constants(tmp_path: Path) -> None:
    text = """
module m typed
const @one: i32[1] = [1]
graph @main<n in 1..9>(%x: f32[n, 4]) {
  %rows = full() {dtype = "i32", shape = (1,), value = [n]} : i32[1]
  %more = add(%rows, @one) : i32[1]
  %wide = cast(%more) {to = "f32"} : f32[1]
  %flat = reshape(%x) {shape = ([4*n],)} : f32[4*n]
  %y = div(%flat, %wide) : f32[4*n]
  %ramp = iota() {dtype = "f32", extent = [4*n], start = [n], step = 1} : f32[4*n]
  %z = mul(%y, %ramp) : f32[4*n]
  return %z, %more
}
"""
    after = through(text, [({"x": floats(n, 4)}, {}) for n in (1, 2, 9)], tmp_path)
    assert "cast" in calls(after["fold"])


def test_a_dim_that_only_the_inside_of_a_function_uses(tmp_path: Path) -> None:
    """Position and length stand in no shape; both functions come from the user, with names of their own."""
    text = """
module m scheduled
graph @main<n in 1..8, pos in 0..20>(%x: f32[n, 4]) {
  %a = @shift(%x) : f32[n, 4]
  %b = @halve(%a) : f32[n, 4]
  return %b
}
loops @shift<pos in 0..20, rows in 1..64>(read %x: f32[rows, 4], write %o: f32[rows, 4]) {
  for i in 0..rows {
    for j in 0..4 {
      %o[i, j] = %x[i, j] + f32(pos + i)
    }
  }
}
loops @halve<i in 1..64, d in 1..4>(read %x: f32[i, d], write %o: f32[i, d]) {
  for a in 0..i {
    for b in 0..d {
      %o[a, b] = %x[a, b] * 0.5
    }
  }
}
"""
    module = parse_module(text, ops=ops)
    check(module, ops)
    x = {"x": floats(3, 4)}
    want = run_graph(module, "main", x, dims={"pos": 7})
    for step in parse_pipeline("fuse,simplify-loops,schedule{isa=avx2},cleanup"):
        module = step.run(module)
        check(module, ops)
        agree(run_graph(module, "main", x, dims={"pos": 7}), want, step.name)
    assert len(calls(module)) == 1
    module = parse_pipeline("plan-memory{io=caller}")[0].run(module)
    check_plan(module, module.plans["main"])
    agree(run_plan(module, "main", x, dims={"pos": 7}), want, "plan")
    agree(Library({"net": module}, tmp_path).run("net", module, x, {"n": 3, "pos": 7}), want, "C")


def test_one_function_called_at_several_dims_is_merged_for_each(tmp_path: Path) -> None:
    text = """
module m typed
graph @main<n in 1..6, m in 1..6>(%x: f32[n, 3], %y: f32[m, 3]) {
  %a = sigmoid(%x) : f32[n, 3]
  %b = mul(%x, %a) : f32[n, 3]
  %c = sigmoid(%y) : f32[m, 3]
  %d = mul(%y, %c) : f32[m, 3]
  %e = slice(%x) {begin = (0, 1), size = ([n], 2), strides = (1, 1)} : f32[n, 2]
  %f = cast(%e) {to = "f16"} : f16[n, 2]
  %g = cast(%f) {to = "f32"} : f32[n, 2]
  return %b, %d, %g
}
"""
    after = through(text, [({"x": floats(n, 3), "y": floats(m, 3)}, {}) for n, m in ((1, 6), (4, 2))], tmp_path)
    assert len(calls(after["fuse"])) == 3


def test_shapes_that_are_equal_in_another_form_are_merged(tmp_path: Path) -> None:
    text = """
module m typed
graph @main<n in 2..16 multiple 2>(%x: f32[n], %y: f32[2*floordiv(n, 2)]) {
  %a = neg(%x) : f32[n]
  %b = match_cast(%a) : f32[2*floordiv(n, 2)]
  %c = add(%b, %y) : f32[2*floordiv(n, 2)]
  return %c
}
"""
    through(text, [({"x": floats(n), "y": floats(n)}, {}) for n in (2, 16)], tmp_path)


def test_several_results_and_shared_constants(tmp_path: Path) -> None:
    text = """
module m typed
const @k: f32[4] = [1, 2, 3, 4]
graph @main<n in 1..6>(%x: f32[n, 4]) {
  %a = mul(%x, @k) : f32[n, 4]
  %b = add(%a, @k) : f32[n, 4]
  %c = relu(%b) : f32[n, 4]
  %v, %i = topk(%c) {axis = 1, k = 2, largest = true} : f32[n, 2], i64[n, 2]
  %d = neg(%v) : f32[n, 2]
  return %b, %c, %d, %i
}
"""
    after = through(text, [({"x": floats(n, 4)}, {}) for n in (1, 6)], tmp_path)
    assert len(calls(after["fuse"])) == 4  # what is a result is computed by itself, topk with what follows it is not


def test_unused_statements_of_dims_stay_where_a_dim_is_used() -> None:
    text = """
module m typed
graph @main<m in 1..16>(%y: f32[m]) {
  %a = match_cast(%y) : <s in 1..8> f32[2*s]
  %z = full() {dtype = "f32", shape = ([s], 2), value = 1.5} : f32[s, 2]
  return %z
}
"""
    module = parse_module(text, ops=ops)
    for step in parse_pipeline("cleanup,lower,cleanup"):
        module = step.run(module)
        check(module, ops)
    assert run_graph(module, "main", {"y": floats(6)})["z"].shape == (3, 2)


@pytest.mark.parametrize("extent", [0, 1])
def test_results_without_elements(extent: int, tmp_path: Path) -> None:
    text = """
module m typed
graph @main<n in 1..4>(%x: f32[n, 3]) {
  %c = count_nonzero(%x) : i32[1]
  bind k in 0..12 = %c
  %p = nonzero(%x) {count = [k]} : i64[2, k]
  %f = cast(%p) {to = "f32"} : f32[2, k]
  %e = exp(%f) : f32[2, k]
  %m = reduce_max(%e) {axes = (0,)} : f32[1, k]
  %s = sub(%e, %m) : f32[2, k]
  return %s
}
"""
    x = np.zeros((2, 3), np.float32)
    x[0, :extent] = 1
    through(text, [({"x": x}, {})], tmp_path)


def test_graphs_that_call_graphs_with_relations_between_their_dims(tmp_path: Path) -> None:
    text = """
module m typed
internal graph @halves<m in 2..32 multiple 2>(%a: f32[m, 2]) {
  %t = slice(%a) {begin = (0, 0), size = ([floordiv(m, 2)], 2), strides = (1, 1)} : f32[floordiv(m, 2), 2]
  %s = slice(%a) {begin = ([floordiv(m, 2)], 0), size = ([floordiv(m, 2)], 2), strides = (1, 1)} : f32[floordiv(m, 2), 2]
  %z = neg(%s) : f32[floordiv(m, 2), 2]
  return %t, %z
}
internal graph @turn<h in 1..16>(%a: f32[2*h, 2]) {
  %p, %q = graph @halves(%a) : f32[h, 2], f32[h, 2]
  %r = concat(%q, %p) {axis = 0} : f32[2*h, 2]
  return %r
}
graph @main<n in 1..4, m in 1..4>(%x: f32[2*n*m, 2], %n: i32[n], %m: i32[m]) {
  %y = graph @turn(%x) : f32[2*n*m, 2]
  %z = graph @turn(%y) : f32[2*n*m, 2]
  return %z
}
"""  # noqa: E501
    ones = np.ones(4, np.int32)
    cases = [({"x": floats(2 * n * m, 2), "n": ones[:n], "m": ones[:m]}, {}) for n, m in ((1, 1), (3, 2), (4, 4))]
    through(text, cases, tmp_path)
