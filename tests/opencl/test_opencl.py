"""Elementwise, reduction and matrix kernels as OpenCL C on Oclgrind, against the numpy interpreter."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest

from sdk.boards import load_board
from sdk.codegen_c import get_backend
from sdk.codegen_c.base import EmitOptions, Files
from sdk.codegen_c.opencl.stmt import emit_kernel
from sdk.compiler import ops
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.text import parse_module
from sdk.compiler.passes.pipeline import parse_pipeline, run_pipeline
from sdk.compiler.verify.module import check
from sdk.driver import BuildOptions, build
from sdk.errors import BuildError
from tests.opencl.replay import Replay

PIPELINE = "fold,cleanup,lower,fuse,simplify-loops,map-grid,cleanup,plan-memory{io=caller}"
MODEL = """
module net typed

const @w: f32[24, 10] = blob #w
const @b: f32[10] = [0.5, -1.0, 2.0, 0.25, 0.0, -0.5, 1.5, 3.0, -2.0, 1.0]

graph @main<n in 1..70>(%x: f32[n, 24], %y: f32[n, 10]) {
  %h = matmul(%x, @w) : f32[n, 10]
  %c = add(%h, @b) : f32[n, 10]
  %d = relu(%c) : f32[n, 10]
  %e = mul(%d, %y) : f32[n, 10]
  %t = transpose(%e) {perm = (1, 0)} : f32[10, n]
  %g = matmul(%t, %x) : f32[10, 24]
  return %e, %g
}
"""


def planned(text: str, blobs: dict[str, np.ndarray] | None = None) -> tuple[Module, Module]:
    """The module as written, and planned for a device of work items."""
    for name, data in (blobs or {}).items():
        listed = ", ".join(repr(float(v)) for v in data.reshape(-1))
        text = text.replace(f"blob #{name}", f"[{listed}]")
    module = parse_module(text)
    check(module, ops)
    return module, run_pipeline(module, parse_pipeline(PIPELINE))


@pytest.fixture(scope="module")
def net() -> tuple[Module, Module]:
    return planned(MODEL, {"w": np.random.default_rng(0).standard_normal((24, 10)).astype(np.float32)})


def emitted(module: Module) -> Files:
    return get_backend("opencl").emit(module, "net", isa=frozenset(), options=EmitOptions()).files


@pytest.mark.parametrize("n", [1, 7, 64, 70])
def test_a_graph_with_a_symbolic_dim(net: tuple[Module, Module], n: int) -> None:
    """One program for every n: matrix products with a fused epilogue, a transpose, elementwise arithmetic."""
    typed, ready = net
    rng = np.random.default_rng(n)
    inputs = {k: rng.standard_normal((n, c)).astype(np.float32) for k, c in (("x", 24), ("y", 10))}
    want = run_graph(typed, "main", inputs)
    got = Replay(emitted(ready), "net").run("main", inputs, {"n": n})
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-5)


def test_the_same_text_every_time(net: tuple[Module, Module]) -> None:
    files = emitted(net[1])
    assert files == emitted(net[1])
    assert "get_global_id(0)" in str(files["net.cl"])
    assert "arena" in str(files["net.json"])


REDUCTIONS = """
module net typed

graph @main<n in 2..40>(%x: i8[n, 33]) {
  %s = reduce_sum(%x) {axes = (1), x_offset = 5} : i32[n, 1]
  return %s
}
"""


def test_an_integer_reduction() -> None:
    typed, ready = planned(REDUCTIONS.replace("(1)", "(1,)"))
    x = np.random.default_rng(3).integers(-128, 128, (17, 33)).astype(np.int8)
    got = Replay(emitted(ready), "net").run("main", {"x": x}, {"n": 17})
    np.testing.assert_array_equal(got["s"], run_graph(typed, "main", {"x": x})["s"])


GROUPS = """
module net scheduled

loops @total(read %x: f32[64, 32], write %o: f32[64]) {
  for i in 0..64 bind axis "group.x" {
    alloc %part: f32[32] in local
    for j in 0..32 bind axis "local.x" {
      %part[j] = exp(%x[i, j])
      barrier group
      if j < 1 {
        alloc %sum: f32[] in register
        %sum[] = 0.0
        for k in 0..32 {
          %sum[] = %sum[] + %part[k]
        }
        %o[i] = %sum[]
      }
    }
  }
}

loops @lanes(read %x: f32[64, 32], write %o: f32[64, 32]) {
  for i in 0..64 bind axis "global.x" {
    for j in 0..8 {
      %o[i, 4*j] = max(%x[i, 4*j]:f32x4, broadcast(0.5:f32):f32x4) * broadcast(2.0:f32):f32x4
    }
  }
}

graph @main(%x: f32[64, 32]) {
  %s = @total(%x) : f32[64]
  %l = @lanes(%x) : f32[64, 32]
  return %s, %l
}
"""


def test_groups_local_memory_barriers_and_lanes() -> None:
    """What the schedules of a GPU are made of is printed, and means what it should."""
    ready = run_pipeline(parse_module(GROUPS), parse_pipeline("plan-memory{io=caller}"))
    x = np.random.default_rng(5).standard_normal((64, 32)).astype(np.float32)
    got = Replay(emitted(ready), "net").run("main", {"x": x}, {})
    np.testing.assert_allclose(got["s"], np.exp(x).sum(axis=1), rtol=1e-5)
    np.testing.assert_array_equal(got["l"], np.maximum(x, np.float32(0.5)) * 2)


def kernel(text: str) -> Loops:
    (found,) = parse_module(f"module net scheduled\n{text}").loops.values()
    return found


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("alloc %t: f32[4] in scratch\n%t[0] = %x[0]\n%o[0] = %t[0]", "scratch buffer t"),
        ('eval "f"(%x[0])\n%o[0] = %x[0]', "library symbol f"),
        ('for i in 0..4 bind axis "warp.x" { %o[i] = %x[i] }', "'warp.x'"),
        ("for i in 0..4 vector { %o[i] = %x[i] }", "lanes"),
        ("%o[0] = fold_add(%x[0]:f32x4):f32", "fold_add"),
    ],
)
def test_what_cannot_be_printed_is_refused(body: str, why: str) -> None:
    loops = kernel(f"loops @f(read %x: f32[4], write %o: f32[4]) {{\n{body}\n}}")
    with pytest.raises(BuildError, match=why) as caught:
        emit_kernel(loops, "net")
    assert caught.value.where == "loops @f"


def test_atomics() -> None:
    loops = kernel("loops @f(read %x: i32[4], update %o: i32[1]) {\nfor i in 0..4 { atomic add %o[0] = %x[i] }\n}")
    assert "atomic_add(&o[0], x[i]);" in emit_kernel(loops, "net").text


def test_a_build_is_all_that_a_host_needs(tmp_path: Path) -> None:
    """What the command writes runs as it lies there, with the constants of the file beside the kernels."""
    (tmp_path / "net.ir").write_text(WITH_WEIGHTS)
    model = tmp_path / "net.ir"
    report = build(model, load_board("host"), BuildOptions(backend="opencl"), emit="c", out=tmp_path / "out")
    files = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert set(files) == {"net.cl", "net.json", "net_weights.bin", "manifest.json"}
    assert (report.sections, report.stack_bytes, report.context_bytes) == ({}, 0, 0)
    text = {name: data if name.endswith(".bin") else data.decode() for name, data in files.items()}
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    got = Replay(text, "net").run("main", {"x": x}, {"n": 2})
    (name,) = got
    np.testing.assert_array_equal(got[name], x * np.float32([1, 2, 3]) + np.float32([0.5, -1, 2]))


WITH_WEIGHTS = """
module net imported

const @w: f32[3] = [1.0, 2.0, 3.0]
const @b: f32[3] = [0.5, -1.0, 2.0]

graph @main<n in 1..8>(%x: f32[n, 3]) {
  %m = mul(%x, @w) : f32[n, 3]
  %y = add(%m, @b) : f32[n, 3]
  return %y
}
"""


def test_states_are_refused() -> None:
    module = parse_module("module net planned\n\nstate @s: f32[2] = 0\n")
    with pytest.raises(BuildError, match="keeps states"):
        emitted(module)


def test_the_simulator_reports_a_store_outside_of_a_buffer(reports: Path) -> None:
    """What ``no_reports`` relies on."""
    kernel = "kernel void past(global int *x) { x[get_global_id(0)] = 1; }"
    record = {"kernels": "k.cl", "weights": "w.bin", "entries": []}
    replay = Replay({"k.cl": kernel, "p.json": json.dumps(record), "w.bin": b""}, "p")
    memory = cl.Buffer(replay.context, cl.mem_flags.READ_WRITE, 4 * 3)
    replay.program.past(replay.queue, (4,), None, memory)
    replay.queue.finish()
    assert "Invalid write of size 4" in reports.read_text()
    os.truncate(reports, 0)
