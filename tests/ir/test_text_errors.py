"""What an error of the parser looks like: the place, the line, the carets, the hint."""

from __future__ import annotations

import contextlib
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdk.compiler import ops
from sdk.compiler.ir.text import parse_module
from sdk.source import ParseError, Source, Span

EVERYTHING = Path(__file__).with_name("everything.ir")


def error_of(text: str, name: str = "m.ir") -> ParseError:
    with pytest.raises(ParseError) as caught:
        parse_module(Source(text, name), ops=ops)
    return caught.value


def test_carets_stand_under_the_words() -> None:
    error = error_of("module m typed\n\ngraph @main(%x: i8[4]) {\n  %y = relu(%x) : i8[5]\n  return %y\n}\n")
    assert (error.line, error.column) == (4, 19)
    assert str(error) == (
        "m.ir:4:19: written i8[5] but relu infers i8[4]\n  |   %y = relu(%x) : i8[5]\n  |                   ^^^^^"
    )


def test_the_hint_is_last() -> None:
    error = error_of("module m typed\nloops @f(raed %x: i8[4]) {}\n")
    assert (error.line, error.column) == (2, 10)
    assert str(error).endswith("  |          ^^^^\n  hint: one of read, write, update")


def test_the_end_of_the_text() -> None:
    error = error_of("module m typed\ngraph @main(%x: i8[4]) {\n")
    assert (error.line, error.column) == (3, 1)
    assert error.message == "expected a node, as %name = …, bind, write or return, found the end"


def test_tabs_keep_the_carets_in_place() -> None:
    source = Source("a\tbc = 1", "t")
    assert Span(source, 2, 4).render() == "  | a\tbc = 1\n  |  \t^^"


def test_a_span_over_lines_marks_the_first() -> None:
    source = Source("one two\nthree", "t")
    assert Span(source, 4, 12).render() == "  | one two\n  |     ^^^"
    assert str(Span(source, 8, 9)) == "t:2:1"


def test_a_bad_escape() -> None:
    error = error_of('module m typed\nstate @"a\\q": i8[1] = 0\n')
    assert error.message == "bad escape in string"
    assert error.line == 2


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32 - 1).map(Random))
def test_damaged_text_is_refused_with_a_place_or_read(rng: Random) -> None:
    text = EVERYTHING.read_text(encoding="utf-8")
    for _ in range(rng.randint(1, 4)):
        at, size = rng.randrange(len(text)), rng.choice((1, 1, 2, 9))
        piece = rng.choice(("", "0", "]", "{", '"', "%", "999999999999", text[at - 9 : at], "\u00e4", "-", ".."))
        text = text[:at] + piece + text[at + size :]
    with contextlib.suppress(ParseError):
        parse_module(text)


DEEP = {
    "brackets": "graph @main(%x: f32[" + "(" * 3000 + "4" + ")" * 3000 + "]) {\n  return %x\n}\n",
    "loops": "loops @f(write %o: f32[4]) {\n" + "for i in 0..4 {\n" * 3000 + "}" * 3000 + "}\n",
    "operations": "loops @f(write %o: f32[1]) {\n  %o[0] = " + " + ".join(["1.0"] * 3000) + "\n}\n",
}


@pytest.mark.parametrize("what", DEEP)
def test_text_that_nests_deeper_than_any_program(what: str) -> None:
    error = error_of("module m typed\n" + DEEP[what])
    assert error.message == "more than 100 brackets or operations inside one another"
    assert error.hint is not None


def test_numbers_and_sizes_beyond_measure() -> None:
    error = error_of("module m typed\ngraph @main(%x: f32[" + "9" * 5000 + "]) {}\n")
    assert error.message == "a number of 5000 digits"
    sums = "*".join(["(a + b + c + d)"] * 60)
    dims = ", ".join(f"{name} in 1..4" for name in "abcd")
    error = error_of(f"module m typed\ngraph @main<{dims}>(%x: f32[{sums}]) {{\n  return %x\n}}\n")
    assert "a product of sizes has" in error.message


def test_signs_in_front_of_a_size() -> None:
    module = parse_module("module m typed\ngraph @main(%x: f32[" + "-" * 6000 + "4]) {\n  return %x\n}\n", ops=ops)
    assert module.graphs["main"].params[0].type.shape == (4,)
