"""Dims as text: read back to the same object, errors at their place."""

from __future__ import annotations

from random import Random

import pytest
from dims import VARS, random_dim
from hypothesis import given, settings
from hypothesis import strategies as st

from sdk.compiler.sym import Var, floordiv
from sdk.compiler.sym.text import DimPrinter, parse_dim, print_dim
from sdk.source import ParseError

SCOPE = {v.name: v for v in VARS}


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32 - 1).map(Random))
def test_text_reads_back_to_the_same_object(rng: Random) -> None:
    dim, _ = random_dim(rng, rng.randint(1, 4))
    text = print_dim(dim, SCOPE)
    again = parse_dim(text, SCOPE)
    assert again is dim or again == dim
    assert print_dim(again, SCOPE) == text


def test_spelling() -> None:
    n, k = VARS[0].expr, VARS[1].expr
    assert print_dim(2 * n + floordiv(n, 3) - 1) == "2*n + floordiv(n, 3) - 1"
    assert print_dim(-k * k) == "-k*k"
    assert print_dim(-5) == "-5"


def test_helpers_are_read() -> None:
    n = VARS[0].expr
    assert parse_dim("mod(n, 4) + 4*floordiv(n, 4)", SCOPE) is n
    assert parse_dim("ceildiv(n, 2)", SCOPE) is floordiv(n + 1, 2)
    assert parse_dim("-(n - 2*n)", SCOPE) is n


def test_a_variable_that_the_scope_does_not_mean() -> None:
    other, odd = Var("n", 0, 99, 3), Var("batch size", 1, 4)
    dim = VARS[0].expr + other.expr * odd.expr
    text = print_dim(dim, SCOPE)
    assert "var(n, 0..99 multiple 3)" in text
    assert 'var("batch size", 1..4)' in text
    assert parse_dim(text, SCOPE) is dim
    printer = DimPrinter()
    assert printer.text(dim, SCOPE) == text
    assert printer.text(odd.expr, {odd.name: odd}) == '"batch size"'


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("n + x", 5, "unknown dim x"),
        ("n + ", 5, "expected a dim, found the end"),
        ("n )", 3, "expected the end of the dim, found ')'"),
        ("lcm(n, 2)", 1, "unknown function lcm of dims"),
        ("floordiv(n, 0)", 1, "division by zero"),
        ("var(q, 5..1)", 5, "symbol q has no value in 5..1"),
        ("n ? 2", 3, "unexpected character '?'"),
        ("max(n 2)", 7, "expected ',', found '2'"),
    ],
)
def test_errors_point_at_their_place(text: str, column: int, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_dim(text, SCOPE)
    assert (caught.value.line, caught.value.column) == (1, column)
    assert message in caught.value.message
    assert f"<dim>:1:{column}: " in str(caught.value)
    assert "\n  | " + " " * (column - 1) + "^" in str(caught.value)
