"""Two rows of weights in one: what join and unpack make of a product, what they refuse, what the rule chooses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sdk.compiler.analysis.pattern import classify
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.intrinsics import cast, imm, op
from sdk.compiler.ir.layout import Fuse, Interleave, Join, Layout, Pad, Tile
from sdk.compiler.ir.loops import Alloc, Block, Buffer, For, Load, Loops, Op, Param, Store
from sdk.compiler.ir.packing import pack_array
from sdk.compiler.ir.types import I8, I16, I32
from sdk.compiler.ir.walk import rewrite, walk
from sdk.compiler.machines.lookup import machine_for
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.schedules.rules import schedule_nest
from sdk.compiler.schedules.rules.joined import joinable
from sdk.compiler.schedules.trace import Schedule, replay
from sdk.compiler.sym import Var
from sdk.errors import BuildError

PACKED = (Fuse(1, -1), Tile(1, 4), Join(0, 2, I16))
CORE = machine_for(["thumb2", "dsp"])


def product(rows: int, channels: int, depth: int) -> Loops:
    """o[i, c] = bias[c] + sum_k x[i, k] * w[c, k]."""
    i, c, k = Var("i", 0, rows - 1), Var("c", 0, channels - 1), Var("k", 0, depth - 1)
    at = i.expr if rows > 1 else 0
    acc = Load("acc", (), I32)
    mac = op("mul", cast(Load("x", (at, k.expr), I8), I32), cast(Load("w", (c.expr, k.expr), I8), I32))
    body = Block(
        (
            Alloc(Buffer("acc", I32, (), "register")),
            Store("acc", (), Load("bias", (c.expr,), I32)),
            For(k, 0, depth, Block((Store("acc", (), op("add", acc, mac)),))),
            Store("o", (at, c.expr), acc),
        )
    )
    nest = For(i, 0, rows, Block((For(c, 0, channels, body),)))
    params = (
        Param(Buffer("x", I8, (rows, depth)), "read"),
        Param(Buffer("w", I8, (channels, depth)), "read"),
        Param(Buffer("bias", I32, (channels,)), "read"),
        Param(Buffer("o", I32, (rows, channels)), "write"),
    )
    return Loops("f", (), params, Block((nest,)))


def arrays(loops: Loops, low: int = -127, bias: int = 9999) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    shape = {p.buffer.name: p.buffer.shape for p in loops.params}
    return {
        "x": rng.integers(-128, 128, shape["x"]).astype(np.int8),
        "w": rng.integers(low, 128, shape["w"]).astype(np.int8),
        "bias": rng.integers(-bias, bias, shape["bias"]).astype(np.int32),
        "o": np.zeros(shape["o"], np.int32),
    }


def known(given: dict[str, np.ndarray]) -> dict[str, list[np.ndarray]]:
    return {"w": [given["w"]], "bias": [given["bias"]]}


def check(loops: Loops, done: Loops, last: int | None = None) -> None:
    """Runs the scheduled function on packed weights against numpy; ``last``: the bias of the last channel."""
    given = arrays(loops)
    given["bias"][-1] = given["bias"][-1] if last is None else last
    want = given["bias"] + given["x"].astype(np.int32) @ given["w"].astype(np.int32).T
    packed = {name: pack_array(given[name], layout) for name, layout in done.layouts.items()}
    run_loops(done, given := {**given, **packed})
    np.testing.assert_array_equal(given["o"], want)


@pytest.mark.parametrize(
    ("rows", "channels", "depth"),
    [(9, 16, 32), (8, 18, 64), (11, 16, 27), (5, 64, 30), (1, 64, 64), (1, 66, 64), (9, 8, 64)],
)
def test_the_rule_is_exact_for_tails_of_every_kind(rows: int, channels: int, depth: int) -> None:
    loops = product(rows, channels, depth)
    done = schedule_nest(Nest(loops, known=known(arrays(loops))), CORE)
    order = () if depth % 4 else (Interleave(2, 2),)
    assert done.param("w").layout.steps == (*PACKED, *order)
    assert done.param("w").buffer.dtype == I16
    check(loops, done)
    check(loops, replay(loops, done.trace))


@pytest.mark.parametrize(
    ("rows", "channels", "depth"), [(9, 17, 32), (8, 51, 51), (5, 3, 128), (125, 49, 50), (1, 65, 64), (1, 7, 332)]
)
def test_a_last_row_without_a_second_is_exact(rows: int, channels: int, depth: int) -> None:
    loops = product(rows, channels, depth)
    given = arrays(loops)
    given["bias"][-1] = last = (1 << 31) - 1 - 127 * 128 * depth  # it is in no sum of two
    done = schedule_nest(Nest(loops, known=known(given)), CORE)
    assert done.param("w").layout.steps[:4] == (Fuse(1, -1), Tile(1, 4), Pad(0, 2), Join(0, 2, I16))
    check(loops, done, last)
    check(loops, replay(loops, done.trace), last)


def test_what_pixels_read_is_unpacked_once_and_rows_alone_where_many_channels_read_them() -> None:
    for shape, staged in (((8, 64, 32), [I16]), ((32, 8, 32), [I16]), ((1, 64, 64), [I16]), ((1, 8, 640), [])):
        f = product(*shape)
        done = schedule_nest(Nest(f, known=known(arrays(f))), CORE)
        scratch = [n.buffer.dtype for n in walk(done.body) if isinstance(n, Alloc) and n.buffer.space == "scratch"]
        assert scratch == staged


def test_one_tile_serves_every_number_of_pixels() -> None:
    for rows in (8, 9):
        f = product(rows, 16, 32)
        done = schedule_nest(Nest(f, known=known(arrays(f))), CORE)
        assert [n.var.name for n in walk(done.body) if isinstance(n, For)].count("i_o") == 1
        assert not any(n.var.name.endswith("_t") for n in walk(done.body) if isinstance(n, For))


def _is_result(node: object) -> bool:
    return isinstance(node, Store) and node.buffer == "o"


def test_sums_that_are_shifted_left_are_shifted_once() -> None:
    loops = product(8, 16, 64)
    acc = Load("acc", (), I32)
    wide = rewrite(loops.body, lambda n: replace(n, value=op("shl", acc, imm(8))) if _is_result(n) else n)
    given = arrays(loops)
    done = schedule_nest(Nest(replace(loops, body=wide), known=known(given)), CORE)
    names = [n.name for n in walk(done.body) if isinstance(n, Op)]
    assert "shr" not in names
    assert names.count("shl") == 2  # of where sums start, and of the first of each pair
    packed = {name: pack_array(given[name], layout) for name, layout in done.layouts.items()}
    want = (given["bias"] + given["x"].astype(np.int32) @ given["w"].astype(np.int32).T) << 8
    run_loops(done, given := {**given, **packed})
    np.testing.assert_array_equal(given["o"], want)


def test_constants_decide_what_is_joined() -> None:
    loops = product(4, 8, 64)
    part = classify(loops).product
    assert part is not None
    given = arrays(loops)
    assert joinable(loops, part, known(given))
    assert not joinable(loops, part, {})
    far = {**given, "bias": given["bias"] + np.array([0, 1 << 23] * 4, np.int32)}
    assert not joinable(loops, part, known(far))  # an odd sum leaves 24 bits
    even = {**given, "bias": given["bias"] + np.array([1 << 23, 0] * 4, np.int32)}
    assert joinable(loops, part, known(even))
    minimum = given["w"].copy()
    minimum[1, 3], minimum[0, 3] = -128, -1
    assert not joinable(loops, part, {**known(given), "w": [given["w"], minimum], "bias": [given["bias"]] * 2})
    minimum[0, 3] = 0
    assert joinable(loops, part, {**known(given), "w": [minimum]})


def test_join_needs_packed_rows_and_pairs_of_sums() -> None:
    odd = Schedule(product(4, 7, 8)).pack("w", 1, 4)
    odd.use_dot(odd.split("k", 4).inner)
    with pytest.raises(ScheduleError, match="no even number of 32-bit registers"):
        odd.interleave_channels("w", "c_i")
    plain = Schedule(product(4, 8, 8))
    plain.split("c", 2)
    with pytest.raises(ScheduleError, match="not packed by 1 row and 4 columns"):
        plain.interleave_channels("w", "c_i")
    single = Schedule(product(4, 8, 8)).pack("w", 1, 4)
    single.split("c", 2)
    with pytest.raises(ScheduleError, match=r"not used in dot products|no even number"):
        single.interleave_channels("w", "c_i")


def test_unpack_refuses_a_window_that_is_read_as_it_is() -> None:
    s = Schedule(product(4, 8, 8))
    s.cache_read("i", "x", ["k"], 4)
    with pytest.raises(ScheduleError, match="read otherwise"):
        s.unpack("x_window")
    with pytest.raises(ScheduleError, match="no scratch buffer"):
        s.unpack("acc")


def test_packed_rows_hold_both() -> None:
    weights = np.array([[1, -2, 3, 4], [5, 6, -7, -128]], np.int8)
    rows = [5 * 256 + 1, 6 * 256 - 2, -7 * 256 + 3, -128 * 256 + 4]
    plain, paired = (pack_array(weights, Layout((*PACKED, *more))) for more in ((), (Interleave(2, 2),)))
    np.testing.assert_array_equal(plain.reshape(-1), rows)
    np.testing.assert_array_equal(paired.reshape(-1), [rows[k] for k in (0, 2, 1, 3)])
    weights[0, 3] = -4
    with pytest.raises(BuildError, match="2 elements joined in one do not fit i16"):
        pack_array(weights, Layout(PACKED))
