"""Streams of rows: any cut of any net computes what the graph does, in no more memory than whole tensors."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from memory_nets import ADD, Net, run_graph

from sdk.compiler.interp.plan import run_plan
from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import PlanCall, Repeat
from sdk.compiler.ir.types import I32
from sdk.compiler.memory.layout import lay_out
from sdk.compiler.memory.storage import Io, share_bytes
from sdk.compiler.memory.stream.flow import flow_of
from sdk.compiler.memory.stream.net import Net as Streams
from sdk.compiler.memory.stream.segments import Segmenter
from sdk.compiler.memory.stream.weigh import Segment, streamed, whole
from sdk.compiler.passes.plan_memory import PlanMemory
from sdk.compiler.sym import Var
from sdk.compiler.verify.plan import verify_plan
from sdk.errors import BuildError

THREE = {"kernel": (3, 3), "stride": (1, 1), "pad": (1, 1, 1, 1)}
POOL = {"kernel": (2, 2), "stride": (2, 2), "pad": (0, 0, 0, 0)}


def random_net(rng: Random) -> tuple[Module, dict[str, np.ndarray]]:
    """A few convolutions, pools, sums and copies over one or two inputs, with one or two results."""
    net = Net(seed=rng.randrange(1 << 20))
    shape = (1, rng.randint(4, 11), rng.randint(2, 5), rng.randint(1, 3))
    values = [net.input("x", *shape)]
    if rng.random() < 0.2:
        values.append(net.input("y", *shape))
    for _ in range(rng.randint(2, 7)):
        x = values[-1] if rng.random() < 0.75 else rng.choice(values)
        made = step(net, rng, x, [v for v in values if v is not x and v.type == x.type])
        if made.name not in {v.name for v in net.params}:
            values.append(made)
    results = [values[-1]] if len(values) < 3 or rng.random() < 0.7 else values[-2:]
    if values[-1].type.rank == 4 and rng.random() < 0.4:
        results[-1] = head(net, values[-1])
    return net.module(*results), {p.name: image(p) for p in net.params}


def image(value: Value) -> np.ndarray:
    """Random bytes."""
    return np.random.default_rng(0).integers(-128, 128, value.type.static_shape).astype(np.int8)


def step(net: Net, rng: Random, x: Value, alike: list[Value]) -> Value:
    """One more layer on x."""
    kind = rng.random()
    if alike and kind < 0.3:
        return net.op("add_q", *rng.sample([x, rng.choice(alike)], 2), **ADD)
    if kind < 0.5:
        return net.conv(x, rng.randint(1, 4), rng.choice([1, 3]), rng.choice([1, 1, 2]))
    if kind < 0.7:
        return net.conv(x, 0, 3, rng.choice([1, 1, 2]), op="depthwise_conv2d")
    if kind < 0.8 and min(x.type.static_shape[1:3]) >= 2:
        return net.op("max_pool2d", x, **POOL)
    if kind < 0.85:
        return net.op("pad", x, pads=((0, 0), (1, rng.randint(0, 2)), (0, 1), (0, 0)), value=3)
    return net.op("relu", x)


def head(net: Net, x: Value) -> Value:
    """A pool that takes the rows of x one after the other, and a dense layer."""
    rows = net.op("pool_rows", x, by="sum")
    count = x.type.static_shape[1] * x.type.static_shape[2]
    mean = net.op("pool_result", rows, count=count, out="i8")
    flat = net.op("reshape", mean, shape=(1, x.type.static_shape[3]))
    dense = net.op("dense", flat, net.const((3, x.type.static_shape[3])), net.const((3,), I32), w_offset=0, x_offset=9)
    return net.requantize(dense)


def streams_of(module: Module, align: int, io: str = "arena") -> Streams:
    graph = module.graphs["main"]
    return Streams(graph, module.loops, share_bytes(graph, module.loops, {}, io, lambda *_: False), align)


def random_cut(streams: Streams, rng: Random) -> list[Segment]:
    """Segments that are streams wherever they can be."""
    out: list[Segment] = []
    at = 1
    while at <= streams.count:
        tried = streamed(streams, at, min(at + rng.randint(0, 6), streams.count))
        out.append(tried or (streamed(streams, at, at) if rng.random() < 0.5 else None) or whole(streams, at))
        at = out[-1].last + 1
    return out


def laid_out(module: Module, segments: list[Segment], io: Io = "arena", align: int = 1) -> Module:
    """The module planned with these segments."""
    laid = lay_out(module, module.graphs["main"], io, align, segments=segments)
    return replace(module, stage="planned", graphs={}, loops={**module.loops, **laid.loops}, plans={"main": laid.plan})


def check(module: Module, planned: Module, inputs: dict[str, np.ndarray]) -> None:
    (plan,) = planned.plans.values()
    assert verify_plan(planned, plan) == []
    found = run_plan(planned, plan.name, inputs)
    for name, value in zip(plan.outputs, run_graph(module, inputs, {}), strict=True):
        np.testing.assert_array_equal(found[name], value)


def strided() -> tuple[Net, Value]:
    """Three by three, the same with stride 2, and a residual of its result."""
    net = Net()
    x = net.input("x", 1, 12, 4, 4)
    a = net.op("max_pool2d", x, name="a", **THREE)
    b = net.op("max_pool2d", a, name="b", **{**THREE, "stride": (2, 2)})
    c = net.op("max_pool2d", b, name="c", **THREE)
    return net, net.op("add_q", c, b, name="sum", **ADD)


def test_turns_follow_the_rows_that_readers_need() -> None:
    net, total = strided()
    flow = flow_of((1, 2, 3, 4), streams_of(net.module(total), 1).row_calls)
    assert flow is not None
    assert (flow.extents, flow.rates, flow.ahead) == ((12, 6, 6, 6), (2, 1, 1, 1), (2, 1, 0, 0))
    assert (flow.lo, flow.hi) == (-1, 6)
    order = sorted((int(t), k, row) for k, times in enumerate(flow.times()) for row, t in enumerate(times))
    assert [t for t, _, _ in order] == list(range(30))
    assert [(k, row) for _, k, row in order][:11] == [
        (0, 0), (0, 1), (1, 0), (0, 2), (0, 3), (1, 1), (2, 0), (3, 0), (0, 4), (0, 5), (1, 2),
    ]  # fmt: skip


def test_rings_keep_what_is_still_read_and_a_sum_takes_the_place_of_its_row() -> None:
    net, total = strided()
    segment = streamed(streams_of(net.module(total), 1), 1, 4)
    assert segment is not None
    assert segment.rings == {"a": 3, "b": 3, "c": 1}
    assert segment.lags == {("sum", "x"): -40}  # rows of x are twice as long, three are done before
    assert segment.taken == frozenset()
    assert segment.calls == 30


def test_a_plan_of_nested_repeats() -> None:
    net, total = strided()
    module = net.module(total)
    segment = streamed(streams_of(module, 1), 1, 4)
    assert segment is not None
    planned = laid_out(module, [segment])
    (outer,) = planned.plans["main"].body
    assert isinstance(outer, Repeat)
    inner, *rest = outer.body
    assert isinstance(inner, Repeat)
    assert [s.callee for s in (*inner.body, *rest) if isinstance(s, PlanCall)] == [
        "max_pool2d_0_rows", "max_pool2d_1_rows", "max_pool2d_2_rows", "add_q_3_rows",
    ]  # fmt: skip
    assert str(inner.lo) == "2*h"
    assert [str(d) for d in rest[0].rows] == ["h + 1", "min(h + 2, 6)"]  # as h is -1 to 5
    check(module, planned, {"x": image(net.params[0])})


def test_what_needs_all_rows_at_once_ends_a_stream() -> None:
    net = Net()
    x = net.input("x", 1, 8, 2, 2)
    pooled = net.op("relu", net.op("relu", x, name="a"), name="b")
    mean = net.op("avg_pool2d", pooled, kernel=(8, 2), stride=(8, 2), pad=(0, 0, 0, 0))
    streams = streams_of(net.module(mean), 1)
    assert streamed(streams, 1, 2) is not None
    assert streamed(streams, 2, 3) is None
    assert all(s.flow is None for s in Segmenter(streams).cheapest(1 << 20) or ())


def test_nets_with_dims_keep_whole_tensors() -> None:
    net = Net()
    rows = Var("n", 1, 9)
    net.dims = (rows,)
    x = net.input("x", 1, rows.expr, 4, 4)
    module = net.module(net.op("relu", net.op("relu", x, name="a"), name="b"))
    assert PlanMemory(memory="min").run(module) == PlanMemory().run(module)
    with pytest.raises(BuildError, match="more than the limit") as caught:
        PlanMemory(limit=16).run(module)
    assert "tensors whose dims a run chooses stay whole" in str(caught.value.hint)


@pytest.mark.parametrize("seed", range(16))
def test_any_cut_computes_the_graph(seed: int) -> None:
    rng = Random(seed)
    module, inputs = random_net(rng)
    io, align = rng.choice(["arena", "caller"]), rng.choice([1, 4, 16])
    segments = random_cut(streams_of(module, align, io), rng)
    check(module, laid_out(module, segments, io, align), inputs)


@pytest.mark.parametrize("seed", range(100, 108))
def test_least_memory(seed: int) -> None:
    module, inputs = random_net(Random(seed))
    full = PlanMemory().run(module).plans["main"].region("arena").bytes
    planned = PlanMemory(memory="min").run(module)
    minimum = planned.plans["main"].region("arena").bytes
    assert minimum <= full
    check(module, planned, inputs)
    limit = (minimum + full) // 2
    between = PlanMemory(limit=limit).run(module)
    assert between.plans["main"].region("arena").bytes <= limit
    check(module, between, inputs)
    if minimum > 16:
        with pytest.raises(BuildError, match="limit"):
            PlanMemory(limit=minimum // 2).run(module)
