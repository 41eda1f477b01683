"""Each primitive: what it makes of a nest, and that it refuses where its obligation does not hold."""

from __future__ import annotations

import numpy as np
import pytest

from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.intrinsics import cast, op
from sdk.compiler.ir.loops import Alloc, Block, Buffer, For, Load, Loops, Op, Param, Store
from sdk.compiler.ir.types import I8, I32
from sdk.compiler.ir.walk import walk
from sdk.compiler.schedules.jam import jam
from sdk.compiler.schedules.locate import ScheduleError, find, loop_names
from sdk.compiler.schedules.reshape_loops import bind, fuse, parallel, peel, reorder, split, unroll
from sdk.compiler.schedules.tensorize import use_dot, vectorize
from sdk.compiler.schedules.trace import PRIMITIVES, Schedule
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
    done = split(product(), "j", factor)
    np.testing.assert_array_equal(result(done), WANT)
    assert ("j_t" in loop_names(done.body)) == (N % factor != 0)


def test_random_sequences_keep_the_result() -> None:
    rng = np.random.default_rng(11)
    for _ in range(60):
        s = Schedule(product())
        for _ in range(int(rng.integers(1, 6))):
            names = loop_names(s.loops.body)
            name = names[rng.integers(len(names))]
            step = [
                ("split", name, int(rng.integers(1, 5))),
                ("peel", name, 1),
                ("unroll", name),
                ("jam", name, names),
                ("vectorize", name),
                ("reorder", name, names[-1]),
                ("fuse", name, names[-1], "f"),
            ][rng.integers(7)]
            before = s.loops
            try:
                s.do(*step)
            except ScheduleError:
                assert s.loops is before
        np.testing.assert_array_equal(result(s.loops), WANT, err_msg="; ".join(s.steps))


def test_fuse_and_reorder() -> None:
    np.testing.assert_array_equal(result(fuse(product(), "i", "j", "p")), WANT)
    swapped = reorder(product(), "i", "j")
    assert loop_names(swapped.body)[:2] == ["j", "i"]
    np.testing.assert_array_equal(result(swapped), WANT)


def test_peel_and_unroll() -> None:
    done = unroll(peel(product(), "k", 2), "k_t")
    assert find(done, "k_t").kind == "unroll"
    np.testing.assert_array_equal(result(done), WANT)


def test_jam_gives_each_iteration_its_accumulator() -> None:
    done = jam(split(product(), "j", 2), "j_i", ["k"])
    acc = next(n.buffer for n in walk(done.body) if isinstance(n, Alloc))
    assert acc.shape == (2,)
    assert [n.var.name for n in walk(find(done, "k")) if isinstance(n, For)] == ["k", "j_i"]
    np.testing.assert_array_equal(result(done), WANT)


def test_use_dot_makes_one_operation_of_a_reduction() -> None:
    done = use_dot(split(product(), "k", 4), "k_i")
    assert any(isinstance(n, Op) and n.name == "dot" for n in walk(done.body))
    np.testing.assert_array_equal(result(done), WANT)


@pytest.mark.parametrize("primitive", [parallel, vectorize])
def test_dependent_iterations_are_refused(primitive: object) -> None:
    with pytest.raises(ScheduleError, match="may touch the same element of o"):
        primitive(running_sum(), "i")  # type: ignore[operator]


def test_dependent_iterations_are_not_bound_or_jammed() -> None:
    with pytest.raises(ScheduleError, match="same element"):
        bind(running_sum(), "i", "local.x")
    with pytest.raises(ScheduleError, match="same element"):
        jam(running_sum(), "i", [])


def test_reduction_loop_is_not_parallel() -> None:
    with pytest.raises(ScheduleError, match="acc"):
        parallel(product(), "k")


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (("split", "z", 2), "no loop z"),
        (("split", "j", 0), "at least 1"),
        (("peel", "k", 9), "not proved"),
        (("fuse", "j", "k", "f"), "not alone"),
        (("vectorize", "k"), "acc"),
        (("use_dot", "j"), "one statement"),
        (("pack", "o", 2, 2), "written"),
        (("stage", "j", "a", ["i"]), "depends on loops other"),
        (("shuffle", "j"), "no schedule primitive"),
    ],
)
def test_refusals_name_the_reason(step: tuple[object, ...], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        Schedule(product()).do(*step)  # type: ignore[arg-type]


def test_every_primitive_states_its_rewrite_or_obligation() -> None:
    for name, primitive in PRIMITIVES.items():
        text = primitive.__doc__ or ""
        assert "obligation:" in text, name
        assert "rewrite:" in text or name in ("parallel", "bind"), name
