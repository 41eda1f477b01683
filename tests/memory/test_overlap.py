"""Results over inputs that lie elsewhere: the lag that the planner asks for is enough, what the verifier lets pass is
right statement by statement, and the interpreter runs such calls in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from memory_nets import Net, run_graph
from mutations import with_buffer
from sound_plans import turned
from touched import touched

from sdk.compiler.interp.loops import run_loops
from sdk.compiler.interp.plan import run_plan
from sdk.compiler.ir.intrinsics import imm, op
from sdk.compiler.ir.loops import Alloc, Buffer, Eval, For, Load, Loops, Stmt, Store
from sdk.compiler.ir.types import F32, I8, I16, I32, U8, DType, TensorType
from sdk.compiler.memory.overlap import min_lag
from sdk.compiler.ops.build import function, loop, param, variable
from sdk.compiler.passes.plan_memory import PlanMemory
from sdk.compiler.sym import Dim, dmax, dmin
from sdk.compiler.verify.plan import verify_plan
from sdk.compiler.verify.plan_overlap import reads_come_first

ROWS, GIVEN, MADE = 9, 4, 6
r, j, k = variable("r", ROWS), variable("j", GIVEN), variable("k", MADE)


def of(*body: Stmt, x: tuple[Dim, ...] = (ROWS, GIVEN), o: tuple[Dim, ...] = (ROWS, MADE),
       types: tuple[DType, DType] = (I8, I8)) -> Loops:  # fmt: skip
    params = [param("x", TensorType(types[0], x)), param("o", TensorType(types[1], o), "write")]
    return function("f", params, body)


def pixels(kind: str = "serial", types: tuple[DType, DType] = (I8, I8), until: bool = False) -> Loops:
    """Row by row all that is read, then all that is written."""
    body = loop(
        r, ROWS,
        Alloc(Buffer("row", types[0], (GIVEN,), "scratch")),
        loop(j, GIVEN, Store("row", (j.expr,), Load("x", (r.expr, j.expr), types[0]))),
        loop(k, MADE, Store("o", (r.expr, k.expr), op("cast", Load("row", (dmin(k.expr, GIVEN - 1),), types[0]),
                                                       dtype=types[1]))),
    )  # fmt: skip
    end = op("lt", imm(1, I32), imm(0, I32)) if until else None
    return of(replace(body, kind=kind, until=end), types=types)


def in_order(loops: Loops, shift: int) -> bool:
    """By walking the function: whether no element of x is read once the result, ``shift`` behind it, covers it."""
    found = touched(loops, {})
    last, first = found.last_read["x"], found.first_write["o"]
    return all(last.get(at + shift, 0) <= time for at, time in first.items())


def check_by_running(loops: Loops, lag: int) -> None:
    """In one memory a run gives what it gives in two."""
    x, o = loops.param("x").buffer, loops.param("o").buffer
    sizes = [int(np.prod(b.type.static_shape)) for b in (x, o)]
    memory = np.zeros(lag + max(sizes[0], sizes[1]) + 1, x.dtype.numpy)
    memory[lag : lag + sizes[0]] = np.arange(sizes[0]) * 37 + 5
    apart = memory[lag : lag + sizes[0]].copy().reshape(x.type.static_shape)
    wanted = np.full(o.type.static_shape, 99, o.dtype.numpy)
    run_loops(loops, {"x": apart, "o": wanted})
    written = np.full(sizes[1], False)
    written[[*touched(loops, {}).first_write["o"]]] = True
    shared = memory[: sizes[1]].reshape(o.type.static_shape)
    source = memory[lag : lag + sizes[0]].reshape(x.type.static_shape)
    run_loops(loops, {"x": source, "o": shared}, overlaps=[("o", "x")])
    np.testing.assert_array_equal(shared.reshape(-1)[written], wanted.reshape(-1)[written])


@pytest.mark.parametrize(("given", "made"), [(4, 6), (6, 4), (5, 5), (1, 9), (9, 1)])
def test_pixels_of_more_or_fewer_channels(given: int, made: int) -> None:
    """A result of more channels begins as far below as it is longer; each needs one pixel more, no result less."""
    a, b, c = variable("a", ROWS), variable("b", given), variable("c", made)
    body = loop(
        a, ROWS,
        Alloc(Buffer("row", I8, (given,), "scratch")),
        loop(b, given, Store("row", (b.expr,), Load("x", (a.expr, b.expr), I8))),
        loop(c, made, Store("o", (a.expr, c.expr), Load("row", (dmin(c.expr, given - 1),), I8))),
    )  # fmt: skip
    loops = of(body, x=(ROWS, given), o=(ROWS, made))
    lag = min_lag(loops, "o", "x")
    assert lag == max(max(ROWS * (made - given), made - given) + given, made, 0)
    check_by_running(loops, lag)
    assert reads_come_first(loops, "o", "x", -lag)
    for shift in range(-lag, ROWS * max(given, made)):
        assert reads_come_first(loops, "o", "x", shift) == in_order(loops, shift)


@pytest.mark.parametrize("case", [
    lambda: pixels("parallel"), lambda: pixels("bind"), lambda: pixels(until=True),
    lambda: pixels(types=(I8, I16)), lambda: pixels(types=(I32, F32)), lambda: pixels(types=(I16, I8)),
    lambda: of(Eval("memcpy", (Load("o", (0, 0), I8), Load("x", (0, 0), I8)))),
    lambda: replace(pixels(), params=tuple(replace(p, mode="update") for p in pixels().params)),
])  # fmt: skip
def test_no_lag_is_known(case: Callable[[], Loops]) -> None:
    """Iterations at once, early ends, other types, library symbols, results that are read."""
    assert min_lag(case(), "o", "x") is None


def test_the_verifier_refuses_what_has_no_order() -> None:
    far = -10 * ROWS
    assert reads_come_first(pixels(), "o", "x", far)
    assert reads_come_first(pixels(types=(I8, U8)), "o", "x", far)
    for wrong in (pixels("parallel"), pixels("bind"), pixels(until=True), pixels(types=(I8, I16))):
        assert not reads_come_first(wrong, "o", "x", far)
    assert not reads_come_first(pixels(types=(I16, I16)), "o", "x", far + 1), "half an element"


def random_function(rng: Random) -> Loops:
    """Rows of windows, steps and channels in random order, through scratch or not, written before it is read too."""
    given, made, rows, taps = rng.randint(1, 5), rng.randint(1, 5), rng.randint(1, 6), rng.randint(1, 3)
    step, back, flip = rng.randint(1, 2), rng.randint(0, 2), rng.random() < 0.2
    a, b, c, t = (variable(n, e) for n, e in zip("abct", (rows, given, made, taps), strict=True))
    last = rows * step - 1
    at = dmax(dmin(a.expr * step + t.expr - back, last), 0)
    row = last - at if flip else at
    read = Load("x", (row, b.expr), I8)
    row_scratch = Buffer("row", I8, (given,), "scratch")
    first = loop(t, taps, loop(b, given, Store("row", (b.expr,), read)))
    write = loop(c, made, Store("o", (a.expr, c.expr), Load("row", (dmin(c.expr, given - 1),), I8)))
    direct = loop(c, made, loop(t, taps, Store("o", (a.expr, c.expr), Load("x", (row, dmin(c.expr, given - 1)), I8))))
    parts: list[Stmt] = rng.choice([[first, write], [direct], [first, write, direct], [direct, first]])
    body: list[Stmt] = [loop(a, rows, Alloc(row_scratch), *parts)]
    if rng.random() < 0.2:
        body = [Alloc(row_scratch), *(loop(a, rows, s) for s in parts)]
    elif rng.random() < 0.2:
        n = variable("n", 2)
        body = [loop(n, 2, *body)]
    kind = rng.choice(["serial", "serial", "unroll"])
    body = [replace(s, kind=kind) if isinstance(s, For) else s for s in body]
    return of(*body, x=(rows * step, given), o=(rows, made))


@pytest.mark.some(30)
@pytest.mark.parametrize("seed", range(60))
def test_random_functions(seed: int) -> None:
    """The planner's lag satisfies the verifier; what satisfies the verifier is what is in order."""
    loops = random_function(Random(seed))
    lag = min_lag(loops, "o", "x")
    assert lag is not None
    assert reads_come_first(loops, "o", "x", -lag)
    check_by_running(loops, lag)
    size = int(np.prod(loops.param("x").buffer.type.static_shape))
    for shift in range(-size - 4, size + 4):
        assert reads_come_first(loops, "o", "x", shift) == in_order(loops, shift)
        if shift < -lag:
            assert reads_come_first(loops, "o", "x", shift), "further below is as good"


@pytest.mark.parametrize("channels", [(7, 5, 6), (9, 3, 8, 2), (4, 4, 4), (1, 12, 1), (3, 2, 1)])
def test_plans_run_in_order(channels: tuple[int, ...]) -> None:
    """Larger than the live set of two results no plan is, and the bytes are those of separate tensors."""
    net = Net()
    value = net.input("x", 1, 6, 5, 4)
    for n, count in enumerate(channels):
        value = turned(net, value, count, f"v{n}")
    module = net.module(value)
    planned = PlanMemory(align=1).run(module)
    plan = planned.plans["main"]
    apart = PlanMemory(align=1, overlap=False).run(module).plans["main"]
    assert verify_plan(planned, plan) == []
    if channels != (4, 4, 4):
        assert plan.region("arena").bytes < apart.region("arena").bytes
    x = np.random.default_rng(0).integers(-128, 128, (1, 6, 5, 4)).astype(np.int8)
    found = run_plan(planned, "main", {"x": x})
    np.testing.assert_array_equal(found[plan.outputs[0]], run_graph(module, {"x": x}, {})[0])


def test_an_input_that_lies_too_low_is_found() -> None:
    net = Net()
    value = turned(net, turned(net, net.input("x", 1, 6, 5, 4), 6, "a"), 3, "b")
    module = PlanMemory(align=1).run(net.module(value))
    plan = module.plans["main"]
    up = with_buffer(plan, "x", offset=plan.buffer("x").offset - 12)  # the planner leaves a pixel or two
    found = verify_plan(replace(module, plans={"main": up}), up)
    assert any("which the call still reads" in f.message for f in found)


def test_threads_and_callers_keep_results_apart() -> None:
    net = Net()
    module = net.module(turned(net, net.input("x", 1, 6, 5, 4), 6, "a"))
    sizes = [PlanMemory(**given).run(module).plans["main"].region("arena").bytes for given in (
        {}, {"overlap": False}, {"threads": 2})]  # fmt: skip
    assert sizes[0] < sizes[1] <= sizes[2]
    assert PlanMemory(io="caller").run(module).plans["main"].region("arena").bytes <= 16
