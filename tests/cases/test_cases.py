"""Runs the `*.ir` files beside this one.

A file holds sections divided by `// -----`. A section begins with `// RUN: pipeline` and a module; then either
`// EXPECT` and the module after the pipeline, or `// SAME` where the passes must change nothing, or `// FIND: text`
lines, one per finding of the verifier. `// ERROR: text` on a line of the module says that reading fails there.
The module is verified before and after the pipeline unless findings are expected.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sdk.compiler.ir.text import parse_module, print_module
from sdk.compiler.ir.verify import verify
from sdk.compiler.ops import registry
from sdk.compiler.passes.pipeline import all_passes, parse_pipeline, run_pipeline
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
        parse_module(Source(section, name), ops=registry)
    assert [(caught.value.line, caught.value.message)] == wanted


def check_findings(section: str, name: str) -> None:
    found = [f"{d.where}: {d.message}" for d in verify(parse_module(Source(section, name)), registry)]
    assert found == [m[1] for m in FIND.finditer(section)]


def run(section: str, name: str) -> tuple[str, bool]:
    """The text after the pipeline, and whether the module is still the same object."""
    match = re.match(r"\s*// RUN:(.*)\n", section)
    assert match is not None, f"{name}: a section begins with // RUN: pipeline"
    before = parse_module(Source(section.split("// EXPECT\n")[0], name), ops=registry)
    assert verify(before, registry) == []
    after = run_pipeline(before, parse_pipeline(match[1].strip()))
    assert verify(after, registry) == []
    return print_module(after), after is before


@pytest.mark.parametrize(("path", "number"), CASES)
def test_case(path: Path, number: int, request: pytest.FixtureRequest) -> None:
    text = path.read_text(encoding="utf-8")
    sections = text.split(BREAK)
    section = sections[number]
    if ERROR.search(section):
        check_error(section, path.name)
        return
    if FIND.search(section):
        check_findings(section, path.name)
        return
    found, same = run(section, path.name)
    if "// SAME\n" in section:
        assert same
        return
    given, _, wanted = section.partition("// EXPECT\n")
    if request.config.getoption("--update", default=False):
        last = "" if number == len(sections) - 1 else "\n"
        sections[number] = f"{given}// EXPECT\n{found}{last}"
        path.write_text(BREAK.join(sections), encoding="utf-8")
        return
    assert found.strip() == wanted.strip()


def test_folders_are_named_after_passes() -> None:
    folders = {p.name.replace("_", "-") for p in HERE.iterdir() if any(p.glob("*.ir"))}
    assert folders - {"text", "verify"} <= all_passes().keys()
