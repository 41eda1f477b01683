"""Primitives for lanes: what they make of a nest of any length, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.intrinsics import cast, idx, imm, op
from sdk.compiler.ir.loops import Alloc, Block, Buffer, For, If, Let, Load, Loops, Op, Param, Ref, Store
from sdk.compiler.ir.types import F32
from sdk.compiler.ir.walk import walk
from sdk.compiler.schedules.conditions import partition, simplify_conditions
from sdk.compiler.schedules.lanes import accumulate, strip
from sdk.compiler.schedules.locate import ScheduleError, has, loops_in
from sdk.compiler.schedules.tensorize import vectorize
from sdk.compiler.schedules.transpose import inline, transpose_tile
from sdk.compiler.sym import Dim, Var

N = Var("n", 1, 40)


def total(name: str, start: float, extent: Dim) -> Loops:
    """o = the sum, product or extreme of a, with ``start``."""
    i = Var("i", 0, 39)
    acc, a = Load("acc", (), F32), Load("a", (i.expr,), F32)
    body = (
        Alloc(Buffer("acc", F32, (), "register")),
        Store("acc", (), imm(start, F32)),
        For(i, 0, extent, Block((Store("acc", (), op(name, acc, a)),))),
        Store("o", (0,), acc),
    )
    dims = (N,) if extent is N.expr else ()
    params = (Param(Buffer("a", F32, (extent,)), "read"), Param(Buffer("o", F32, (1,)), "write"))
    return Loops("f", dims, params, Block(body))


def padded(extent: Dim = 9) -> Loops:
    """o[i] = (a[i - 1] or 0) + i, by a scalar and a check."""
    i = Var("i", 0, 8)
    inside = op("and", op("ge", idx(i.expr - 1), imm(0)), op("lt", idx(i.expr - 1), imm(8)))
    read = op("select", inside, Load("a", (i.expr - 1,), F32), imm(0.0, F32), dtype=F32)
    body = Block((Let("s", cast(idx(i.expr), F32)), Store("o", (i.expr,), op("add", read, Ref("s", F32)))))
    params = (Param(Buffer("a", F32, (8,)), "read"), Param(Buffer("o", F32, (9,)), "write"))
    return Loops("p", (), params, Block((For(i, 0, extent, body),)))


def turned(size: int = 4) -> Loops:
    """o[i, j] = a[j, i]."""
    i, j = Var("i", 0, size - 1), Var("j", 0, size - 1)
    store = Store("o", (i.expr, j.expr), Load("a", (j.expr, i.expr), F32))
    params = (Param(Buffer("a", F32, (size, size)), "read"), Param(Buffer("o", F32, (size, size)), "write"))
    return Loops("t", (), params, Block((For(i, 0, size, Block((For(j, 0, size, Block((store,))),))),)))


def result(loops: Loops, data: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    arrays = {"a": data.astype(np.float32), "o": np.full(shape, 7, np.float32)}
    run_loops(loops, arrays)
    return arrays["o"]


@pytest.mark.parametrize("ways", [1, 3])
@pytest.mark.parametrize("name", ["add", "mul", "max", "min"])
def test_accumulate_for_every_length(name: str, ways: int) -> None:
    fold = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[name]
    for n in range(1, 41):
        done = accumulate(total(name, 2.0, n), "i", 4, ways)
        data = np.random.default_rng(n).choice([-2.0, -1.0, 1.0, 2.0], n)
        assert result(done, data, (1,))[0] == fold(fold.reduce(data.astype(np.float32)), np.float32(2))
    assert any(isinstance(n, If) for n in walk(accumulate(total(name, 2.0, N.expr), "i", 4, ways).body))


def test_accumulate_refuses_what_carries_more_than_one_value() -> None:
    with pytest.raises(ScheduleError, match="no single step"):
        accumulate(padded(), "i", 4, 1)
    with pytest.raises(ScheduleError, match="does not go on"):
        accumulate(_swapped(), "i", 4, 1)


def _swapped() -> Loops:
    """acc = a + acc: the result stands second."""
    i = Var("i", 0, 7)
    store = Store("acc", (), op("add", Load("a", (i.expr,), F32), Load("acc", (), F32)))
    body = (Alloc(Buffer("acc", F32, (), "register")), For(i, 0, 8, Block((store,))))
    return Loops("s", (), (Param(Buffer("a", F32, (8,)), "read"),), Block(body))


def test_strip_leaves_whole_vectors_and_a_rest() -> None:
    for n in (1, 3, 4, 5, 6, 8, 9):
        done = strip(inline(simplify_conditions(padded(n))), "i", 4)[0]
        assert has(done, "i_i") == (n >= 4)
        assert loops_in(done.body)[-1] == {0: "i_i", 1: "i_t"}.get(n % 4, "i_r")
        data = np.arange(8.0)
        np.testing.assert_array_equal(result(done, data, (9,))[:n], result(padded(n), data, (9,))[:n])


def test_ends_and_settle_free_the_inside_of_checks() -> None:
    done = simplify_conditions(partition(inline(padded()), "i", 1, 9)[0])
    assert loops_in(done.body) == ["i_a", "i"]
    inside = next(n for n in walk(done.body) if isinstance(n, For) and n.var.name == "i")
    assert not any(isinstance(n, Op) and n.name == "select" for n in walk(inside))
    assert any(isinstance(n, Op) and n.name == "select" for n in walk(done.body))
    np.testing.assert_array_equal(result(done, np.arange(8.0), (9,)), result(padded(), np.arange(8.0), (9,)))


def test_inline_leaves_no_scalar() -> None:
    done = inline(padded())
    assert not any(isinstance(n, Let | Ref) for n in walk(done.body))
    np.testing.assert_array_equal(result(done, np.arange(8.0), (9,)), result(padded(), np.arange(8.0), (9,)))


@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_transpose_tile(size: int) -> None:
    data = np.arange(size * size, dtype=np.float32).reshape(size, size)
    done = transpose_tile(turned(size), "i", "j")
    assert loops_in(done.body) == []
    np.testing.assert_array_equal(result(done, data, (size, size)), data.T)


def test_transpose_tile_wants_a_square_of_a_power_of_two() -> None:
    with pytest.raises(ScheduleError, match="no square"):
        transpose_tile(turned(6), "i", "j")
    with pytest.raises(ScheduleError, match="not consecutive"):
        vectorize(turned(4), "j")
