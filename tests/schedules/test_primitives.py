"""Each primitive: what it makes of a nest, and that it refuses where its obligation does not hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sdk.compiler.analysis.rows import row_granule
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.intrinsics import cast, op
from sdk.compiler.ir.loops import Alloc, Block, Buffer, For, Load, Loops, Op, Param, Rows, Store
from sdk.compiler.ir.types import F32, I8, I32, TensorType
from sdk.compiler.ir.walk import walk
from sdk.compiler.ops.registry import get_op, infer
from sdk.compiler.schedules.bind_rows import bind_rows
from sdk.compiler.schedules.blocks import overlap
from sdk.compiler.schedules.cache_read import cache_read
from sdk.compiler.schedules.fission import fission
from sdk.compiler.schedules.locate import ScheduleError, find, loops_in
from sdk.compiler.schedules.reshape_loops import bind, fuse, reorder, split, unroll
from sdk.compiler.schedules.tensorize import use_dot, use_dot_first, vectorize
from sdk.compiler.schedules.trace import PRIMITIVES, Schedule
from sdk.compiler.schedules.unroll_and_jam import unroll_and_jam
from sdk.compiler.sym import Var

M, N, K = 6, 10, 8


def product() -> Loops:
    """o[i, j] = sum_k a[i, k] * b[j, k]."""
    i, j, k = Var("i", 0, M - 1), Var("j", 0, N - 1), Var("k", 0, K - 1)
    acc = Load("acc", (), I32)
    mac = op("mul", cast(Load("a", (i.expr, k.expr), I8), I32), cast(Load("b", (j.expr, k.expr), I8), I32))
    body = Block(
        (
            Alloc(Buffer("acc", I32, (), "register")),
            Store("acc", (), op("sub", acc, acc)),
            For(k, 0, K, Block((Store("acc", (), op("add", acc, mac)),))),
            Store("o", (i.expr, j.expr), acc),
        )
    )
    nest = For(i, 0, M, Block((For(j, 0, N, body),)))
    params = (
        Param(Buffer("a", I8, (M, K)), "read"),
        Param(Buffer("b", I8, (N, K)), "read"),
        Param(Buffer("o", I32, (M, N)), "write"),
    )
    return Loops("f", (), params, Block((nest,)))


def running_sum() -> Loops:
    """o[i + 1] = o[i] + a[i]: iterations depend on each other."""
    i = Var("i", 0, 7)
    store = Store("o", (i.expr + 1,), op("add", Load("o", (i.expr,), I32), Load("a", (i.expr,), I32)))
    params = (Param(Buffer("a", I32, (8,)), "read"), Param(Buffer("o", I32, (9,)), "update"))
    return Loops("s", (), params, Block((For(i, 0, 8, Block((store,))),)))


def result(loops: Loops) -> np.ndarray:
    rng = np.random.default_rng(3)
    arrays = {
        "a": rng.integers(-128, 128, (M, K)).astype(np.int8),
        "b": rng.integers(-128, 128, (N, K)).astype(np.int8),
    }
    arrays["o"] = np.zeros((M, N), np.int32)
    run_loops(loops, arrays)
    return arrays["o"]


WANT = result(product())


@pytest.mark.parametrize("factor", [1, 2, 3, 4, 7, 10, 11])
def test_split_keeps_the_result_for_any_factor(factor: int) -> None:
    done = split(product(), "j", factor)[0]
    np.testing.assert_array_equal(result(done), WANT)
    assert ("j_t" in loops_in(done.body)) == (N % factor != 0)


@pytest.mark.parametrize("size", [1, 3, 4, 7, 10])
def test_overlap_goes_back_where_the_last_tile_is_not_full(size: int) -> None:
    done = overlap(product(), "j", size)[0]
    np.testing.assert_array_equal(result(done), WANT)
    assert "j_t" not in loops_in(done.body)


def test_overlap_refuses_what_must_not_run_twice() -> None:
    with pytest.raises(ScheduleError, match="run twice"):
        overlap(running_sum(), "i", 3)[0]
    with pytest.raises(ScheduleError, match="11 times or more"):
        overlap(product(), "j", 11)[0]


def test_random_sequences_keep_the_result() -> None:
    rng = np.random.default_rng(11)
    for _ in range(60):
        s = Schedule(product())
        for _ in range(int(rng.integers(1, 6))):
            names = loops_in(s.loops.body)
            name = names[rng.integers(len(names))]
            step = [
                ("split", name, int(rng.integers(1, 5))),
                ("unroll", name),
                ("unroll_and_jam", name, names),
                ("vectorize", name),
                ("reorder", name, names[-1]),
                ("fuse", name, names[-1], "f"),
            ][rng.integers(6)]
            before = s.loops
            try:
                s.do(*step)
            except ScheduleError:
                assert s.loops is before
        np.testing.assert_array_equal(result(s.loops), WANT, err_msg="; ".join(s.steps))


def test_fuse_and_reorder() -> None:
    np.testing.assert_array_equal(result(fuse(product(), "i", "j", "p")[0]), WANT)
    swapped = reorder(product(), "i", "j")
    assert loops_in(swapped.body)[:2] == ["j", "i"]
    np.testing.assert_array_equal(result(swapped), WANT)


def test_a_tail_is_unrolled() -> None:
    done, tiles = split(product(), "k", 6)
    done = unroll(done, tiles.tail)
    assert find(done, tiles.tail).kind == "unroll"
    np.testing.assert_array_equal(result(done), WANT)


def test_jam_gives_each_iteration_its_accumulator() -> None:
    done = unroll_and_jam(split(product(), "j", 2)[0], "j_i", ["k"])
    acc = next(n.buffer for n in walk(done.body) if isinstance(n, Alloc))
    assert acc.shape == (2,)
    assert [n.var.name for n in walk(find(done, "k")) if isinstance(n, For)] == ["k", "j_i"]
    np.testing.assert_array_equal(result(done), WANT)


def test_use_dot_makes_one_operation_of_a_reduction() -> None:
    done = use_dot(split(product(), "k", 4)[0], "k_i")
    assert any(isinstance(n, Op) and n.name == "dot" for n in walk(done.body))
    np.testing.assert_array_equal(result(done), WANT)


def test_use_dot_first_takes_what_is_left_of_a_reduction() -> None:
    done = use_dot_first(use_dot_first(split(product(), "k", 5)[0], "k_i", 8), "k_t", 4)
    dots = [n for n in walk(done.body) if isinstance(n, Op) and n.name == "dot"]
    assert [[(n.dtype.lanes, n.count) for n in d.args[1:]] for d in dots] == [[(8, 5), (8, 5)], [(4, 3), (4, 3)]]
    np.testing.assert_array_equal(result(done), WANT)
    with pytest.raises(ScheduleError, match="at most 4 further"):
        use_dot_first(product(), "k", 4)


def test_sums_are_kept_on_the_stack_and_read_back_as_vectors() -> None:
    done = vectorize(fission(split(product(), "j", 2)[0], "j_i", "local")[0], "j_i_e")
    kept = next(n.buffer for n in walk(done.body) if isinstance(n, Alloc) and n.buffer.space == "local")
    assert kept.shape == (2,)
    assert any(isinstance(n, Load) and n.buffer == kept.name and n.dtype.lanes == 2 for n in walk(done.body))
    np.testing.assert_array_equal(result(done), WANT)
    with pytest.raises(ScheduleError, match="not kept in heap"):
        fission(split(product(), "j", 2)[0], "j_i", "heap")[0]  # type: ignore[arg-type]


def test_elements_are_staged_in_registers() -> None:
    plain = product()
    operand = plain.params[1].buffer.name
    done = cache_read(unroll_and_jam(split(plain, "j", 2)[0], "j_i", ["k"]), "k", operand, ["j_i"], 1, "register")[0]
    window = next(n.buffer for n in walk(done.body) if isinstance(n, Alloc) and "window" in n.buffer.name)
    assert (window.space, window.shape) == ("register", (2,))
    np.testing.assert_array_equal(result(done), WANT)
    with pytest.raises(ScheduleError, match="not kept in heap"):
        cache_read(plain, "j", operand, ["k"], 1, "heap")[0]  # type: ignore[arg-type]


def test_dependent_iterations_are_refused() -> None:
    with pytest.raises(ScheduleError, match="may touch the same element of o"):
        vectorize(running_sum(), "i")


def test_dependent_iterations_are_not_bound_or_jammed() -> None:
    with pytest.raises(ScheduleError, match="same element"):
        bind(running_sum(), "i", "local.x")
    with pytest.raises(ScheduleError, match="same element"):
        unroll_and_jam(running_sum(), "i", [])


def test_reduction_loop_is_not_bound() -> None:
    with pytest.raises(ScheduleError, match="acc"):
        bind(product(), "k", "local.x")


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (("split", "z", 2), "no loop z"),
        (("split", "j", 0), "at least 1"),
        (("fuse", "j", "k", "f"), "not alone"),
        (("vectorize", "k"), "acc"),
        (("use_dot", "j"), "one statement"),
        (("pack", "o", 2, 2), "written"),
        (("cache_read", "j", "a", ["i"]), "depends on loops other"),
        (("shuffle", "j"), "no schedule primitive"),
    ],
)
def test_refusals_name_the_reason(step: tuple[object, ...], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        Schedule(product()).do(*step)  # type: ignore[arg-type]


def test_share_lets_calls_run_a_loop_in_parts() -> None:
    rows = Rows(Var("lo", 0, M), Var("hi", 0, M), M)
    plain = product()
    first = plain.body.body[0]
    assert isinstance(first, For)
    over = replace(plain, rows=rows, body=Block((replace(first, lo=rows.lo.expr, hi=rows.hi.expr),)))
    done = bind_rows(over, "j")
    assert done.rows is not None
    assert done.rows.extent == N
    rng = np.random.default_rng(3)
    given = {
        "a": rng.integers(-128, 128, (M, K)).astype(np.int8),
        "b": rng.integers(-128, 128, (N, K)).astype(np.int8),
        "o": np.zeros((M, N), np.int32),
    }
    run_loops(done, given, rows=(4, N))
    np.testing.assert_array_equal(given["o"][:, 4:], WANT[:, 4:])
    assert not given["o"][:, :4].any()
    assert row_granule(done) == 1
    with pytest.raises(ScheduleError, match="does not start at 0"):
        bind_rows(split(over, "j", 4)[0], "j_t")
    with pytest.raises(ScheduleError, match="has no rows"):
        bind_rows(plain, "j")


def test_every_primitive_states_its_rewrite_or_obligation() -> None:
    for name, primitive in PRIMITIVES.items():
        text = primitive.__doc__ or ""
        assert "obligation:" in text, name
        assert "rewrite:" in text or name == "bind", name


def sums_over_two_axes() -> Loops:
    """Means over the first and last axis of ``x[2, 4, 4]``."""
    types = [TensorType(F32, (2, 4, 4))]
    loops = get_op("reduce_mean").loops
    assert loops is not None
    return loops("f", types, infer("reduce_mean", types, (("axes", (0, 2)),)), {"axes": (0, 2)})


def test_a_region_larger_than_what_is_read_stays_in_its_buffer() -> None:
    s = Schedule(sums_over_two_axes())
    *_, rest = s.simplify_conditions().strip("r0", 4)
    s.line_buffer(s.block(rest, 3).outer, "x")
    with pytest.raises(ScheduleError, match="past the end of the buffer"):
        s.line_buffer("i2", "x")


def test_an_element_read_outside_of_the_loops_staged_is_refused() -> None:
    given = {"stride": (1, 1), "dilation": (1, 1), "pad": (0, 0, 0, 0)}
    types = [TensorType(F32, shape) for shape in ((1, 4, 4, 3), (5, 2, 2, 3), (5,))]
    loops = get_op("conv2d").loops
    assert loops is not None
    plain = loops("f", types, infer("conv2d", types, tuple(given.items())), given)
    assert cache_read(plain, "oc", "w", ["kh", "kw", "ic"])[0] != plain
    with pytest.raises(ScheduleError, match="outside of ic"):
        cache_read(plain, "oc", "b", ["ic"])[0]
