"""The run on paper against sets of bytes: what is in use at each call, in every kind of plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from memory_nets import ADD, Net
from sound_plans import SOUND, Planned

from sdk.compiler.analysis.dependence import row_axis
from sdk.compiler.analysis.rows_touched import rows_touched
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Bind, Copy, Plan, PlanCall, PlanStmt, Repeat
from sdk.compiler.memory.dims_of_run import complete
from sdk.compiler.memory.effects import extern_outputs
from sdk.compiler.memory.report import plan_summary
from sdk.compiler.memory.trace import trace_plan
from sdk.compiler.passes.plan_memory import PlanMemory
from sdk.compiler.sym import Var, evaluate, product

Byte = tuple[str, int]
Call = tuple[set[Byte], set[Byte]]  # read, written


def chain(**options: object) -> Planned:
    """Convolutions of falling rate and a residual sum."""
    net = Net()
    a = net.conv(net.input("x", 1, 24, 8, 4), 8, stride=2)
    b = net.conv(net.conv(a, 8, op="depthwise_conv2d"), 8, kernel=1)
    y = net.conv(net.op("add_q", b, a, **ADD), 4, stride=2)
    module = PlanMemory(**options).run(net.module(y))
    return module, module.plans["main"]


def bytes_of(plan: Plan, name: str, rows: tuple[int, int] | None, env: Mapping[Var, int]) -> set[Byte]:
    """The bytes of rows of a buffer (None: of all) that lie in an arena."""
    b = plan.buffer(name)
    if plan.region(b.region).kind != "arena":
        return set()
    shape = [evaluate(d, env) for d in b.type.shape]
    axis = row_axis(b.type.shape)
    row = b.type.dtype.nbytes * int(product(tuple(shape[axis + 1 :])))
    count = shape[axis] if shape else 1
    at, kept = evaluate(b.offset, env), min(b.ring or count, count)
    lo, hi = rows or (0, count)
    return {(b.region, at + r % kept * row + k) for r in range(lo, hi) for k in range(row)}


def calls(module: Module, plan: Plan, body: tuple[PlanStmt, ...], env: dict[Var, int]) -> Iterator[Call]:
    """What each call of the run reads and writes, one after the other."""
    for stmt in body:
        if isinstance(stmt, Repeat):
            for k in range(evaluate(stmt.lo, env), evaluate(stmt.hi, env)):
                yield from calls(module, plan, stmt.body, {**env, stmt.var: k})
        elif isinstance(stmt, Copy):
            yield bytes_of(plan, stmt.src, None, env), bytes_of(plan, stmt.dst, None, env)
        elif isinstance(stmt, Bind) and isinstance(stmt.value, str):
            yield bytes_of(plan, stmt.value, None, env), set()
        elif isinstance(stmt, PlanCall):
            found = call_bytes(module, plan, stmt, env)
            if found is not None:
                yield found


def call_bytes(module: Module, plan: Plan, call: PlanCall, env: dict[Var, int]) -> Call | None:
    function = module.loops.get(call.callee)
    scratch = bytes_of(plan, call.scratch, None, env) if call.scratch else set()
    if function is None:
        outs = extern_outputs(module, plan)[call.index]
        held = {name: bytes_of(plan, name, None, env) for name in call.args}
        return (
            set().union(*(h for n, h in held.items() if n not in outs)),
            scratch.union(*(h for n, h in held.items() if n in outs)),
        )
    dims = {v: evaluate(d, env) for v, d in zip(function.dims, call.dims, strict=True)}
    span = None
    if function.rows is not None and call.rows is not None:
        extent = evaluate(function.rows.extent, dims)
        lo, hi = max(evaluate(call.rows[0], env), 0), min(evaluate(call.rows[1], env), extent)
        if lo >= hi:
            return None
        span = None if (lo, hi) == (0, extent) else (lo, hi)
    read, written = set(), set(scratch)
    for name, p in zip(call.args, function.params, strict=True):
        for store, out in ((False, read), (True, written)):
            if (p.mode == "read") is store and p.mode != "update":
                continue
            part = None if span is None else rows_touched(function, p.buffer.name, dims, span, store)
            out |= bytes_of(plan, name, part, env)
    return read, written


def in_use(module: Module, plan: Plan, env: dict[Var, int]) -> list[set[Byte]]:
    """The bytes in use at every call: what it touches, and what was written before and is read next, not written."""
    first: Call = (set(), set().union(*(bytes_of(plan, n, None, env) for n in plan.inputs)))
    last: Call = (set().union(*(bytes_of(plan, n, None, env) for n in plan.outputs)), set())
    run = [first, *calls(module, plan, plan.body, env), last]
    every = set().union(*(r | w for r, w in run))
    out = [r | w for r, w in run]
    for byte in every:
        since = None
        for k, (read, written) in enumerate(run):
            if byte in read and since is not None:
                for between in range(since, k):
                    out[between].add(byte)
            if byte in written or (byte in read and since is not None):
                since = k
    return out


PLANS = {
    **{name: SOUND[name] for name in SOUND},
    "whole": chain,
    "streams": lambda: chain(memory="min"),
}


@pytest.mark.parametrize("name", PLANS)
def test_bytes_in_use(name: str) -> None:
    module, plan = PLANS[name]()
    env = {v: v.maximum for v in (*plan.dims, *plan.fresh)}
    env = complete(plan, env) or env
    trace = trace_plan(module, plan, env)
    want = in_use(module, plan, plan.placed(env))
    found = [{(h.region, b) for h in m.held for b in range(h.lo, h.hi)} for m in trace.moments]
    assert len(found) == len(want)
    for k, (a, b) in enumerate(zip(found, want, strict=True)):
        assert a == b, f"{name}: moment {k}, step {trace.moments[k].step}: {sorted(a ^ b)[:5]}"
    assert all(m.bytes == len(held) for m, held in zip(trace.moments, want, strict=True))


def test_a_stream_in_words() -> None:
    module, plan = chain(memory="min")
    summary = plan_summary(module, plan)
    whole = plan_summary(*chain())
    assert summary.peak < whole.peak
    streamed = [r for r in summary.timeline if r.repeats]
    assert streamed
    assert all(r.runs > 1 and r.rows == 1 for r in streamed)
    assert max(r.live_bytes for r in summary.timeline) == summary.fullest.bytes <= summary.peak
    rings = [t for t in summary.tensors if t.ring is not None]
    assert rings
    assert all(t.bytes == t.ring * (t.bytes // t.ring) and t.ring < t.rows for t in rings)
    assert not any(r.repeats for r in whole.timeline)
    assert all(t.ring is None and not t.over for t in whole.tensors)


def test_an_output_over_its_input_in_words() -> None:
    net = Net()
    x = net.input("x", 1, 32, 8, 8)
    module = PlanMemory(memory="min").run(net.module(net.conv(x, 8, op="depthwise_conv2d")))
    summary = plan_summary(module, module.plans["main"])
    assert summary.peak < 1.5 * 32 * 8 * 8
    assert [t.over for t in summary.tensors if t.role == "output"] == [("x",)]
