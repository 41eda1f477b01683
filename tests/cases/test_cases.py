"""Runs the `*.ir` files beside this one.

A file holds sections divided by `// -----`, of these kinds:
- `// RUN: pipeline`, a module, then `// EXPECT` and the module after the passes, or `// SAME` where they
  must give back the very module. It is verified before and after, and reads back from its text.
- `// FIND: text` lines, one per finding of the verifier, and a module.
- a module with `// ERROR: text` on the line where reading it fails.
`pytest tests/cases --update` rewrites what follows `// EXPECT`, and the `// FIND` lines.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sdk.compiler import ops
from sdk.compiler.ir.text import collect_blobs, parse_module, print_module
from sdk.compiler.passes.pipeline import all_passes, parse_pipeline, run_pipeline
from sdk.compiler.verify.module import verify
from sdk.source import ParseError, Source

HERE = Path(__file__).parent
BREAK = "// -----\n"
ERROR = re.compile(r"// ERROR: (.*)$", re.MULTILINE)
FIND = re.compile(r"^// FIND: (.*)$", re.MULTILINE)
CASES = [
    pytest.param(path, k, id=f"{path.relative_to(HERE)}:{k}")
    for path in sorted(HERE.rglob("*.ir"))
    for k in range(path.read_text(encoding="utf-8").count(BREAK) + 1)
]


def check_error(section: str, name: str) -> None:
    wanted = [(section.count("\n", 0, m.start()) + 1, m[1].strip()) for m in ERROR.finditer(section)]
    with pytest.raises(ParseError) as caught:
        parse_module(Source(section, name), ops=ops)
    assert [(caught.value.line, caught.value.message)] == wanted


def findings(section: str, name: str) -> list[str]:
    return [f"{d.where}: {d.message}" for d in verify(parse_module(Source(section, name)), ops)]


def run(section: str, name: str) -> tuple[str, bool]:
    """The text after the pipeline, and whether the module is still the same object."""
    match = re.match(r"\s*// RUN:(.*)\n", section)
    assert match is not None, f"{name}: a section begins with // RUN: pipeline"
    before = parse_module(Source(section.split("// EXPECT\n")[0], name), ops=ops)
    assert verify(before, ops) == []
    after = run_pipeline(before, parse_pipeline(match[1].strip()))
    assert verify(after, ops) == []
    text = print_module(after)
    assert parse_module(text, collect_blobs(after), ops) == after
    return text, after is before


def expected(section: str, name: str) -> str | None:
    """The section as it should be; None where there is nothing to write down."""
    if FIND.search(section):
        rest = FIND.sub("", section).lstrip("\n")
        return "".join(f"// FIND: {f}\n" for f in findings(section, name)) + rest
    found, same = run(section, name)
    if "// SAME\n" in section:
        assert same
        return None
    assert not same
    given = section.partition("// EXPECT\n")[0]
    return f"{given}// EXPECT\n{found}"


@pytest.mark.parametrize(("path", "number"), CASES)
def test_case(path: Path, number: int, request: pytest.FixtureRequest) -> None:
    sections = path.read_text(encoding="utf-8").split(BREAK)
    section = sections[number]
    if ERROR.search(section):
        check_error(section, path.name)
        return
    wanted = expected(section, path.name)
    if wanted is None:
        return
    if request.config.getoption("--update", default=False):
        sections[number] = wanted
        path.write_text(BREAK.join(sections), encoding="utf-8")
    else:
        assert section == wanted


def test_every_pass_has_a_case_that_it_changes() -> None:
    changed = {p.parent.name for p in HERE.rglob("*.ir") if "// EXPECT\n" in p.read_text(encoding="utf-8")}
    assert {name.replace("_", "-") for name in changed} == all_passes().keys()
