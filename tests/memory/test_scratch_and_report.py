"""Scratch inside a call, and the summary of a plan for people."""

from __future__ import annotations

import pytest
from memory_nets import ADD, Net

from sdk.compiler.ir.loops import Alloc, Buffer, For, If, Imm, Load, Loops, Space, Stmt, Store
from sdk.compiler.ir.types import BOOL, I8, I32, DType, TensorType
from sdk.compiler.memory.report import plan_summary
from sdk.compiler.memory.scratch import scratch_layout
from sdk.compiler.ops.build import function, loop, param, variable
from sdk.compiler.passes.plan_memory import PlanMemory
from sdk.errors import BuildError

i = variable("i", 8)
X = param("x", TensorType(I8, (8,)))
OUT = param("o", TensorType(I8, (8,)), "write")


def alloc(name: str, size: int, dtype: DType = I8, space: Space = "scratch") -> Alloc:
    return Alloc(Buffer(name, dtype, (size,), space))


def fill(name: str) -> Stmt:
    return Store(name, (0,), Load("x", (0,), I8))


def use(name: str) -> Stmt:
    return Store("o", (0,), Load(name, (0,), I8))


def kernel(*body: Stmt) -> Loops:
    return function("k", [X, OUT], body)


def test_buffers_in_turn_share_bytes() -> None:
    layout = scratch_layout(kernel(alloc("a", 100), fill("a"), use("a"), alloc("b", 60), fill("b"), use("b")))
    assert layout.offsets == {"a": 0, "b": 0}
    assert layout.bytes == 100


def test_buffers_in_use_together_do_not() -> None:
    layout = scratch_layout(kernel(alloc("a", 100), alloc("b", 60), fill("a"), fill("b"), use("a"), use("b")))
    assert layout.bytes == 112 + 60 or layout.bytes == 64 + 100
    assert all(at % 16 == 0 for at in layout.offsets.values())


def test_inner_scopes_share_among_themselves_under_an_outer_buffer() -> None:
    inner = [If(Imm(1, BOOL), loop(i, 8, alloc(n, 32), fill(n), use(n)).body) for n in ("b", "c")]
    layout = scratch_layout(kernel(alloc("a", 64), fill("a"), loop(i, 8, *inner), use("a")))
    assert layout.bytes == 96
    assert layout.offsets["b"] == layout.offsets["c"]


def test_a_name_declared_twice_keeps_one_place() -> None:
    layout = scratch_layout(
        kernel(loop(i, 8, alloc("a", 16), fill("a")), loop(i, 8, alloc("a", 48), fill("a")))
    )
    assert layout.bytes == 48


def test_registers_local_arrays_and_unused_buffers_take_nothing() -> None:
    body = [alloc("r", 8, I32, "register"), alloc("l", 8, I8, "local"), alloc("unused", 99), use("l")]
    assert scratch_layout(kernel(*body)).bytes == 0


def test_small_buffers_need_not_start_a_line() -> None:
    layout = scratch_layout(
        kernel(alloc("a", 3), alloc("b", 1, I32), fill("a"), fill("b"), use("a"), use("b"))
    )
    assert layout.bytes == 7
    assert layout.offsets["b"] % 4 == 0


def test_threads_cannot_share() -> None:
    body = loop(i, 8, alloc("a", 16), fill("a")).body
    with pytest.raises(BuildError, match="inside a parallel loop"):
        scratch_layout(kernel(For(i, 0, 8, body, "parallel")))
    assert (
        scratch_layout(kernel(alloc("a", 16), For(i, 0, 8, loop(i, 8, fill("a")).body, "parallel"))).bytes
        == 16
    )


def test_summary() -> None:
    net = Net()
    x = net.input("x", 1, 8, 8, 4)
    a = net.conv(x, 4)
    net.state("s", 1, 8, 8, 4)
    y = net.op("add_q", net.op("add_q", a, x, name="b", **ADD), net.read("s", "r"), name="y", **ADD)
    net.write("s", net.op("relu", x))
    module = PlanMemory().run(net.module(y))
    plan = module.plans["main"]
    summary = plan_summary(module, plan)
    assert summary.peak == summary.lower_bound == 256 + 1024 + 256
    assert [(r.name, r.kind) for r in summary.regions] == [
        ("arena", "arena"),
        ("state", "state"),
        ("const", "const"),
    ]
    assert [(t.names[0], t.title, t.bytes, t.live) for t in summary.at_peak] == [
        ("t0", "t0", 1024, 1024),
        ("t1", "t1", 256, 256),
        ("x", "x", 256, 256),
    ]
    assert (summary.at_peak[0].first, summary.at_peak[0].last, summary.fullest.step) == (1, 2, 2)
    assert summary.optimal
    assert [r.step for r in summary.timeline] == list(range(1, len(plan.body) + 1))
    assert [r.live_bytes for r in summary.timeline][:2] == [1280, 1536]
    assert summary.timeline[0].ops == "conv2d_0"
    assert [(r.runs, r.rows, r.repeats) for r in summary.timeline] == [(1, 8, ())] * len(plan.body)
    assert max(r.live_bytes for r in summary.timeline) == summary.peak
    with pytest.raises(BuildError, match="no such plan"):
        plan_summary(net.module(y), plan)
