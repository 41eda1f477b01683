"""Words of vectors and products of two rows by two columns: what they compute, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.loops import Loops, Op
from sdk.compiler.ir.packing import pack_array
from sdk.compiler.ir.types import I8, I32, TensorType
from sdk.compiler.ir.walk import walk
from sdk.compiler.ops import OPS, infer
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.schedules.trace import Schedule

RNG = np.random.default_rng(5)


def dense(rows: int, k: int, n: int) -> Loops:
    types = (TensorType(I8, (rows, k)), TensorType(I8, (n, k)), TensorType(I32, (n,)))
    attrs = {"x_offset": 0, "w_offset": 0}
    build = OPS["dense"].loops
    assert build is not None
    return build("f", types, infer("dense", types, tuple(attrs.items())), attrs)


def dots(loops: Loops, products: int, words: int) -> Schedule:
    """Four channels in lanes, so many products to each sum; k_o_i is the loop over so many words."""
    s = Schedule(loops)
    s.do("pack", "w", 4, products)
    s.do("split", "k", products)
    s.do("split", "i1", 4)
    s.do("unroll_and_jam", "i1_i", ["k_o"])
    s.do("use_dot", "k_i", "i1_i")
    s.do("split", "k_o", words)
    s.do("use_dot_lanes", "k_o_i")
    s.do("vectorize", "i1_i")
    s.do("vector_registers", "acc", 4)
    return s


def rows(s: Schedule, count: int, into: tuple[str, ...] = ("i1_o", "k_o_o")) -> Schedule:
    """So many rows side by side: i0_i is the loop over them."""
    s.do("split", "i0", count)
    s.do("unroll_and_jam", "i0_i", list(into))
    return s


def check(loops: Loops, done: Loops, op: str) -> None:
    """That a schedule uses an operation, and computes the same."""
    assert any(isinstance(n, Op) and n.name == op for n in walk(done.body))
    data = {p.buffer.name: p.buffer for p in loops.params}
    given = {k: RNG.integers(-128, 128, b.type.static_shape).astype(b.dtype.numpy) for k, b in data.items()}
    want, got = ({k: v.copy() for k, v in given.items()} for _ in range(2))
    run_loops(loops, want)
    for name, layout in done.layouts.items():
        got[name] = pack_array(got[name], layout)
    run_loops(done, got)
    np.testing.assert_array_equal(got["o"], want["o"])


@pytest.mark.parametrize(("products", "words"), [(2, 8), (4, 4), (8, 2)])
def test_words_of_a_vector(products: int, words: int) -> None:
    loops = dense(3, 48, 12)
    check(loops, dots(loops, products, words).done(), "dot_lane")


@pytest.mark.parametrize("count", [2, 4])
def test_two_rows_by_two_columns(count: int) -> None:
    loops = dense(8, 48, 12)
    check(loops, rows(dots(loops, 8, 2), count).do("use_dot_2x2", "i0_i").done(), "dot_2x2")


def test_a_rest_of_the_sum_keeps_its_dots() -> None:
    loops = dense(4, 40, 8)
    s = rows(dots(loops, 8, 2), 2, ("i1_o", "k_o_o", "k_o_t")).do("use_dot_2x2", "i0_i")
    check(loops, s.done(), "dot_2x2")
    check(loops, s.done(), "dot")


@pytest.mark.parametrize(
    ("products", "words", "count"),
    [pytest.param(8, 2, 3, id="an odd number of rows"), pytest.param(4, 4, 2, id="words of four")],
)
def test_what_two_rows_refuse(products: int, words: int, count: int) -> None:
    s = rows(dots(dense(6, 48, 12), products, words), count)
    with pytest.raises(ScheduleError, match="use_dot_2x2"):
        s.do("use_dot_2x2", "i0_i")


def test_words_that_do_not_follow_each_other_are_refused() -> None:
    """Over the rows of the first factor its words are a row apart."""
    s = Schedule(dense(4, 4, 4))
    s.do("pack", "w", 4, 4)
    s.do("unroll_and_jam", "i1", [])
    s.do("use_dot", "k", "i1")
    s.do("split", "i0", 2)
    s.do("unroll_and_jam", "i0_i", [])
    with pytest.raises(ScheduleError, match="not consecutive"):
        s.do("use_dot_lanes", "i0_i")
