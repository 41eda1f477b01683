"""Proofs about the dims that models make: chains of strides, multiples, sums over many dims; against brute force."""

from __future__ import annotations

import itertools
import pickle
import time
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdk.compiler.sym import (
    Dim,
    Var,
    bounds,
    ceildiv,
    evaluate,
    floordiv,
    free_vars,
    mod,
    prove_eq,
    prove_ge,
    prove_lt,
    show,
    substitute,
)
from sdk.compiler.sym.text import parse_dim

RANDOM = st.integers(0, 2**32 - 1).map(Random)
H = Var("h", 32, 512, 32)
W = Var("w", 32, 256, 32)
N = Var("n", 1, 9)
M = Var("m", 0, 6, 2)


def values_of(*vars_: Var) -> list[dict[Var, int]]:
    ranges = [range(-(-v.lo // v.multiple) * v.multiple, v.hi + 1, v.multiple) for v in vars_]
    return [dict(zip(vars_, point, strict=True)) for point in itertools.product(*ranges)]


def halved(x: Dim, how: int) -> Dim:
    """A layer of stride 2 with padding, in the ways models write it."""
    match how:
        case 0:
            return floordiv(x + 2 - 3, 2) + 1
        case 1:
            return floordiv(x - 1, 2) + 1
        case 2:
            return ceildiv(x, 2)
        case 3:
            return floordiv(x + 6 - 7, 2) + 1
        case _:
            return floordiv(x, 2)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=5))
def test_chains_of_strides_on_a_multiple_are_its_quotient(ways: list[int]) -> None:
    x: Dim = H.expr
    for how in ways:
        x = halved(x, how)
    by = 2 ** len(ways)
    assert x is floordiv(H.expr, by)
    assert by * x is H.expr
    assert prove_eq(2 * by * W.expr * x, 2 * W.expr * H.expr) is True
    assert parse_dim(show(x), {"h": H}) is x
    assert pickle.loads(pickle.dumps(x)) is x


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 5)), min_size=1, max_size=4))
def test_nested_quotients_become_one(steps: list[tuple[int, int]]) -> None:
    x: Dim = N.expr
    for add, by in steps:
        x = floordiv(x + add, by)
    for value in range(N.lo, N.hi + 1):
        want = value
        for add, by in steps:
            want = (want + add) // by
        assert evaluate(x, {N: value}) == want
    assert show(x).count("floordiv") <= 1


@settings(max_examples=300, deadline=None)
@given(RANDOM)
def test_multiples_against_brute_force(rng: Random) -> None:
    """Sums, products and quotients of multiples keep their values, and proofs about them are right."""

    def one(depth: int) -> Dim:
        if depth == 0:
            return rng.choice((H.expr, M.expr, N.expr, rng.randint(-4, 9)))
        a = one(depth - 1)
        match rng.randrange(5):
            case 0:
                return a + one(depth - 1)
            case 1:
                return a * rng.choice((2, 3, 4, 6, N.expr))
            case 2:
                return floordiv(a + rng.randint(-3, 3), rng.choice((2, 3, 4, 8, 32)))
            case 3:
                return mod(a, rng.choice((2, 3, 4, 8)))
            case _:
                return a - one(depth - 1)

    a, b = one(rng.randint(1, 3)), one(rng.randint(1, 3))
    points = [(evaluate(a, p), evaluate(b, p)) for p in values_of(H, M, N)]
    assert prove_eq(a, b) in (None, all(x == y for x, y in points))
    assert prove_ge(a, b) in (None, all(x >= y for x, y in points))
    assert prove_lt(a, b) in (None, all(x < y for x, y in points))
    assert prove_eq(a, b) is not None  # few enough to try
    lo, hi = bounds(a)
    assert (lo, hi) == (min(x for x, _ in points), max(x for x, _ in points))
    env: dict[Var, Dim] = {H: 64, N: M.expr + 1} if rng.random() < 0.5 else {M: 2 * N.expr}
    got = substitute(a, env)
    for p in values_of(M, N):
        given_all = {**p, H: 64} if H in env else {**p, H: 96}
        full = {**given_all, **{v: evaluate(d, given_all) if not isinstance(d, int) else d for v, d in env.items()}}
        assert evaluate(got, {v: given_all[v] for v in free_vars(got)}) == evaluate(a, full)


def test_parts_without_common_dims_are_tried_apart() -> None:
    dims = [Var(f"d{k}", 1, 1000).expr for k in range(6)]
    total: Dim = 0
    for d in dims:
        total = total + d - 2 * floordiv(d, 2)
    began = time.process_time()
    assert bounds(total) == (0, 6)
    assert prove_ge(6, total) is True
    assert prove_eq(total, 3) is False
    assert prove_lt(total, 6) is False
    assert time.process_time() - began < 1


def test_what_is_asked_again_is_remembered() -> None:
    a, b = Var("a", 1, 1000).expr, Var("b", 1, 1000).expr
    hard = floordiv(a * b, 7) * 7
    assert prove_ge(a * b, hard) is True
    began = time.process_time()
    for _ in range(200):
        assert prove_ge(a * b, hard) is True
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(("dim", "text"), [
    (lambda: 6 * W.expr * floordiv(H.expr, 4), "3*w*floordiv(h, 2)"),
    (lambda: mod(H.expr, 32), "0"),
    (lambda: mod(H.expr + 5, 32), "5"),
    (lambda: floordiv(H.expr * 3, 96), "floordiv(h, 32)"),
])  # fmt: skip
def test_forms(dim: object, text: str) -> None:
    assert str(dim()) == text
