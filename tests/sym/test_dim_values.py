"""Dims against brute force: values, bounds, proofs, substitution, identity."""

from __future__ import annotations

import itertools
import pickle
from random import Random

import pytest
from dims import VARS, domain, random_dim
from hypothesis import given, settings
from hypothesis import strategies as st

from sdk.compiler.sym import (
    Var,
    evaluate,
    floordiv,
    free_vars,
    interval,
    max_value,
    min_value,
    mod,
    prove_eq,
    prove_ge,
    prove_lt,
    substitute,
    values,
)
from sdk.errors import SdkError

POINTS = [dict(zip(VARS, p, strict=True)) for p in itertools.product(*map(domain, VARS))]
RANDOM = st.integers(0, 2**32 - 1).map(Random)


@settings(max_examples=300, deadline=None)
@given(RANDOM)
def test_simplifying_keeps_every_value(rng: Random) -> None:
    dim, meaning = random_dim(rng, rng.randint(1, 4))
    for env in rng.sample(POINTS, 60):
        assert evaluate(dim, env) == meaning(env)


@settings(max_examples=200, deadline=None)
@given(RANDOM)
def test_bounds_hold(rng: Random) -> None:
    dim, meaning = random_dim(rng)
    found = [meaning(env) for env in POINTS]
    lo, hi = interval(dim)
    assert lo is None or lo <= min(found)
    assert hi is None or hi >= max(found)
    low, high = min_value(dim), max_value(dim)
    assert low is None or low <= min(found)
    assert high is None or high >= max(found)
    grid = values(dim)
    assert grid is not None
    assert set(map(int, grid.ravel())) == set(found)


@settings(max_examples=200, deadline=None)
@given(RANDOM)
def test_proofs_are_true(rng: Random) -> None:
    (a, fa), (b, fb) = random_dim(rng), random_dim(rng)
    pairs = [(fa(env), fb(env)) for env in POINTS]
    answers = {
        prove_ge: all(x >= y for x, y in pairs),
        prove_lt: all(x < y for x, y in pairs),
    }
    for prove, truth in answers.items():
        assert prove(a, b) in (None, truth)
    equal = prove_eq(a, b)
    assert equal is None or equal == all(x == y for x, y in pairs)


@settings(max_examples=150, deadline=None)
@given(RANDOM)
def test_substitution_is_evaluation(rng: Random) -> None:
    (dim, meaning), (inner, inside) = random_dim(rng), random_dim(rng, 2)
    var = rng.choice(VARS)
    wide = Var(var.name + "_wide", -10000, 10000)
    opened = substitute(substitute(dim, {var: wide.expr}), {wide: inner})
    for env in rng.sample(POINTS, 20):
        value = inside(env)
        if value in domain(var):
            assert evaluate(opened, env) == meaning({**env, var: value})


@settings(max_examples=100, deadline=None)
@given(RANDOM)
def test_identity_survives_pickling(rng: Random) -> None:
    dim, _ = random_dim(rng)
    assert pickle.loads(pickle.dumps(dim)) is dim or isinstance(dim, int)


def test_equal_forms_are_one_object() -> None:
    n = Var("n", 1, 100).expr
    assert (n + 1) * 2 - 2 is 2 * n
    assert floordiv(n * 4 + 3, 4) is n
    assert mod(n * 4 + 3, 4) == 3
    assert floordiv(floordiv(n, 2), 3) is floordiv(n, 6)


def test_a_multiple_divides() -> None:
    n = Var("n", 8, 64, 8).expr
    assert prove_eq(mod(n, 4), 0) is True
    assert prove_eq(floordiv(n, 8) * 8, n) is True


def test_proofs_answer_none_when_they_cannot_tell() -> None:
    n, m = Var("n", 0, 10**6).expr, Var("m", 0, 10**6).expr
    assert prove_ge(n * m, mod(n * 7, 5) * m - 3 * m) is None
    assert prove_eq(n, m) is None or prove_eq(n, m) is False


def test_a_dim_has_no_truth_value() -> None:
    with pytest.raises(SdkError, match="no truth value"):
        bool(Var("n", 0, 3).expr)


def test_a_variable_needs_a_value() -> None:
    with pytest.raises(SdkError, match=r"no value in 5\.\.7 multiple of 4"):
        Var("n", 5, 7, 4)
    with pytest.raises(SdkError, match="still depends on n"):
        evaluate(Var("n", 0, 3).expr, {})


def test_free_variables() -> None:
    n, k = VARS[0], VARS[1]
    assert free_vars(floordiv(n.expr * 3 + k.expr, 5)) == {n, k}
