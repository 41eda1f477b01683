"""``sdk help``: the pages are there, and what the package tells people to read exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sdk.cli import VERBS, run_command
from sdk.cli.help import pages
from tests.cli.conftest import Mistake

ROOT = Path(__file__).resolve().parents[2]
Works = Callable[[str], str]


def test_the_list_and_the_pages(works: Works) -> None:
    listed = dict(re.findall(r"^  ([\w-]+) +(.+)$", works("sdk help"), re.MULTILINE))
    assert set(listed) == {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert listed["errors"] == "Errors and exit codes"
    for topic in ("errors", "fit"):
        page = (ROOT / "docs" / f"{topic}.md").read_text(encoding="utf-8")
        assert works(f"sdk help {topic}").rstrip() == page.rstrip()


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in pages()])
def test_a_verb_has_its_help(works: Works, verb: str) -> None:
    assert works(f"sdk help {verb}").split() == works(f"sdk {verb} --help").split()


def test_what_is_no_page(mistake: Mistake) -> None:
    told = mistake("sdk help erors")
    assert told.message == "there is no page 'erors'"
    assert "errors" in told.hint


def texts() -> Iterator[tuple[str, str]]:
    """The texts of the package that people may read: strings that are no docstrings, and what templates say."""
    for path in (ROOT / "sdk").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docs = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
                yield path.name, node.value
    for path in filter(Path.is_file, (ROOT / "templates").rglob("*.*")):
        yield path.name, path.read_text(encoding="utf-8")


def test_what_people_are_told_to_read_is_there() -> None:
    known = {*pages(), *VERBS, "TOPIC"}
    found = 0
    for file, text in texts():
        assert not re.search(r"\bdocs/[\w-]+\.md", text), f"{file}: {text}"
        assert "crosslevel[" not in text, f"{file}: an extra of ours, which no index has: {text}"
        for topic in re.findall(r"\bsdk help ([\w-]+)", text):
            assert topic in known, f"{file}: {text}"
            found += 1
    assert found >= 6


@pytest.mark.parametrize("verb", ["new", "farm"])
def test_a_verb_of_several_commands_alone_shows_its_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([verb]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"Usage: sdk {verb} ")
    assert "\nCommands:\n" in out
    assert not err
