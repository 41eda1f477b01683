"""The catalogue of errors: its page is that of the source, and every error that it lists has a test that names it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import catalogue
from catalogue import Raised, raised

import sdk.errors
from sdk.errors import SdkError

TESTS = Path(__file__).resolve().parent.parent
# Listed, but of what this version's parts cannot bring about, or of what only another machine does.
UNTOLD = {
    "cannot reach …": "a program is always started with pipes",
    "the scale ratio … is not below one": "twice the larger scale is the divisor",
}


def windows(error: Raised) -> Iterator[str]:
    """Words of the message that a test may look for: three in a row, or all where there are fewer."""
    for piece in error.pieces:
        words = piece.split()
        for start in range(max(len(words) - 2, 1)):
            yield " ".join(words[start : start + 3])


def test_the_page_is_current() -> None:
    assert catalogue.PAGE.read_text(encoding="utf-8") == catalogue.page(raised()), (
        "run: python tests/errors/catalogue.py"
    )


def test_every_listed_error_has_a_test() -> None:
    own = {Path(__file__), Path(catalogue.__file__)}
    text = "\n".join(p.read_text(encoding="utf-8") for p in TESTS.rglob("*.py") if p not in own)
    listed = [e for e in raised() if not e.internal and e.pieces]
    untold = {e.message: f"{e.path}:{e.line}" for e in listed if not any(words in text for words in windows(e))}
    assert {m: at for m, at in untold.items() if m not in UNTOLD} == {}, "provoke each in a test that names its words"
    assert set(UNTOLD) <= set(untold), "named by a test by now"


def test_internal_checks_are_the_compilers() -> None:
    errors = raised()
    assert len(errors) > 500
    assert all(e.path.startswith(catalogue.INSIDE) for e in errors if e.internal)
    assert not [e for e in errors if not e.internal and e.family == "sdk" and e.kind in catalogue.CHECKS]


def test_every_class_has_an_exit_code_and_an_advice() -> None:
    # those of other modules have their bases there
    kinds = {name: getattr(sdk.errors, name) for name in catalogue.classes() if hasattr(sdk.errors, name)}
    assert len(kinds) > 10
    for name, kind in kinds.items():
        assert issubclass(kind, SdkError), name
        assert kind.exit_code == catalogue.classes()[name], name
        assert len(kind.advice.split()) > 4, name
        assert kind is SdkError or kind.advice != SdkError.advice, name
