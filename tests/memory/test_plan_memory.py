"""The planning pass: what shares bytes, where states and results lie, and that plans compute their graphs."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_nets import ADD, Net, run_graph

from sdk.compiler.interp.plan import initial_states, run_plan
from sdk.compiler.ir.graph import Call, Value
from sdk.compiler.ir.loops import Alloc, Buffer, Load, Store
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Copy, PlanCall
from sdk.compiler.ir.types import I8, I32, TensorType
from sdk.compiler.ops.build import function, loop, param, variable
from sdk.compiler.passes.plan_memory import PlanMemory
from sdk.compiler.sym import Var
from sdk.compiler.verify.plan import check_plan, verify_plan
from sdk.errors import BuildError, UsageError


def data(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


def agrees(module: Module, steps: int = 1, io: str = "arena", **shapes: tuple[int, ...]) -> Module:
    """Plans, verifies and runs; every output and state equals the graph's. The planned module."""
    planned = PlanMemory(io).run(module)
    (plan,) = planned.plans.values()
    assert verify_plan(planned, plan) == []
    memory = initial_states(planned, plan.name)
    states = {n: np.full(s.type.static_shape, s.init, s.type.dtype.numpy) for n, s in module.states.items()}
    for step in range(steps):
        inputs = {n: data(s, step) for n, s in shapes.items()}
        found = run_plan(planned, plan.name, inputs, memory)
        wanted = run_graph(module, inputs, states, plan.name)
        for name, value in zip(plan.outputs, wanted, strict=True):
            np.testing.assert_array_equal(found[name], value)
        for name, value in states.items():
            at = plan.buffer(name).offset
            np.testing.assert_array_equal(memory[at : at + value.nbytes], value.reshape(-1).view(np.uint8))
    return planned


def residual() -> tuple[Net, Value, Value]:
    net = Net()
    x = net.input("x", 1, 12, 12, 4)
    b = net.conv(net.conv(x, 4), 4)
    return net, x, net.op("add_q", b, x, name="sum", **ADD)


@pytest.mark.parametrize("io", ["arena", "caller"])
def test_residual_net(io: str) -> None:
    net, _, total = residual()
    flat = net.op("reshape", total, shape=(1, 576))
    out = net.requantize(
        net.op("dense", flat, net.const((5, 576)), net.const((5,), I32), w_offset=0, x_offset=128)
    )
    planned = agrees(net.module(out), io=io, x=(1, 12, 12, 4))
    plan = planned.plans["main"]
    total_buffer = plan.buffer("sum")
    assert total_buffer.alias == "t3"
    assert total_buffer.offset == plan.buffer("t3").offset
    assert plan.buffer(flat.name).alias == "sum"
    assert (
        plan.region("arena").bytes
        == plan.lower_bound
        == (12 * 12 * 4 * (4 + 1 + 1) if io == "arena" else 2880)
    )
    assert planned.graphs == {}
    assert planned.stage == "planned"
    assert [r.name for r in plan.regions if r.kind == "caller"] == ([] if io == "arena" else ["x", out.name])


def test_input_dies_in_place() -> None:
    net = Net()
    x = net.input("x", 1, 8, 8, 4)
    y = net.op("relu", x, name="y")
    plan = agrees(net.module(y), x=(1, 8, 8, 4)).plans["main"]
    assert plan.buffer("y").alias == "x"
    assert plan.region("arena").bytes == 256
    assert agrees(net.module(y), io="caller", x=(1, 8, 8, 4)).plans["main"].buffer("y").alias == ""


def test_same_value_in_both_operands() -> None:
    net = Net()
    x = net.input("x", 1, 8, 8, 4)
    a = net.op("relu", x)
    y = net.op("add_q", a, a, name="y", **ADD)
    assert agrees(net.module(y), x=(1, 8, 8, 4)).plans["main"].region("arena").bytes == 256


def test_result_of_a_window_begins_below_its_input() -> None:
    net = Net()
    x = net.input("x", 1, 8, 8, 4)
    y = net.op("max_pool2d", x, kernel=(3, 3), stride=(1, 1), pad=(1, 1, 1, 1), lo=-128, hi=127, name="y")
    plan = agrees(net.module(y), x=(1, 8, 8, 4)).plans["main"]
    assert plan.buffer("y").alias == ""
    assert plan.region("arena").bytes == 256 + 48  # of three rows of 32 bytes, half of one is read a second time


@pytest.mark.parametrize("io", ["arena", "caller"])
def test_odd_results_get_their_own_bytes(io: str) -> None:
    net = Net()
    x = net.input("x", 1, 4, 4, 4)
    y = net.op("relu", x, name="y")
    v = net.op("reshape", y, shape=(1, 64), name="v")
    c = net.const((3,), name="c")
    planned = agrees(net.module(y, x, v, y, c), io=io, x=(1, 4, 4, 4))
    plan = planned.plans["main"]
    assert plan.outputs[0] == "y"
    assert len(set(plan.outputs)) == 5
    assert sum(isinstance(s, Copy) for s in plan.body) == 4


def test_names_are_unique() -> None:
    net = Net()
    x = net.input("c", 1, 4, 4, 4)
    c = net.const((1, 4, 4, 4), name="c")
    plan = PlanMemory().run(net.module(net.op("add_q", x, c, name="s", **ADD))).plans["main"]
    assert plan.inputs == ("c_2",)
    assert plan.buffer("c").role == "const"


# --- states --------------------------------------------------------------------------------------------


def test_state_written_by_its_producer() -> None:
    """A running sum: read and replaced in place, nothing copied, nothing in the arena but the input."""
    net = Net()
    x = net.input("x", 1, 6, 6, 4)
    net.state("acc", 1, 6, 6, 4, init=3)
    old = net.read("acc", "old")
    new = net.op("add_q", x, old, name="new", **ADD)
    net.write("acc", new)
    y = net.op("relu", net.read("acc", "again"), name="y")
    plan = agrees(net.module(y), steps=4, x=(1, 6, 6, 4)).plans["main"]
    assert not any(isinstance(s, Copy) for s in plan.body)
    assert plan.buffer("new").region == "state"
    assert plan.buffer("new").alias == "acc"
    assert plan.body[0].args == ("x", "acc", "new")
    assert plan.region("arena").bytes == 144  # x, then y


def test_pending_reader_forbids_the_direct_write() -> None:
    net = Net()
    x = net.input("x", 1, 6, 6, 4)
    net.state("acc", 1, 6, 6, 4)
    old = net.read("acc", "old")
    new = net.op("add_q", x, old, name="new", **ADD)
    net.write("acc", new)
    y = net.op("add_q", new, old, name="y", **ADD)
    plan = agrees(net.module(y), steps=3, x=(1, 6, 6, 4)).plans["main"]
    assert sum(isinstance(s, Copy) for s in plan.body) == 2  # the old value, and the new one


def test_states_swap() -> None:
    net = Net()
    x = net.input("x", 1, 4, 4, 4)
    net.state("a", 1, 4, 4, 4, init=1)
    net.state("b", 1, 4, 4, 4, init=2)
    a, b = net.read("a", "va"), net.read("b", "vb")
    net.write("a", b)
    net.write("b", a)
    y = net.op("add_q", x, net.read("a", "va2"), **ADD)
    net.write("a", y)
    net.write("a", net.read("b", "vb2"))
    agrees(net.module(y), steps=3, x=(1, 4, 4, 4))


def test_shift_register_moves_in_place() -> None:
    """state[i] = state[i + 1] reads each element just before it is lost; the other way round it does not."""
    for step, copies in ((1, 0), (-1, 1)):
        net = Net()
        x = net.input("x", 8)
        net.state("line", 8, init=5)
        old = net.read("line", "old")
        out = Value("new", TensorType(I8, (8,)))
        k = variable("k", 7)
        here, there = (k.expr, k.expr + 1) if step > 0 else (k.expr + 1, k.expr)
        params = [param("x", x.type), param("s", out.type), param("o", out.type, "write")]
        body = [loop(k, 7, Store("o", (here,), Load("s", (there,), I8)))]
        body.append(Store("o", (7 if step > 0 else 0,), Load("x", (0,), I8)))
        net.call(function("shift", params, body), (x, old), (out,))
        net.write("line", out)
        y = net.op("relu", out, name="y")
        plan = agrees(net.module(y), steps=3, x=(8,)).plans["main"]
        assert sum(isinstance(s, Copy) for s in plan.body) == copies


def test_view_of_a_state() -> None:
    net = Net()
    x = net.input("x", 1, 4, 4, 4)
    net.state("s", 1, 4, 4, 4, init=7)
    flat = net.op("reshape", net.read("s", "r"), shape=(4, 16))
    y = net.op("relu", flat)
    net.write("s", net.op("relu", x))
    agrees(net.module(y), steps=2, x=(1, 4, 4, 4))


# --- scratch, dims, errors -----------------------------------------------------------------------------


def reversing(net: Net, x: Value) -> Value:
    """Reverses rows through a scratch copy, so that input, scratch and output are live at once."""
    rows, cols = x.type.shape
    i, j, i2, j2 = (variable(n, d) for n, d in (("i", rows), ("j", cols), ("i2", rows), ("j2", cols)))
    copy = loop(i, rows, loop(j, cols, Store("tmp", (i.expr, j.expr), Load("x", (i.expr, j.expr), I8))))
    back = Store("o", (i2.expr, j2.expr), Load("tmp", (rows - 1 - i2.expr, j2.expr), I8))
    out = Value(f"rev{net.count}", x.type)
    net.count += 1
    body = [Alloc(Buffer("tmp", I8, (rows, cols), "scratch")), copy, loop(i2, rows, loop(j2, cols, back))]
    net.call(
        function(f"rev_{net.count}", [param("x", x.type), param("o", x.type, "write")], body), (x,), (out,)
    )
    return out


def test_scratch_lives_for_its_call() -> None:
    net = Net()
    x = net.input("x", 8, 32)
    a = reversing(net, x)
    y = net.op("relu", reversing(net, a), name="y")
    plan = agrees(net.module(y), x=(8, 32)).plans["main"]
    calls = [s for s in plan.body if isinstance(s, PlanCall)]
    assert [bool(c.scratch) for c in calls] == [True, True, False]
    assert plan.buffer(calls[0].scratch).type.nbytes == 256
    assert plan.buffer("rev0").alias == "x"  # through the scratch copy even a reversal is in place
    assert plan.region("arena").bytes == 512


def test_symbolic_sizes_are_placed_at_their_largest() -> None:
    n = Var("n", 1, 10)
    net = Net()
    net.dims = (n,)
    x = net.input("x", 1, n.expr, 4, 4)
    a = net.conv(x, 4)
    y = net.op("add_q", a, x, name="y", **ADD)
    module = net.module(y)
    planned = PlanMemory().run(module)
    plan = planned.plans["main"]
    assert verify_plan(planned, plan) == []
    assert plan.region("arena").bytes == 10 * 16 * (4 + 1 + 1)
    for size in (1, 3, 10):
        inputs = {"x": data((1, size, 4, 4), size)}
        np.testing.assert_array_equal(
            run_plan(planned, "main", inputs)["y"], run_graph(module, inputs, {})[0]
        )
    with pytest.raises(UsageError, match=r"x axis 1 makes n = 11, outside its bounds 1\.\.10"):
        run_plan(planned, "main", {"x": data((1, 11, 4, 4))})


def test_limit_says_by_how_much_and_what_takes_it() -> None:
    net, _, total = residual()
    module = net.module(total)
    with pytest.raises(BuildError) as caught:
        PlanMemory(limit=500).run(module)
    found = re.match(r"the arena needs ([\d,]+) B, ([\d,]+) B more than the limit of 500 B", caught.value.message)
    assert found is not None
    minimum = int(found[1].replace(",", ""))
    assert minimum == 500 + int(found[2].replace(",", ""))
    assert caught.value.why is not None
    assert caught.value.why.startswith("live at the peak: %x 576 B")
    assert f"--arena-limit to {minimum}" in str(caught.value.hint)
    assert PlanMemory(limit=minimum).run(module).plans["main"].region("arena").bytes == minimum
    assert PlanMemory(limit=3456).run(module) == PlanMemory().run(module)


def test_ops_must_be_lowered() -> None:
    net = Net()
    x = net.input("x", 4)
    y = Value("y", x.type)
    net.body.append(Call((y,), "op", "relu", (x,)))
    with pytest.raises(BuildError, match="op relu was not lowered"):
        PlanMemory().run(net.module(y))


def test_extern_calls_are_planned() -> None:
    net = Net()
    x = net.input("x", 16)
    a, y = Value("a", x.type), Value("y", x.type)
    net.body.append(Call((a,), "extern", "lib_first", (x,)))
    net.body.append(Call((y,), "extern", "lib_second", (a, x)))
    planned = PlanMemory().run(net.module(y))
    plan = planned.plans["main"]
    check_plan(planned, plan)
    assert all(isinstance(s, PlanCall) and s.extern for s in plan.body)
    assert plan.region("arena").bytes == 48
    with pytest.raises(BuildError, match="numpy cannot run it"):
        run_plan(planned, "main", {"x": data((16,))})


def test_dead_values_and_unused_inputs() -> None:
    net = Net()
    x, _ = net.input("x", 1, 4, 4, 4), net.input("unused", 1, 4, 4, 4)
    net.op("relu", x)
    agrees(net.module(net.op("relu", x)), x=(1, 4, 4, 4), unused=(1, 4, 4, 4))


OPS = ("conv", "depth", "relu", "add", "pool", "reverse_view", "state")


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(OPS), st.integers(0, 99)), min_size=1, max_size=8), st.booleans())
def test_random_nets(steps: list[tuple[str, int]], caller: bool) -> None:
    """Random graphs with skips, views and states compute under their plan what they say."""
    net = Net(seed=len(steps))
    shape = (1, 6, 5, 4)
    values = [net.input("x", *shape)]
    for k, (what, pick) in enumerate(steps):
        v = values[pick % len(values)]
        match what:
            case "conv":
                values.append(net.conv(v, 4))
            case "depth":
                values.append(net.conv(v, 4, op="depthwise_conv2d"))
            case "relu":
                values.append(net.op("relu", v))
            case "add":
                values.append(net.op("add_q", v, values[-1], **ADD))
            case "pool":
                values.append(
                    net.op("max_pool2d", v, kernel=(3, 3), stride=(1, 1), pad=(1, 1, 1, 1), lo=-128, hi=127)
                )
            case "reverse_view":
                flat = net.op("reshape", v, shape=(1, 120))
                values.append(net.op("reshape", net.op("relu", flat), shape=shape))
            case "state":
                name = f"s{pick % 2}"
                if name not in net.states:
                    net.state(name, *shape, init=pick % 5)
                values.append(net.read(name, f"r{k}"))
                net.write(name, v)
    results = [values[-1], *(values[p % len(values)] for _, p in steps[:2])]
    agrees(net.module(*results), steps=2, io="caller" if caller else "arena", x=shape)
