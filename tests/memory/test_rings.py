"""Streams of rows written by hand: two convolutions through rings, the output over consumed input rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from memory_nets import Net, run_graph

from sdk.compiler.interp.plan import run_plan
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Plan, PlanBuffer, PlanCall, Region, Repeat
from sdk.compiler.memory.report import plan_summary
from sdk.compiler.memory.rings import row_axis, stored_bytes, stored_type, with_rings
from sdk.compiler.passes.plan_memory import PlanMemory
from sdk.compiler.sym import Var, dmin
from sdk.compiler.verify.plan import verify_plan
from sdk.errors import BuildError

H, W, C = 9, 5, 4
ROW = W * C


def network(first: str, second: str) -> Module:
    net = Net()
    x = net.input("x", 1, H, W, C)
    return net.module(net.conv(net.conv(x, C, op=first), C, op=second))


def streamed(
    module: Module, rings: tuple[int, int, int] = (1, 3, 1), out_at: int = 0, lead: int = 1
) -> tuple[Module, Plan]:
    """The two convolutions row by row: ``lead`` rows of the first are made before the second starts.

    ``rings`` are the rows kept of the first accumulator, the tensor between, and the second accumulator.
    Arena: the input at 0, the output at ``out_at`` over it, then the rings.
    """
    plain = PlanMemory().run(module)
    plan = plain.plans["main"]
    calls = [s for s in plan.body if isinstance(s, PlanCall)]
    kept = dict(zip(("t0", "t1", "t2"), rings, strict=True))
    at = {"x": 0, "t3": out_at}
    end = H * ROW + 4
    buffers = []
    for b in plan.buffers:
        if b.region == "arena":
            ring = kept.get(b.name)
            if b.name not in at:
                at[b.name] = end = -(-end // 16) * 16
                end += stored_bytes(b.type, ring)
            b = replace(b, offset=at[b.name], ring=ring, alias="x" if b.name == "t3" else "")
        buffers.append(b)
    loops = dict(module.loops)
    for call in calls:
        f = loops[call.callee]
        wants = {p.buffer.name: kept[n] for p, n in zip(f.params, call.args, strict=True) if n in kept}
        loops[call.callee] = with_rings(f, wants)
    r = Var("r", 0, H - 1)
    ahead = (r.expr + lead, r.expr + lead + 1)
    before = [replace(c, rows=(row, row + 1)) for row in range(lead) for c in calls[:2]]
    body = [replace(c, rows=(dmin(ahead[0], H), dmin(ahead[1], H))) for c in calls[:2]]
    body += [replace(c, rows=(r.expr, r.expr + 1)) for c in calls[2:]]
    numbered = [replace(c, index=k) for k, c in enumerate([*before, *body])]
    streamed_plan = replace(
        plan,
        lower_bound=0,  # that of the whole tensors
        regions=(Region("arena", "arena", end), *plan.regions[1:]),
        buffers=tuple(buffers),
        body=(*numbered[: len(before)], Repeat(r, 0, H, tuple(numbered[len(before) :]))),
    )
    return replace(plain, loops=loops, plans={"main": streamed_plan}), streamed_plan


@pytest.mark.parametrize("first", ["conv2d", "depthwise_conv2d"])
@pytest.mark.parametrize("second", ["conv2d", "depthwise_conv2d"])
def test_stream_of_rows_equals_the_whole(first: str, second: str) -> None:
    module = network(first, second)
    planned, plan = streamed(module)
    assert verify_plan(planned, plan) == []
    x = np.random.default_rng(0).integers(-128, 128, (1, H, W, C)).astype(np.int8)
    (wanted,) = run_graph(module, {"x": x}, {})
    np.testing.assert_array_equal(run_plan(planned, "main", {"x": x})["t3"], wanted)
    assert (
        plan_summary(planned, plan).peak < 0.5 * PlanMemory().run(module).plans["main"].region("arena").bytes
    )


@pytest.mark.parametrize("rings", [(1, 2, 1), (1, 1, 1)])
def test_ring_too_small_is_caught(rings: tuple[int, int, int]) -> None:
    planned, plan = streamed(network("conv2d", "conv2d"), rings)
    found = verify_plan(planned, plan)
    assert found
    assert "of t1" in found[0].message
    x = np.random.default_rng(0).integers(-128, 128, (1, H, W, C)).astype(np.int8)
    wrong = run_plan(planned, "main", {"x": x})["t3"]
    (wanted,) = run_graph(network("conv2d", "conv2d"), {"x": x}, {})
    assert (wrong != wanted).any()


def test_larger_rings_are_fine() -> None:
    planned, plan = streamed(network("conv2d", "conv2d"), (2, 4, 5))
    assert verify_plan(planned, plan) == []


def test_output_that_runs_into_unread_rows_is_caught() -> None:
    planned, plan = streamed(network("conv2d", "conv2d"), out_at=4)
    assert any("of x" in d.message for d in verify_plan(planned, plan))


def test_missing_lead_is_caught() -> None:
    planned, plan = streamed(network("conv2d", "conv2d"), lead=0)
    assert any("row 1 of t1" in d.message for d in verify_plan(planned, plan))


def test_repeat_too_short_or_long_is_caught() -> None:
    planned, plan = streamed(network("conv2d", "conv2d"))
    loop = plan.body[-1]
    assert isinstance(loop, Repeat)
    short = replace(plan, body=(*plan.body[:-1], replace(loop, hi=H - 1)))
    assert any("row 8 of t3" in d.message for d in verify_plan(planned, short))
    long = replace(plan, body=(*plan.body[:-1], replace(loop, hi=H + 1)))
    assert any("leave 0..9" in d.message for d in verify_plan(planned, long))


def test_kernel_and_buffer_must_agree_on_rings() -> None:
    planned, plan = streamed(network("conv2d", "conv2d"))
    buffers = tuple(replace(b, ring=4) if b.name == "t1" else b for b in plan.buffers)
    region = replace(plan.regions[0], bytes=1 << 14)
    changed = replace(plan, buffers=buffers, regions=(region, *plan.regions[1:]))
    assert any("t1 keeps 4 rows" in d.message for d in verify_plan(planned, changed))
    with pytest.raises(BuildError, match="differ in rows kept"):
        run_plan(replace(planned, plans={"main": changed}), "main", {"x": np.zeros((1, H, W, C), np.int8)})


def test_row_axis_and_sizes() -> None:
    module = network("conv2d", "conv2d")
    buffer: PlanBuffer = PlanMemory().run(module).plans["main"].buffer("t1")
    assert row_axis(buffer.type.shape) == 1
    assert stored_type(buffer.type, 3).shape == (1, 3, W, C)
    assert stored_bytes(buffer.type, 3) == 3 * ROW
    kernel: Loops = next(iter(module.loops.values()))
    assert with_rings(kernel, {"x": 3}).param("x").buffer.ring == 3
    with pytest.raises(BuildError, match="cannot keep nothing"):
        with_rings(kernel, {"nothing": 3})
    with pytest.raises(BuildError, match="ring of 0 rows"):
        with_rings(kernel, {"x": 0})
