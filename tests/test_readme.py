"""The documents against the code: commands parse, files exist, examples are programs, tables are true."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import click
import pytest

from sdk import errors, report
from sdk.amounts import UNKNOWN
from sdk.boards import load_board
from sdk.cli import cli
from sdk.compiler.ir.intrinsics import INTRINSICS
from sdk.compiler.ir.layout import Step
from sdk.compiler.ir.module import Stage
from sdk.compiler.ir.text import collect_blobs, parse_module, print_module
from sdk.compiler.ops import registry
from sdk.compiler.passes.pipeline import all_passes, print_pipeline
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.schedules.trace import PRIMITIVES
from sdk.compiler.verify.module import verify
from sdk.compiler.verify.plan import verify_plan
from sdk.driver import build
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes
from sdk.source import ParseError

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "DESIGN.md", ROOT / "SPEC.md", *sorted((ROOT / "docs").glob("*.md"))]
TOP = sorted(path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("."))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def prose(text: str) -> str:
    """The document without its code blocks."""
    return FENCE.sub("", text)


def fenced(path: Path, language: str) -> list[str]:
    """The code blocks of one language."""
    return [body for name, body in FENCE.findall(path.read_text(encoding="utf-8")) if name == language]


def rows(text: str) -> list[list[str]]:
    """The cells of every table row; a pipe may be written with a backslash."""
    lines = [line for line in text.splitlines() if re.match(r"\|(?![ :|-]+\|$)", line)]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def section(path: Path, title: str) -> str:
    """The text under a heading, up to the next one of its level."""
    pattern = rf"^(#+) {re.escape(title)}\n(.*?)(?=^\1 |\Z)"
    found = re.search(pattern, path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert found, f"{path.name} has no section {title}"
    return found[2]


def words(cell: str) -> list[str]:
    """What a cell has in backticks."""
    return re.findall(r"`([^`]+)`", cell)


# --- commands and files ----------------------------------------------------------------------------------


def commands() -> list[Any]:
    """Every command line of the code blocks."""
    out = []
    for path in DOCUMENTS:
        blocks = "".join(body for _, body in FENCE.findall(path.read_text(encoding="utf-8")))
        for line in re.findall(r"^(?:\$ )?(sdk .*)$", blocks.replace("\\\n", " "), re.MULTILINE):
            bare = re.split(r"\s#", line)[0].strip()
            out.append(pytest.param(bare, id=f"{path.name}: {bare}"))
    return out


def mentions() -> list[Any]:
    """Every command that the prose speaks of, whole or in part."""
    found = {(path.name, w) for path in DOCUMENTS for w in words(prose(path.read_text(encoding="utf-8")))}
    return [pytest.param(w, id=f"{name}: {w}") for name, w in sorted(found) if w.startswith("sdk ")]


def resolve(line: str) -> tuple[click.Command, list[str]]:
    """The verb of a command line and what follows it."""
    command: click.Command = cli
    arguments = shlex.split(line)[1:]
    while isinstance(command, click.Group) and arguments and arguments[0] in command.commands:
        command = command.commands[arguments.pop(0)]
    return command, arguments


@pytest.mark.parametrize("line", commands())
def test_command_parses(line: str) -> None:
    command, arguments = resolve(line)
    assert command is not cli
    command.make_context("sdk", arguments, parent=click.Context(cli, info_name="sdk"))


@pytest.mark.parametrize("text", mentions())
def test_mentioned_command_exists(text: str) -> None:
    command, arguments = resolve(text)
    assert command is not cli or arguments[0] == "COMMAND"
    known = {option for param in command.params for option in param.opts} | {"--help"}
    assert {a for a in arguments if a.startswith("-")} <= known


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_files_exist(path: Path) -> None:
    pattern = rf"^(?:{'|'.join(map(re.escape, TOP))})/[\w./*-]+$|^[A-Z]+\.md$"
    outputs = {"out", "agent"}
    named = {w for w in words(prose(path.read_text(encoding="utf-8"))) if re.match(pattern, w)}
    ours = sorted(w for w in named if w.split("/")[0] not in outputs and "KIND" not in w)
    assert not [w for w in ours if not list(ROOT.glob(w))]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_anchors_exist(path: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)\s#]*)#([^)\s]+)\)", prose(path.read_text(encoding="utf-8"))):
        other = (path.parent / target) if target else path
        titles = re.findall(r"^#+ (.*)$", prose(other.read_text(encoding="utf-8")), re.MULTILINE)
        known = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
        assert anchor in known, f"{path.name} links to {target}#{anchor}"


# --- JSON and exit codes ---------------------------------------------------------------------------------

VERIFY = report.VerifyReport("m", "b", "d", False, "interp", {}, 1, 1, 0.0, 0.0, True)
BUILD = report.BuildReport("m", "b", None, 0, 0, 0, 0, 0, UNKNOWN, {}, {})
OBJECTS: dict[str, set[str]] = {
    "build": set(BUILD.to_json()),
    "memory": {*report.MemoryReport(BUILD).to_json(), "firmware"} - set(BUILD.to_json()),
    "run": {*report.RunResult("m", "b", "d", False, {}, {}, 1.0, "time").to_json(), "outputs", "saved"},
    "bench": set(report.BenchReport("m", "b", "d", False, {}, 1, (1.0,), "time").to_json()),
    "verify": set(VERIFY.to_json()),
    "verify --layers": set(report.LayersReport(VERIFY, "interp", ()).to_json()) - set(VERIFY.to_json()),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_json_fields(name: str) -> None:
    listed = [words(row[0])[0] for row in rows(section(ROOT / "docs" / "json.md", name)) if words(row[0])]
    assert sorted(listed) == sorted(OBJECTS[name])


def test_error_classes_and_codes() -> None:
    table = rows((ROOT / "docs" / "errors.md").read_text(encoding="utf-8"))
    listed = {name: int(row[0]) for row in table for name in words(row[1])}
    found = [item for item in vars(errors).values() if isinstance(item, type)]
    classes = [*(item for item in found if issubclass(item, errors.SdkError)), ParseError, ScheduleError]
    assert listed == {item.__name__: item.exit_code for item in classes}


# --- programs, passes, stages, operations ----------------------------------------------------------------


@pytest.mark.parametrize("text", fenced(ROOT / "SPEC.md", "ir"), ids=lambda text: text.split("\n")[0])
def test_examples_are_sound_programs(text: str) -> None:
    module = parse_module(text, {}, registry)
    assert parse_module(print_module(module), collect_blobs(module), registry) == module
    assert not verify(module, registry)
    assert not [d for plan in module.plans.values() for d in verify_plan(module, plan)]


def test_stages() -> None:
    table = rows(section(ROOT / "SPEC.md", "1. Modules and stages"))
    listed = [words(row[0])[0] for row in table if len(row) == 4 and words(row[0])]
    assert listed == list(get_args(Stage))


def test_operations() -> None:
    table = rows(section(ROOT / "SPEC.md", "3. Values and operations"))
    listed = {name: (int(row[1]), row[2]) for row in table[1:] for name in words(row[0])}
    assert listed == {name: (row.arity, row.result) for name, row in INTRINSICS.items()}


def test_steps_of_layouts() -> None:
    table = rows(section(ROOT / "SPEC.md", "2. The text form"))
    listed = [words(row[0])[0].split("(")[0] for row in table if len(row) == 2 and words(row[0])]
    assert listed == [kind.__name__.lower() for kind in get_args(Step)]


def test_passes() -> None:
    path = ROOT / "docs" / "passes.md"
    table = [row for row in rows(path.read_text(encoding="utf-8")) if words(row[0])]
    listed = {words(row[0])[0]: [w.replace("-", "_") for w in words(row[1])] for row in table}
    options = {name: [f.name for f in fields(kind) if f.compare] for name, kind in all_passes().items()}
    assert listed == options
    (pipeline,) = fenced(path, "pipeline")
    assert pipeline.strip() == print_pipeline(default_passes(load_board("qemu-cortex-m4"), BuildOptions()))


def test_primitives() -> None:
    text = section(ROOT / "docs" / "passes.md", "Schedules").split("A primitive whose")[0]
    assert {w for w in words(text) if "/" not in w} == set(PRIMITIVES)


# --- the generated header --------------------------------------------------------------------------------


def test_macros_are_those_of_the_templates() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "templates" / "c99").glob("*.j2"))
    for name in ("weights.py", "weights_blob.py"):
        text += (ROOT / "sdk" / "codegen_c" / "program" / name).read_text(encoding="utf-8")
    spec = prose(section(ROOT / "SPEC.md", "5. The generated C"))
    for name in {w for w in re.findall(r"\bM_([A-Z_]*[A-Z])\b", spec)}:
        assert re.search(rf"\b{name}\b|_{name}\b", text), f"SPEC.md names M_{name}"
    for code, name in re.findall(r"^\| (-\d+) \| `M_(\w+)`", spec, re.MULTILINE):
        assert re.search(rf"_{name} = {code}\b", text), f"SPEC.md says that M_{name} is {code}"


def test_readme_c_uses_names_of_the_header(tmp_path: Path) -> None:
    options = BuildOptions(name="digits")
    model = ROOT / "examples" / "digits" / "digits_int8.tflite"
    build(model, load_board("nucleo_l4r5zi"), options, emit="c", out=tmp_path)
    header = (tmp_path / "digits.h").read_text(encoding="utf-8")
    (example,) = fenced(ROOT / "README.md", "c")
    for name in set(re.findall(r"\b(?:digits|DIGITS)_\w+", example)):
        assert re.search(rf"\b{name}\b", header), f"README.md uses {name}"
