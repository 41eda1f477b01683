"""Backends by name: what a package of them is, what the command makes with one, and which choices it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sdk.codegen_c
from sdk.boards import board_names, load_board
from sdk.codegen_c import backend_names, backends, get_backend, usual_backend
from sdk.codegen_c.base import Backend
from sdk.driver import BuildOptions, bench, build, fit, inspect, run
from sdk.driver.built import load_built
from sdk.errors import UsageError
from sdk.report import BuildReport

ROOT = Path(__file__).resolve().parents[2]
MODEL = """
module net imported

graph @main(%x: f32[4]) {
  %y = add(%x, %x) : f32[4]
  return %y
}
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.ir"
    path.write_text(MODEL)
    return path


def built(model: Path, board: str = "host", emit: str = "c", **choices: object) -> BuildReport:
    options = BuildOptions(**choices)  # type: ignore[arg-type]
    return build(model, load_board(board), options, emit=emit, out=model.parent / "out")


@pytest.mark.parametrize("backend", backends(), ids=lambda backend: backend.name)
def test_records(backend: Backend) -> None:
    assert backend is sys.modules[f"sdk.codegen_c.{backend.name}"].BACKEND
    assert backend.choices <= {name for name in BuildOptions.__dataclass_fields__}


def test_every_board_has_a_backend() -> None:
    assert {usual_backend(load_board(name)).name for name in board_names()} == {"c99"}
    with pytest.raises(UsageError, match="unknown backend"):
        get_backend("nul")


def test_a_board_without_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = tuple(backend for backend in backends() if backend.runtime is None)
    monkeypatch.setattr(sdk.codegen_c, "backends", lambda: idle)
    with pytest.raises(UsageError, match="no backend's code runs on host") as caught:
        usual_backend(load_board("host"))
    assert caught.value.hint == "--backend null or opencl or spirv or wgsl"


def test_records_import_no_code() -> None:
    code = "import sys, sdk; before = set(sys.modules); from sdk.codegen_c import backends; backends(); " \
        "assert not [m for m in set(sys.modules) - before if m.startswith('sdk.compiler')]"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)


def test_sources_of_a_backend_without_runtime(model: Path) -> None:
    report = built(model, backend="null")
    assert [Path(name).name for name in report.files] == ["manifest.json", "net.txt"]
    assert (report.sections, report.stack_bytes, report.context_bytes) == ({}, 0, 0)
    assert report.ram_bytes == report.arena_bytes
    assert load_built(model.parent / "out").sources.backend == "null"


def test_a_backend_is_asked_for_by_name(model: Path) -> None:
    assert built(model, backend="c99").to_json() == built(model).to_json()


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"backend": "metal"}, "unknown backend 'metal'"),
        ({"backend": "opencl", "board": "qemu-cortex-m4"}, "the opencl backend prints no code for qemu-cortex-m4"),
        ({"backend": "opencl", "opt": "size"}, "--opt means nothing to the opencl backend"),
        ({"backend": "opencl", "threads": 2}, "--threads means nothing to the opencl backend"),
        ({"backend": "opencl", "arena_limit": 64}, "--arena-limit means nothing to the opencl backend"),
        ({"backend": "opencl", "emit": "lib"}, "the code of the opencl backend cannot be compiled and run yet"),
        ({"backend": "null", "emit": "firmware"}, "the code of the null backend cannot be compiled and run yet"),
    ],
)
def test_choices_without_a_meaning_are_refused(model: Path, choices: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        built(model, **choices)  # type: ignore[arg-type]
    assert caught.value.hint
    assert not (model.parent / "out").exists()


def test_code_that_cannot_be_run(model: Path) -> None:
    options, board = BuildOptions(backend="opencl"), load_board("host")
    with pytest.raises(UsageError, match="cannot be compiled and run yet"):
        bench(model, board, None, options, {}, 1, 1)
    built(model, backend="opencl")
    with pytest.raises(UsageError, match="cannot be compiled and run yet"):
        run(model.parent / "out", None, None, BuildOptions(), {}, {})
    with pytest.raises(UsageError, match="prints no code for"):
        fit(model, options)


def test_the_program_of_a_grid(model: Path) -> None:
    text = inspect(model, load_board("host"), BuildOptions(backend="opencl"), "scheduled")
    assert 'bind axis "global.x"' in text


TOY = '''
"""The toy backend: the names of entries."""

from sdk.codegen_c.base import Backend, Emitted


def names(module, prefix, isa, options):
    return Emitted({f"{prefix}.toy": " ".join(module.plans)})


BACKEND = Backend("toy", "toys", names)
'''


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A backend that is nothing but a package where backends are looked for."""
    (tmp_path / "found" / "toy").mkdir(parents=True)
    (tmp_path / "found" / "toy" / "__init__.py").write_text(TOY)
    monkeypatch.setattr(sdk.codegen_c, "__path__", [*sdk.codegen_c.__path__, str(tmp_path / "found")])
    backends.cache_clear()
    yield
    backends.cache_clear()
    del sys.modules["sdk.codegen_c.toy"], sdk.codegen_c.toy  # type: ignore[attr-defined]


@pytest.mark.usefixtures("toy")
def test_a_backend_is_one_package(model: Path) -> None:
    assert "toy" in backend_names()
    built(model, backend="toy")
    assert (model.parent / "out" / "net.toy").read_text() == "main"


def test_the_command(model: Path) -> None:
    command = [sys.executable, "-m", "sdk", "build", str(model), "--board", "host", "--json"]
    out = ["-o", str(model.parent / "cl")]
    command += [*out, "--backend", "opencl"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["sections"] == {}
    refused = subprocess.run([*command, "--emit", "lib"], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (refused.returncode, "hint" in json.loads(refused.stdout)["error"]) == (2, True)
