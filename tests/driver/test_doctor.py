"""``sdk doctor``: every check passes here or says how, and fails with a command when what it looks at is gone."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from sdk import installs
from sdk.cli import run_command
from sdk.driver import doctor_checks
from sdk.driver.doctor_checks import CHECKS, Check, Finding, doctor
from sdk.errors import MissingToolError
from sdk.installs import OPTIONAL_PACKAGES, PACKAGES, install_command, manager, pip_command

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = (
    *("qemu-system-arm", "qemu-system-riscv32", "qemu-aarch64", "node", "gcc", "clang", "arm-none-eabi-gcc", "cmake"),
    "riscv64-unknown-elf-gcc",
)


def result(name: str) -> doctor_checks.CheckResult:
    (found,) = doctor(tuple(c for c in CHECKS if c.name == name)).checks
    return found


def test_all_that_is_needed_is_here() -> None:
    needed = doctor(tuple(c for c in CHECKS if c.needed))
    assert needed.passed
    assert {c.status for c in needed.checks} == {"ok"}
    assert all(c.detail and c.fix is None for c in needed.checks)


def test_the_table() -> None:
    names = [c.name for c in CHECKS]
    assert len(set(names)) == len(names)
    assert all(c.purpose for c in CHECKS)
    assert {c.name for c in CHECKS if c.needed} == {"python", "packages", "compiler", "compiler cache", "cache"}


def test_packages_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    def split(lines: list[str]) -> dict[str, str]:
        pairs = [re.fullmatch(r"([A-Za-z0-9-]+)(.*)", line) for line in lines]
        return {m[1]: m[2] for m in pairs if m}

    assert split(project["dependencies"]) == PACKAGES
    names = ("verify", "torch", "unicorn", "zig", "discover", "farm", "llm")
    extras = [line for name in names for line in project["optional-dependencies"][name]]
    assert split(extras) == OPTIONAL_PACKAGES


@pytest.mark.parametrize("name", PROGRAMS)
def test_without_path_no_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(installs, "manager", lambda: "apt")
    found = result(name)
    assert (found.status, found.detail) == ("absent", "not installed")
    assert "apt-get install -y " in (found.fix or "")


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n.startswith("qemu")])
def test_an_emulator_without_plugins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    program = tmp_path / name
    program.write_text("#!/bin/sh\necho an emulator 1.0\n", encoding="ascii")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = result(name)
    assert (found.status, found.detail) == ("absent", "an emulator 1.0, takes no TCG plugins")
    assert found.fix == install_command(name)


def test_a_bare_compiler_without_its_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "arm-none-eabi-gcc"
    program.write_text('#!/bin/sh\necho gcc 1.0\ntest "$1" = --version\n', encoding="ascii")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = result("arm-none-eabi-gcc")
    assert (found.status, found.detail) == ("absent", "gcc 1.0, no newlib")


def test_a_program_that_does_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "gcc").write_text("no program", encoding="ascii")
    (tmp_path / "gcc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert result("gcc").status == "absent"


def test_old_python() -> None:
    found = doctor((Check("python", True, "everything", partial(doctor_checks._python, (3, 9, 2))),))
    assert not found.passed
    assert found.checks[0].detail == "3.9.2, 3.11 is needed"
    assert found.checks[0].fix == "python3.11 -m venv .venv"


@pytest.mark.parametrize(
    ("version", "says"),
    [
        (None, "no click"),
        ("8.0.9", "click 8.0.9, >=8.2,<9 is needed"),
        ("9.0.0.dev1", "click 9.0.0.dev1, "),
    ],
)
def test_packages_missing_or_of_another_version(
    monkeypatch: pytest.MonkeyPatch, version: str | None, says: str
) -> None:
    have = importlib.metadata.version

    def other(name: str) -> str:
        if name != "click":
            return have(name)
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "version", other)
    found = result("packages")
    assert (found.status, found.fix) == ("missing", pip_command("click"))
    assert says in found.detail


@pytest.mark.parametrize("name", OPTIONAL_PACKAGES)
def test_engines_and_zig_are_optional(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def none(package: str) -> str:
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(importlib.metadata, "version", none)
    found = result(name)
    assert (found.status, found.detail, found.fix) == ("absent", f"no {name}", pip_command(name))


def test_a_compiler_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> tuple[str, str]:
        raise MissingToolError("the zig toolchain is not installed", hint="pip install ziglang")

    monkeypatch.setattr("sdk.toolchains.zig._zig", gone)
    found = result("compiler")
    assert (found.status, found.detail) == ("missing", "the zig toolchain is not installed")
    assert found.fix == "pip install ziglang"


def test_a_compiler_that_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdk.toolchains.zig._zig", lambda: ("/bin/false", "0.17"))
    found = result("compiler")
    assert found.status == "missing"
    assert "rejected check.c" in found.detail


@pytest.mark.parametrize(
    ("name", "variable"), [("cache", "CROSSLEVEL_CACHE"), ("compiler cache", "ZIG_GLOBAL_CACHE_DIR")]
)
def test_a_cache_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, variable: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(variable, str(tmp_path / "file" / "cache"))
    found = result(name)
    assert found.status == "missing"
    assert (found.fix or "").startswith(f"export {variable}=")


def test_a_cold_compiler_cache_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(tmp_path / "new"))
    assert "cold" in result("compiler cache").detail
    (tmp_path / "new" / "o").mkdir()
    assert result("compiler cache").detail.endswith("warm")


def test_the_size_of_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CROSSLEVEL_CACHE", str(tmp_path))
    (tmp_path / "build").write_bytes(bytes(3 << 20))
    assert result("cache").detail == f"{tmp_path}, 3 MiB"


def test_serial_ports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    port = tmp_path / "ttyACM0"
    port.touch()
    ports = [SimpleNamespace(device=str(port))]
    monkeypatch.setattr("serial.tools.list_ports.comports", lambda: ports)
    assert result("serial ports").detail == str(port)
    monkeypatch.setattr(os, "access", lambda *_: False)
    found = result("serial ports")
    assert (found.status, found.detail) == ("absent", f"no permission to open {port}")
    assert re.fullmatch(r"sudo usermod -aG \S+ \S+", found.fix or "")
    port.unlink()
    assert "dialout" in (result("serial ports").fix or "")
    ports.clear()
    assert result("serial ports").detail == "none attached"


@pytest.mark.parametrize(
    ("release", "by", "command"),
    [
        ("ID=debian\n", "apt", "apt-get install -y qemu-system-misc"),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\n', "apt", "apt-get install -y qemu-system-misc"),
        ("ID=fedora\n", "dnf", "dnf install -y qemu-system-riscv"),
        ("ID=arch\n", "pacman", "pacman -S --needed qemu-system-riscv"),
        ("", "apt", "apt-get install -y qemu-system-misc"),
    ],
)
def test_commands_of_the_system(monkeypatch: pytest.MonkeyPatch, release: str, by: str, command: str) -> None:
    monkeypatch.setattr("platform.system", lambda: "Linux")
    assert manager(release) == by
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert install_command("qemu-system-riscv32", by) == command
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert install_command("qemu-system-riscv32", by) == f"sudo {command}"


def test_commands_of_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    assert manager() == "brew"
    assert install_command("qemu-system-arm") == "brew install qemu"
    assert install_command("qemu-aarch64") is None  # it exists for Linux only


def test_text_and_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        Check("one", True, "all", lambda: Finding(True, "1.0")),
        Check("two", False, "some", lambda: Finding(False, "not installed", "get two")),
    ]
    monkeypatch.setattr(doctor_checks, "CHECKS", tuple(rows))
    assert run_command(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "ok       one  1.0\n" in text
    assert re.search(r"absent +two +not installed\n +for some\n +\$ get two\n", text)
    assert text.endswith("all that is needed is here; 1 optional absent\n")
    rows.append(Check("three", True, "all", lambda: Finding(False, "gone")))
    monkeypatch.setattr(doctor_checks, "CHECKS", tuple(rows))
    assert run_command(["doctor"]) == 10
    assert capsys.readouterr().out.splitlines()[-1].startswith("something needed is missing")
    assert run_command(["doctor", "--json"]) == 10
    data = json.loads(capsys.readouterr().out)
    assert [c["status"] for c in data["checks"]] == ["ok", "absent", "missing"]
    assert data["passed"] is False


@pytest.mark.parametrize("lacked", ["platformdirs", "msgspec"])
def test_it_runs_where_packages_are_missing(tmp_path: Path, lacked: str) -> None:
    for name in ("numpy", "rich", "onnx", "elftools", "serial", lacked):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('no {name}')", encoding="ascii")
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}", "PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-m", "sdk", "doctor"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 10, done.stderr
    assert re.search(rf"missing +cache +no {lacked}", done.stdout)
    assert "something needed is missing" in done.stdout


def test_json_is_as_documented() -> None:
    text = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    (part,) = re.findall(r"^## doctor\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    fields = set(re.findall(r"^\| `(\w+)`", part, re.MULTILINE))
    data = doctor(CHECKS[:1]).to_json()
    assert fields == data.keys() | data["checks"][0].keys()
