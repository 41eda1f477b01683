"""Products of 16-bit pairs: what the primitives make of a nest, where they refuse, and the rules that use them."""

from __future__ import annotations

import numpy as np
import pytest

from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.intrinsics import cast, idx, imm, op
from sdk.compiler.ir.loops import Alloc, Block, Buffer, For, Imm, Load, Loops, Op, Param, Store
from sdk.compiler.ir.packing import pack_array
from sdk.compiler.ir.types import I8, I32
from sdk.compiler.ir.walk import walk
from sdk.compiler.schedules.line_buffer import line_buffer
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.schedules.trace import Schedule, replay
from sdk.compiler.sym import Var

CHANNELS = 4


def windows(pixels: int, taps: int, step: int) -> Loops:
    """o[p, c] = sum_k x[step*p + k - 1, c] * w[k, c], where what is outside of x is 7."""
    size = step * (pixels - 1) + taps - 2
    c, p, k = Var("c", 0, CHANNELS - 1), Var("p", 0, pixels - 1), Var("k", 0, taps - 1)
    at = step * p.expr + k.expr - 1
    inside = op("and", op("ge", idx(at), imm(0)), op("lt", idx(at), imm(size)))
    x = Op("select", (inside, Load("x", (at, c.expr), I8), imm(7, I8)), I8)
    acc = Load("acc", (), I32)
    mac = op("mul", cast(x, I32), cast(Load("w", (k.expr, c.expr), I8), I32))
    body = Block(
        (
            Alloc(Buffer("acc", I32, (), "register")),
            Store("acc", (), imm(3)),
            For(k, 0, taps, Block((Store("acc", (), op("add", acc, mac)),))),
            Store("o", (p.expr, c.expr), acc),
        )
    )
    nest = For(c, 0, CHANNELS, Block((For(p, 0, pixels, body),)))
    params = (
        Param(Buffer("x", I8, (size, CHANNELS)), "read"),
        Param(Buffer("w", I8, (taps, CHANNELS)), "read"),
        Param(Buffer("o", I32, (pixels, CHANNELS)), "write"),
    )
    return Loops("windows", (), params, Block((nest,)))


def result(loops: Loops, plain: Loops) -> np.ndarray:
    rng = np.random.default_rng(5)
    arrays = {p.buffer.name: rng.integers(-128, 128, p.buffer.shape).astype(np.int8) for p in plain.params[:2]}
    for name, layout in loops.layouts.items():
        arrays[name] = pack_array(arrays[name], layout)
    arrays["o"] = np.zeros(plain.params[2].buffer.shape, np.int32)
    run_loops(loops, arrays)
    return arrays["o"]


def in_pairs(loops: Loops, tile: int) -> Schedule:
    """The windows in tiles of pixels, two taps at a time."""
    s = Schedule(loops).pack("w", 1, 1, 1).use_i16("w")
    s.use_i16(s.line_buffer("c", "x", 1).buffer.name)
    return s.unroll_and_jam(s.overlap("p", tile).inner, ["k"]).use_dual_mac("k")


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("taps", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("tile", [1, 2, 3, 5])
def test_pairs_sum_what_single_products_do(step: int, taps: int, tile: int) -> None:
    plain = windows(7, taps, step)
    done = in_pairs(plain, tile).done()
    np.testing.assert_array_equal(result(done, plain), result(plain, plain))
    assert replay(plain, done.trace) == done
    assert taps == 1 or any(isinstance(n, Op) and n.name in ("dot", "mac_pair") for n in walk(done.body))


def test_what_is_outside_is_filled_in_once() -> None:
    """Before the loop, where all of its iterations share the region: all of it, and no more later."""
    plain = windows(6, 3, 1)
    done, _ = line_buffer(plain, "c", "x", 1, 10)
    fills = [
        n for n in walk(done.body.body[-1]) if isinstance(n, Store) and isinstance(n.value, Imm) and n.buffer != "acc"
    ]
    region, fill, _ = done.body.body
    assert isinstance(region, Alloc)
    assert region.buffer.shape == (10,)
    assert isinstance(fill, For)
    assert (fill.lo, fill.hi) == (0, 10)
    assert not fills
    np.testing.assert_array_equal(result(done, plain), result(plain, plain))


def test_pairs_refuse_what_is_not_of_16_bits() -> None:
    s = Schedule(windows(6, 3, 1))
    s.line_buffer("c", "x", 1)
    s.unroll_and_jam(s.split("p", 2).inner, ["k"])
    with pytest.raises(ScheduleError, match="its factors are i8 and i8"):
        s.use_dual_mac("k")


def test_pairs_refuse_a_loop_of_one_sum() -> None:
    with pytest.raises(ScheduleError, match="more than one loop"):
        Schedule(windows(6, 3, 1)).use_dual_mac("k")


@pytest.mark.parametrize("buffer", ["x", "acc", "missing"])
def test_only_temporaries_and_packed_parameters_of_bytes_become_16_bits(buffer: str) -> None:
    with pytest.raises(ScheduleError, match="no temporary or packed parameter"):
        Schedule(windows(6, 3, 1)).use_i16(buffer)


def test_flatten_keeps_the_result() -> None:
    i, j = Var("i", 0, 3), Var("j", 0, 2)
    fill = Store("t", (i.expr, j.expr), Load("x", (i.expr, j.expr), I8))
    read = Store("o", (i.expr, j.expr), cast(Load("t", (i.expr, 2 - j.expr), I8), I32))
    nests = [For(i, 0, 4, Block((For(j, 0, 3, Block((stmt,))),))) for stmt in (fill, read)]
    params = (Param(Buffer("x", I8, (4, 3)), "read"), Param(Buffer("o", I32, (4, 3)), "write"))
    plain = Loops("turn", (), params, Block((Alloc(Buffer("t", I8, (4, 3), "scratch")), *nests)))
    done = Schedule(plain).flatten("t").done()
    arrays = {"x": np.arange(12, dtype=np.int8).reshape(4, 3), "o": np.zeros((4, 3), np.int32)}
    run_loops(done, arrays)
    np.testing.assert_array_equal(arrays["o"], arrays["x"][:, ::-1])
    with pytest.raises(ScheduleError, match="two axes"):
        Schedule(done).flatten("t")
