"""In-place analysis: what it allows is right in any order of loops, what it must refuse it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdk.compiler.analysis.rows_touched import rows_touched
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.intrinsics import imm, op
from sdk.compiler.ir.loops import Alloc, Buffer, Eval, For, Let, Load, Loops, Stmt, Store
from sdk.compiler.ir.types import I8, I16, I32, DType, TensorType
from sdk.compiler.memory.inplace import may_take_over
from sdk.compiler.ops.build import function, loop, param, variable
from sdk.compiler.ops.registry import OPS
from sdk.compiler.sym import Dim, Var, dmin, floordiv, mod

N = 24


def copying(*body: Stmt, shape: tuple[Dim, ...] = (N,), source: DType = I8) -> Loops:
    x, o = param("x", TensorType(source, shape)), param("o", TensorType(I8, shape), "write")
    return function("f", [x, o], body)


def move(to: Dim, at: Dim, lanes: int = 1) -> Store:
    return Store("o", (to,), Load("x", (at,), I8.with_lanes(lanes)))


i, j = variable("i", N), variable("j", N)
o4, i4 = variable("o4", N // 4), variable("i4", 4)
TILED = o4.expr * 4 + i4.expr
TMP = Alloc(Buffer("tmp", I8, (4,), "local"))
SYM = Var("n", 1, 99)
k_n = variable("k", SYM.expr)
QUOTIENT = floordiv(i.expr, 4) * 4 + mod(i.expr, 4)


def from_x(at: Dim) -> Load:
    return Load("x", (at,), I8)


ALLOWED = {
    "identity": copying(loop(i, N, move(i.expr, i.expr))),
    "symbolic": copying(loop(k_n, SYM.expr, move(k_n.expr, k_n.expr)), shape=(SYM.expr,)),
    "tiled": copying(loop(o4, N // 4, loop(i4, 4, move(TILED, TILED)))),
    "unrolled": copying(loop(o4, N // 4, *(move(o4.expr * 4 + k, o4.expr * 4 + k) for k in range(4)))),
    "lanes": copying(loop(o4, N // 4, move(o4.expr * 4, o4.expr * 4, lanes=4))),
    "staged": copying(
        loop(o4, N // 4, TMP,
             loop(i4, 4, Store("tmp", (i4.expr,), Load("x", (TILED,), I8))),
             loop(i4, 4, Store("o", (TILED,), Load("tmp", (i4.expr,), I8))))
    ),
    "shift down": copying(loop(i, N - 1, move(i.expr, i.expr + 1))),
    "parallel": copying(For(i, 0, N, loop(i, N, move(i.expr, i.expr)).body, "parallel")),
    "by quotient": copying(loop(i, N, move(QUOTIENT, QUOTIENT))),
    "copied in two parts, then stored where a run says": copying(
        loop(o4, 5, *(move(o4.expr * 4 + k, o4.expr * 4 + k) for k in range(4))),
        *(move(k, k) for k in range(20, N)),
        Let("at", imm(3, I32)),
        Store("o", (Var("at", *I32.limits).expr,), imm(1, I8)),
    ),
}  # fmt: skip
REFUSED = {
    "shift up": copying(loop(i, N - 1, move(i.expr + 1, i.expr))),
    "reverse": copying(loop(i, N, move(N - 1 - i.expr, i.expr))),
    "later loop": copying(
        loop(i, N, move(i.expr, i.expr)),
        loop(j, N, Store("o", (j.expr,), op("add", Load("o", (j.expr,), I8), from_x(j.expr)))),
    ),
    "stored where a run says, then copied": copying(
        Let("at", imm(3, I32)),
        Store("o", (Var("at", *I32.limits).expr,), imm(1, I8)),
        loop(i, N, move(i.expr, i.expr)),
    ),
    "stored where a run says between two parts of the copy": copying(
        loop(i, 20, move(i.expr, i.expr)),
        Let("at", imm(3, I32)),
        Store("o", (Var("at", *I32.limits).expr,), imm(1, I8)),
        *(move(k, k) for k in range(20, N)),
    ),
    "sum of all": copying(loop(i, N, loop(j, N, Store("o", (i.expr,), Load("x", (j.expr,), I8))))),
    "broken unroll": copying(
        loop(o4, N // 4, *(move(o4.expr * 4 + k, o4.expr * 4 + 3 - k) for k in range(4)))
    ),
    "lanes over the edge": copying(loop(o4, N // 4 - 1, move(o4.expr * 4 + 2, o4.expr * 4, lanes=4))),
    "parallel shift": copying(For(i, 0, N - 1, loop(i, N, move(i.expr, i.expr + 1)).body, "parallel")),
    "window": copying(loop(i, N, loop(j, 3, Store("o", (i.expr,), from_x(dmin(i.expr + j.expr, N - 1)))))),
    "library": copying(Eval("memcpy", (Load("o", (0,), I8), Load("x", (0,), I8)))),
    "wider": copying(
        loop(i, N, Store("o", (i.expr,), op("cast", Load("x", (i.expr,), I16), dtype=I8))), source=I16
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed(name: str) -> None:
    assert may_take_over(ALLOWED[name], "o", "x")
    if "symbolic" not in name:
        check_by_running(ALLOWED[name])


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    assert not may_take_over(REFUSED[name], "o", "x")


def check_by_running(loops: Loops) -> None:
    """In place gives the bytes that separate buffers give, where those are written."""
    x = np.arange(N, dtype=np.int8)
    copy = x.copy()
    run_loops(loops, {"x": x, "o": copy})
    shared = x.copy()
    run_loops(loops, {"x": shared, "o": shared})
    np.testing.assert_array_equal(shared, copy)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(-2, 2), st.integers(-2, 2), st.sampled_from([1, 2])), min_size=1, max_size=3
    ),
    st.integers(1, 3),
)
def test_random_affine_moves(moves: list[tuple[int, int, int]], stride: int) -> None:
    """Whatever the analysis allows of random moves holds when run."""
    k = variable("k", 4)
    body = [move(k.expr * stride + 4 + to, k.expr * stride + 4 + at, lanes) for to, at, lanes in moves]
    loops = copying(loop(k, 4, *body))
    if may_take_over(loops, "o", "x"):
        check_by_running(loops)


def test_every_elementwise_op_is_in_place_and_windows_are_not() -> None:
    def loops_of(name: str) -> Loops:
        sample = OPS[name].samples[0]
        out = OPS[name].infer(*sample.inputs, **dict(sample.attrs))
        return OPS[name].loops(name, sample.inputs, (out,), dict(sample.attrs))

    for name, source in (("add_q", "a"), ("add_q", "b"), ("relu", "x"), ("lookup", "x"), ("mul_q", "a")):
        assert may_take_over(loops_of(name), "o", source), name
    for name in ("transpose", "pad", "conv2d"):
        assert not may_take_over(loops_of(name), "o", "x"), name


def test_rows_a_call_touches() -> None:
    sample = OPS["conv2d"].samples[0]  # 3x3, stride 1, padded by 1, 7 rows
    attrs = dict(sample.attrs)
    conv = OPS["conv2d"].loops("c", sample.inputs, (OPS["conv2d"].infer(*sample.inputs, **attrs),), attrs)
    assert rows_touched(conv, "x", {}, (0, 1), store=False) == (0, 2)
    assert rows_touched(conv, "x", {}, (2, 4), store=False) == (1, 5)
    assert rows_touched(conv, "x", {}, (6, 7), store=False) == (5, 7)
    assert rows_touched(conv, "o", {}, (2, 4), store=True) == (2, 4)
    assert rows_touched(conv, "o", {}, (2, 4), store=False) == (0, 0)
    assert rows_touched(conv, "w", {}, (2, 4), store=False) == (0, 5)
