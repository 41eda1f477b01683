"""The package: the wheel carries all that it needs, is typed, and works away from the source tree."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

MAX_BYTES = 3_200_000
DATA = ("boards", "c_runtime", "docs", "templates")
# What a user's own file does with the package; mypy --strict has to know every type in it.
USER = """
import numpy as np
from numpy.typing import NDArray

import sdk
from sdk.errors import UsageError
from sdk.graph import ModuleBuilder, f32
from sdk.report import BenchReport, MemoryReport


def digit_of(image: NDArray[np.int8]) -> int:
    try:
        with sdk.compile("model.tflite", board="host", dims={"n": (1, 4)}) as model:
            memory: MemoryReport = model.memory
            bench: BenchReport = model.bench(repeat=2)
            print(memory.build.ram_bytes, bench.samples, sdk.__version__)
            return int(model(image=image)["digit"].argmax())
    except UsageError as error:
        print(error.message, error.hint)
    except sdk.SdkError as error:
        raise SystemExit(error.exit_code) from error
    return -1


def scaled() -> sdk.Model:
    g = ModuleBuilder("scaled")
    n = g.dim("n", 1, 16)
    with g.entry("main") as e:
        e.output("y", e.input("x", f32, (n, 4)))
    return sdk.compile(g.module())
"""
WRONG = """
import sdk

sdk.compile("model.tflite", board=3)
sdk.compile("model.tflite")(1)
sdk.compile("model.tflite").benhc()
"""


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built twice, so that a date or a path in one of them shows."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    wheels: list[Path] = []
    for name in ("one", "two"):
        folder = tmp_path_factory.mktemp(name)
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(command, cwd=root, env=environment, check=True, capture_output=True)
        wheels += folder.glob("crosslevel-*.whl")
    assert wheels[0].read_bytes() == wheels[1].read_bytes()
    return wheels[0]


def files_below(folder: Path) -> set[str]:
    """The files of a folder of the source tree, without what Python leaves there."""
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_is_small_and_whole(root: Path, wheel: Path) -> None:
    assert wheel.stat().st_size <= MAX_BYTES
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    for folder in DATA:
        inside = f"sdk/_data/{folder}/"
        assert {name.removeprefix(inside) for name in names if name.startswith(inside)} == files_below(root / folder)
    code = {name.removeprefix("sdk/") for name in names if name.startswith("sdk/") and "/_data/" not in name}
    assert code == files_below(root / "sdk")
    assert "py.typed" in code
    assert {name.split("/")[0].split("-")[0] for name in names} == {"sdk", "crosslevel"}


Command = Callable[..., str]


@pytest.fixture(scope="module")
def installed(root: Path, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Command:
    """A function that runs the installed command, in a virtual environment that has our packages but no source tree."""
    folder = tmp_path_factory.mktemp("away")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    python = folder / "venv" / "bin" / "python"
    install = ["install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), *install], check=True, timeout=120)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder / "venv")}))
    needed = folder / "needed"  # without zig, which is an extra
    needed.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(("crosslevel", "_crosslevel", "ziglang")):
            (needed / entry.name).symlink_to(entry)
    (packages / "others.pth").write_text(f"{needed}\n", encoding="utf-8")
    shutil.copy(root / "examples" / "digits" / "digits_int8.tflite", folder / "digits.tflite")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(program: str, *arguments: str) -> str:
        command = [str(python.parent / program), *arguments]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_the_wheel_works_away_from_the_source_tree(root: Path, installed: Command) -> None:
    home = Path(installed("python", "-c", "import sdk; print(sdk.__file__)").strip())
    assert not home.is_relative_to(root)
    data = installed("python", "-c", "import sdk.resources as r; print(r.data_dir('boards'))")
    assert Path(data.strip()) == home.parent / "_data" / "boards"
    assert installed("sdk", "--version").startswith("sdk ")
    assert len(json.loads(installed("sdk", "boards", "--json"))["boards"]) >= 8
    for board in ("host", "nucleo_l4r5zi"):
        built = json.loads(installed("sdk", "build", "digits.tflite", "--board", board, "--json"))
        assert built["ram_bytes"] > 0
        assert "gcc" in built["compiler"]
    line = ("verify", "digits.tflite", "--board", "host", "--against", "interp", "--cases", "2", "--json")
    assert json.loads(installed("sdk", *line))["passed"] is True


MAX_INSTALLED_MB = 320  # for this machine and Cortex-M, whose compilers the system has
MAX_INSTALL_S = 40  # of a processor: the network and other tests are not ours


def spent() -> float:
    """Seconds of a processor that the programs started here have taken."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.slow
def test_an_empty_environment(root: Path, wheel: Path, tmp_path: Path) -> None:
    """The wheel as pip installs it, with the reference engines and all from the index: it is quick, and not large."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    programs = tmp_path / "venv" / "bin"
    before = spent()
    line = [programs / "python", "-m", "pip", "install", "--quiet", f"crosslevel[verify] @ {wheel.as_uri()}"]
    subprocess.run(line, check=True, timeout=600)
    assert spent() - before <= MAX_INSTALL_S
    size = sum(path.lstat().st_size for path in (tmp_path / "venv").rglob("*") if path.is_file())
    assert size <= MAX_INSTALLED_MB * 10**6
    model = root / "examples" / "digits" / "digits_int8.tflite"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    for board, compiler in (("host", "gcc"), ("microbit", "arm-none-eabi-gcc"), ("nrf5340_dk", "arm-none-eabi-gcc")):
        for verb in ("build", "verify"):
            line = [programs / "sdk", verb, model, "--board", board, "--json"]
            said = subprocess.run(
                line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=120
            ).stdout
            found = json.loads(said)
            assert found["compiler"].startswith(compiler) if verb == "build" else found["passed"]


def test_a_file_that_uses_the_package_is_typed(root: Path, tmp_path: Path) -> None:
    for name, text in (("user.py", USER), ("wrong.py", WRONG)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    # with the settings and the cache of `make lint`, which are as strict, so that it need not read the package again
    command = [sys.executable, "-m", "mypy", "--config-file", str(root / "pyproject.toml"), str(tmp_path)]
    environment = {**os.environ, "MYPYPATH": str(root)}
    done = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    found = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert [line for line in found if "user.py" in line] == []
    wrong = [line for line in found if "wrong.py" in line]
    assert [line.rpartition("[")[2] for line in wrong] == ["arg-type]", "arg-type]", "attr-defined]"]
