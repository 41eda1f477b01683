"""What the tree has for others' machines: the action for GitHub, the Dockerfile, the notebook, the examples in C."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from sdk.cli import run_command

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
TEXT = {"type": "string"}
NAME = "^[A-Za-z_][A-Za-z0-9_-]*$"
STEP = {"if": TEXT, "id": TEXT, "name": TEXT}
# The metadata of a composite action, as GitHub documents it.
ACTION = {
    "type": "object",
    "required": ["name", "description", "runs"],
    "additionalProperties": False,
    "properties": {
        "name": TEXT,
        "description": {"type": "string", "maxLength": 125},
        "branding": {"type": "object", "properties": {"icon": TEXT, "color": TEXT}, "additionalProperties": False},
        "inputs": {
            "additionalProperties": False,
            "patternProperties": {
                NAME: {
                    "required": ["description"],
                    "additionalProperties": False,
                    "properties": {"description": TEXT, "required": {"type": "boolean"}, "default": TEXT},
                }
            },
        },
        "outputs": {
            "additionalProperties": False,
            "patternProperties": {
                NAME: {
                    "required": ["description", "value"],
                    "additionalProperties": False,
                    "properties": {"description": TEXT, "value": TEXT},
                }
            },
        },
        "runs": {
            "required": ["using", "steps"],
            "additionalProperties": False,
            "properties": {
                "using": {"const": "composite"},
                "steps": {
                    "type": "array",
                    "items": {
                        "oneOf": [
                            {
                                "required": ["run", "shell"],
                                "additionalProperties": False,
                                "properties": {**STEP, "run": TEXT, "shell": {"const": "bash"}, "env": {}},
                            },
                            {
                                "required": ["uses"],
                                "additionalProperties": False,
                                "properties": {**STEP, "uses": {"pattern": r"^[\w-]+/[\w-]+@v?\d"}, "with": {}},
                            },
                        ]
                    },
                },
            },
        },
    },
}


# --- the action for GitHub -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def action() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))


def test_the_action_is_one(action: dict[str, Any]) -> None:
    jsonschema.validate(action, ACTION)
    text = json.dumps(action["runs"]) + json.dumps(action["outputs"])
    asked = re.findall(r"inputs\.([\w-]+)", text)
    assert set(asked) == set(action["inputs"])
    ids = [step["id"] for step in action["runs"]["steps"] if "id" in step]
    assert set(re.findall(r"steps\.([\w-]+)\.", text)) == set(ids)
    for step in action["runs"]["steps"]:
        # what is in an input must not become code: it comes as a variable
        assert "${{" not in step.get("run", "")


def steps_of(action: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {step["name"]: step for step in action["runs"]["steps"] if "run" in step}


def test_its_scripts_are_bash(action: dict[str, Any], need_tool: Callable[[str], str]) -> None:
    for step in steps_of(action).values():
        subprocess.run([need_tool("bash"), "-n", "-c", step["run"]], check=True)


@pytest.fixture
def workflow(action: dict[str, Any], tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """A function that runs a step of the action as GitHub does, with inputs; what it said is the step's log."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, line in (("sdk", f"{sys.executable} -m sdk"), ("python", sys.executable)):
        (programs / name).write_text(f'#!/bin/sh\nexec {line} "$@"\n', encoding="utf-8")
        (programs / name).chmod(0o755)

    def run(name: str, **given: str) -> tuple[int, str]:
        step = steps_of(action)[name]
        inputs = {key: facts.get("default", "") for key, facts in action["inputs"].items()} | given
        env = {
            key: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: inputs[found[1]], text)
            for key, text in step["env"].items()
        }
        here = {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "RUNNER_TEMP": str(tmp_path)}
        files = {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        line = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(
            line, cwd=tmp_path, env={**os.environ, **here, **files, **env}, capture_output=True, text=True,
            check=False, timeout=300,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    return run


def test_the_action_builds_and_holds_limits(workflow: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    given = {"model": str(EXAMPLES / "digits" / "digits_int8.tflite"), "board": "microbit"}
    code, said = workflow("Build", **given, options="--memory min --name digits")
    assert code == 0, said
    assert (tmp_path / "out" / "digits.h").is_file()
    found = dict(line.split("=") for line in (tmp_path / "GITHUB_OUTPUT").read_text().splitlines())
    ram, flash = int(found["ram-bytes"]), int(found["flash-bytes"])
    assert 500 < ram < 5000 < flash < 50_000
    assert f"{ram} bytes of RAM" in (tmp_path / "GITHUB_STEP_SUMMARY").read_text()
    limits = {"options": "--memory min", "ram-limit": str(ram), "flash-limit": str(flash - 1)}
    code, said = workflow("Build", **given, **limits)
    assert (code, said.count("::error::")) == (1, 1)
    assert f"::error::{flash} bytes of flash, {flash - 1} are allowed" in said
    assert workflow("Verify", model=given["model"], board="host")[0] == 0
    assert workflow("Verify", model="none.tflite", board="host")[0] == 2


# --- the Dockerfile --------------------------------------------------------------------------------------

INSTRUCTIONS = {"FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "ENTRYPOINT", "CMD"}


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile with their arguments, lines that go on joined, as Docker reads them."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ").splitlines()
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined)]


def test_the_dockerfile_is_one() -> None:
    found = instructions()
    assert {word for word, _ in found} <= INSTRUCTIONS
    assert found[0][0] == "FROM"
    assert re.fullmatch(r"[\w./-]+:(?!latest)[\w.-]+", found[0][1])  # a version, and no other tomorrow
    for word, rest in found:
        if word == "RUN":
            subprocess.run(["sh", "-n", "-c", rest], check=True)
            if "apt-get install" in rest:
                assert "--no-install-recommends" in rest
                assert rest.endswith("rm -rf /var/lib/apt/lists/*")
            if "pip install" in rest:
                assert "--no-cache-dir" in rest
        if word in ("ENTRYPOINT", "CMD"):
            assert all(isinstance(arg, str) for arg in json.loads(rest))  # not by a shell, which gets no signals
    users = [rest for word, rest in found if word == "USER"]
    assert users
    assert users[-1] != "root"


def test_the_dockerfile_copies_all_that_is_installed(tmp_path: Path) -> None:
    """A wheel of what it copies is the wheel of the tree."""
    for word, rest in instructions():
        if word != "COPY":
            continue
        *sources, target = shlex.split(rest)
        for source in sources:
            out = tmp_path / "tree" / (f"{target}{Path(source).name}" if target.endswith("/") else target)
            out.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, out, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / source, out)
    names = []
    for tree in (ROOT, tmp_path / "tree"):
        out = tmp_path / f"wheel{len(names)}"
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
        subprocess.run(command, cwd=tree, check=True, capture_output=True)
        (wheel,) = out.glob("*.whl")
        names.append(sorted(_members(wheel)))
    assert names[0] == names[1]


def _members(wheel: Path) -> Iterator[tuple[str, int]]:
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            yield info.filename, info.CRC


# --- the notebook ----------------------------------------------------------------------------------------


@pytest.mark.emulator
def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Cell by cell in one namespace, as a kernel does; what stands alone at the end of a cell draws itself."""
    book = json.loads((EXAMPLES / "tutorial.ipynb").read_text(encoding="utf-8"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    monkeypatch.chdir(EXAMPLES)
    names: dict[str, Any] = {"__name__": "__main__"}
    drawn = []
    for cell in book["cells"]:
        if cell["cell_type"] != "code":
            continue
        assert (cell["outputs"], cell["execution_count"]) == ([], None)  # no state of somebody's run
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, cell["id"], "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), cell["id"], "eval"), names)
            if value is not None:
                drawn.append(value._repr_html_())
    said = capsys.readouterr().out
    assert "97.2% of 360 images are right" in said
    assert "digits_int8.c digits_int8.h digits_int8_weights.c" in said
    assert len(drawn) == 5
    assert all(html.startswith("<div") for html in drawn)


# --- the examples in C -----------------------------------------------------------------------------------

HEARD = [f"{20 + 200 * k:4} ms: {key}" for k, key in enumerate("159D*0#")]
# the square is two blocks wide and moves by one
SEEN = [
    [f"frame {k + 1}", "........", *["." * k + "#" + "." + "#" + "." * (5 - k)] * 2, *["........"] * 3]
    for k in range(3)
]


@pytest.mark.parametrize(
    ("name", "said"), [("microphone", HEARD), ("camera", [line for frame in SEEN for line in frame])]
)
def test_an_example_in_c(
    name: str, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, need_tool: Callable[[str], str]
) -> None:
    """By the words of its README."""
    need_tool("cc")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(EXAMPLES)
    readme = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
    make, build, compile_and_run = re.findall(r"^```\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)[0].splitlines()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert make.startswith("python ")
    line = [sys.executable, *shlex.split(make)[1:]]
    subprocess.run(line, env=environment, check=True, timeout=60)
    assert run_command(shlex.split(build)[1:]) == 0
    strict = "-std=c99 -Wall -Wextra -Wconversion -Wdouble-promotion -pedantic -Werror"
    program = compile_and_run.replace("cc ", f"cc {strict} ", 1)
    done = subprocess.run(["sh", "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == said
