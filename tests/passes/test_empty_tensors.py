"""Tensors of no elements, known when the model is built or only when it runs, through every pass, as plan and as C."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from as_c import Library, agree

from sdk.compiler import ops
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.interp.plan import run_plan
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.text import parse_module
from sdk.compiler.passes.pipeline import parse_pipeline
from sdk.compiler.verify.module import check
from sdk.compiler.verify.plan import check_plan

PASSES = (
    "inline,fold,simplify-graph,layout,fold-pad,fold-scale,recognize,canonicalize,cleanup,lower,fuse,simplify-loops,"
    "schedule{{isa={isa}}},simplify-loops,cleanup,plan-memory{{io={io}}}"
)
GRAPHS = {
    "constant": """
const @w: f32[0, 4] = []
graph @main(%x: f32[0, 4], %y: f32[3, 4]) {
  %a = add(%x, @w) : f32[0, 4]
  %b = concat(%a, %y) {axis = 0} : f32[3, 4]
  return %b, @w
}""",
    "no_rows": """
graph @main<n in 0..5>(%x: f32[n, 4], %w: f32[4, 8]) {
  %a = matmul(%x, %w) : f32[n, 8]
  %b = softmax(%a) : f32[n, 8]
  %c = transpose(%b) {perm = (1, 0)} : f32[8, n]
  return %b, %c
}""",
    "no_depth": """
graph @main<n in 0..5>(%x: f32[3, n], %w: f32[n, 8]) {
  %a = matmul(%x, %w) : f32[3, 8]
  %s = reduce_sum(%x) {axes = (1,)} : f32[3, 1]
  %b = add(%a, %s) : f32[3, 8]
  return %b
}""",
    "zero_depth": """
graph @main(%x: f32[3, 0], %w: f32[0, 8]) {
  %a = matmul(%x, %w) : f32[3, 8]
  %s = reduce_sum(%x) {axes = (1,)} : f32[3, 1]
  %b = add(%a, %s) : f32[3, 8]
  return %b
}""",
    "taken_from_nothing": """
graph @main<n in 0..5>(%x: f32[0, 8], %y: f32[n, 8], %i: i32[3]) {
  %a = gather(%x, %i) {axis = 0} : f32[3, 8]
  %b = gather(%y, %i) {axis = 0} : f32[3, 8]
  %c = add(%a, %b) : f32[3, 8]
  return %a, %c
}""",
    "put_nowhere": """
graph @main(%x: f32[0, 8], %i: i32[3, 1], %u: f32[3, 8], %j: i32[2, 8], %v: f32[2, 8]) {
  %a = scatter_nd(%x, %i, %u) {reduction = "none"} : f32[0, 8]
  %b = scatter_elements(%a, %j, %v) {axis = 0, reduction = "none"} : f32[0, 8]
  %c = gather_elements(%b, %j) {axis = 0} : f32[2, 8]
  %d = gather_nd(%x, %i) {batch = 0} : f32[3, 8]
  return %b, %c, %d
}""",
    "parts": """
graph @main<n in 1..5>(%x: f32[n, 8]) {
  %a = slice(%x) {begin = (0, 0), size = ([n - 1], 8), strides = (1, 1)} : f32[n - 1, 8]
  %b = relu(%a) : f32[n - 1, 8]
  %c = slice(%x) {begin = (0, 8), size = ([n], 0), strides = (1, 1)} : f32[n, 0]
  %d = concat(%c, %x, %c) {axis = 1} : f32[n, 8]
  return %b, %c, %d
}""",
}


Arrays = dict[str, np.ndarray]


def checked(module: Module, isa: str, io: str, inputs: list[Arrays], dims: list[dict[str, int]]) -> Module:
    check(module, ops)
    want = [run_graph(module, "main", x) for x in inputs]
    for step in parse_pipeline(PASSES.format(isa=isa, io=io)):
        module = step.run(module)
        check(module, ops)
        run = run_plan if module.stage == "planned" else run_graph
        for x, expected, env in zip(inputs, want, dims, strict=True):
            agree(run(module, "main", x), expected, f"{step.name} at {env}")
    check_plan(module, module.plans["main"])
    return module


@pytest.mark.parametrize("io", ["arena", "caller"])
@pytest.mark.parametrize(("toolchain", "isa"), [("gcc", ""), ("zig", "sse2+avx2+fma")])
def test_empty_tensors(toolchain: str, isa: str, io: str, tmp_path: Path) -> None:
    done: dict[str, Module] = {}
    given: dict[str, list[Arrays]] = {}
    sizes: dict[str, list[dict[str, int]]] = {}
    for name, text in GRAPHS.items():
        plain = parse_module(f"module {name} typed\n{text}\n", ops=ops)
        graph = plain.graphs["main"]
        sizes[name] = [{v.name: n for v in graph.dims} for n in (range(graph.dims[0].lo, 6) if graph.dims else (0,))]
        given[name] = [inputs(plain, env) for env in sizes[name]]
        done[name] = checked(plain, isa, io, given[name], sizes[name])
    library = Library(done, tmp_path, toolchain=toolchain)
    for name, module in done.items():
        for x, env in zip(given[name], sizes[name], strict=True):
            agree(library.run(name, module, x, env), run_plan(module, "main", x), f"{name} as C at {env}")


def inputs(module: Module, env: dict[str, int]) -> Arrays:
    rng = np.random.default_rng(7)
    out = {}
    for p in module.graphs["main"].params:
        shape = tuple(d if isinstance(d, int) else env["n"] for d in p.type.shape)
        data = rng.integers(-1, 3, shape) if p.type.dtype.kind == "i" else rng.standard_normal(shape)
        out[p.name] = np.asarray(data).astype(p.type.dtype.numpy)
    return out
