"""``sdk doctor``: a table of checks of this machine, each with what it is for and the command that mends it."""

from __future__ import annotations

import getpass
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from sdk.errors import SdkError
from sdk.frontends import frontends
from sdk.installs import OPTIONAL_PACKAGES, PACKAGES, install_command, pip_command

__all__ = ["CHECKS", "Check", "CheckResult", "DoctorReport", "Finding", "doctor"]

MIN_PYTHON: Final = (3, 11)
TIMEOUT_S: Final = 20
MIB: Final = 1 << 20


@dataclass(frozen=True)
class Finding:
    """What a check saw: whether all is well, in words for people, and the command that mends it."""

    ok: bool
    detail: str
    fix: str | None = None


@dataclass(frozen=True)
class Check:
    """One line of the table: ``probe`` looks; without what is ``needed`` no model can be built."""

    name: str
    needed: bool
    purpose: str
    probe: Callable[[], Finding]


@dataclass(frozen=True)
class CheckResult:
    """A check and what it found; ``status`` is "ok", "missing" (needed), or "absent" (optional)."""

    name: str
    status: str
    needed: bool
    detail: str
    purpose: str
    fix: str | None


@dataclass(frozen=True)
class DoctorReport:
    """All checks in order."""

    checks: tuple[CheckResult, ...]

    @property
    def passed(self) -> bool:
        """Whether all that is needed is there."""
        return all(c.status != "missing" for c in self.checks)

    def to_json(self) -> dict[str, Any]:
        """The object of ``sdk doctor --json``."""
        return {"passed": self.passed, "checks": [asdict(c) for c in self.checks]}


def doctor(checks: tuple[Check, ...] | None = None) -> DoctorReport:
    """Makes the checks (all of them by default); one that itself fails has found something amiss."""
    return DoctorReport(tuple(map(_result, CHECKS if checks is None else checks)))


def _result(check: Check) -> CheckResult:
    try:
        found = check.probe()
    except SdkError as error:
        found = Finding(False, error.message, error.hint)
    except (ImportError, OSError, subprocess.SubprocessError) as error:
        found = Finding(False, str(error))
    status = "ok" if found.ok else "missing" if check.needed else "absent"
    return CheckResult(check.name, status, check.needed, found.detail, check.purpose, None if found.ok else found.fix)


def _gpus(interface: str) -> Finding:
    """The devices of an interface of GPUs with their drivers and limits."""
    found: tuple[str, ...] = import_module("sdk.driver.gpus").gpus(interface)
    return Finding(bool(found), "; ".join(found) or "no device", "install the driver of your GPU")


def _python(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    text = ".".join(map(str, version))
    needed = ".".join(map(str, MIN_PYTHON))
    if version >= MIN_PYTHON:
        return Finding(True, f"{text}, {sys.executable}")
    return Finding(False, f"{text}, {needed} is needed", f"python{needed} -m venv .venv")


def _packages(wanted: Mapping[str, str]) -> Finding:
    """Whether Python packages are installed in versions of the given ranges."""
    shown, wrong = [], []
    for name, ranges in wanted.items():
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            wrong.append((name, f"no {name}"))
            continue
        shown.append(f"{name} {version}")
        if not _within(version, ranges):
            wrong.append((name, f"{name} {version}, {ranges} is needed"))
    fix = " && ".join(pip_command(name) for name, _ in wrong)
    return Finding(not wrong, ", ".join(text for _, text in wrong) or ", ".join(shown), fix)


def _within(version: str, ranges: str) -> bool:
    """Whether a version is in ranges such as ">=0.16,<0.18", by its leading numbers."""
    have = _numbers(version)
    for part in filter(None, ranges.split(",")):
        if part.startswith(">="):
            if have < _numbers(part.removeprefix(">=")):
                return False
        elif have >= _numbers(part.removeprefix("<")):
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    found = []
    for part in version.split("."):
        if not part.isdecimal():
            break
        found.append(int(part))
    return tuple(found)


def _compiler() -> Finding:
    """Whether what is taken without --toolchain compiles and links a program for this machine; its cache is its own."""
    toolchains, boards = import_module("sdk.toolchains"), import_module("sdk.boards")
    with tempfile.TemporaryDirectory(prefix="sdk-") as folder:
        target = toolchains.target_for(boards.load_board("host"))
        tool = toolchains.toolchain_for(target, cache=toolchains.BuildCache(Path(folder)))
        source = toolchains.SourceText("check.c", "int check(void) { return 0; }\n")
        unit = tool.compile(toolchains.CompileJob(source, target, pic=True))
        tool.link(toolchains.LinkJob("shared", (unit,), target), Path(folder) / "check.so")
    return Finding(True, str(tool.version()))


def _compiler_cache() -> Finding:
    """Zig's own cache, where the support library of each target is kept once it was built."""
    if find_spec("ziglang") is None:
        return Finding(True, "none: zig is not installed, and other compilers keep no cache")
    zig = import_module("sdk.toolchains.zig")
    found = _writable(Path(zig.cache_folder()), zig.make_cache_folder, zig.CACHE_VARIABLE)
    if not found.ok:
        return found
    state = "cold: the first link for each kind of board takes some seconds more" if zig.is_cold() else "warm"
    return Finding(True, f"{found.detail}, {state}")


def _cache() -> Finding:
    """Our cache of builds, and how much it holds."""
    cache = import_module("sdk.toolchains.cache")
    folder = Path(cache.cache_root())
    found = _writable(folder, partial(cache.private_folder, folder, cache.CACHE_VARIABLE), cache.CACHE_VARIABLE)
    if not found.ok:
        return found
    held = sum(_size(Path(at, name)) for at, _, names in os.walk(folder) for name in names)
    return Finding(True, f"{folder}, {held / MIB:,.0f} MiB")


def _size(entry: Path) -> int:
    """Bytes of a file; other builds may remove it meanwhile, or a folder of the walk."""
    try:
        return entry.stat().st_size
    except OSError:
        return 0


def _writable(folder: Path, make: Callable[[], Path], variable: str) -> Finding:
    """Whether we and nobody else can make files in a folder, which ``make`` makes where it is not there yet."""
    cache = import_module("sdk.toolchains.cache")
    try:
        with tempfile.TemporaryFile(dir=make()):
            return Finding(True, str(folder))
    except OSError as error:
        return Finding(False, f"cannot write {folder}: {error.strerror}", cache.elsewhere(variable))


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=False)
    return done.stdout + done.stderr


def _program(name: str, *look: Callable[[str], Finding]) -> Finding:
    """Whether a program is on PATH, its version, and what ``look`` finds of it."""
    if shutil.which(name) is None:
        return Finding(False, "not installed", install_command(name))
    found = [Finding(True, (_run(name, "--version").strip() or "no version").splitlines()[0])]
    found += [one(name) for one in look]
    fix = next((f.fix for f in found if not f.ok), None)
    return Finding(all(f.ok for f in found), ", ".join(f.detail for f in found), fix)


def _takes_plugins(emulator: str) -> Finding:
    """Whether it is built with TCG plugins, as static builds are not."""
    if "-plugin" in _run(emulator, "--help"):
        return Finding(True, "takes plugins")
    return Finding(False, "takes no TCG plugins", install_command(emulator))


def _has_newlib(compiler: str) -> Finding:
    """Whether a bare-metal compiler has a C library."""
    found = import_module("sdk.toolchains.installed").has_c_library(shutil.which(compiler))
    return Finding(found, "newlib" if found else "no newlib", install_command(compiler))


def _ports() -> Finding:
    """Serial ports that may be opened; none is no fault."""
    ports = sorted(port.device for port in import_module("serial.tools.list_ports").comports())
    closed = [port for port in ports if not os.access(port, os.R_OK | os.W_OK)]
    if not closed:
        return Finding(True, ", ".join(ports) or "none attached")
    group = _group_of(Path(closed[0]))
    return Finding(
        False, f"no permission to open {', '.join(closed)}", f"sudo usermod -aG {group} {getpass.getuser()}"
    )


def _group_of(port: Path) -> str:
    """The group that may use a port; most Linux systems call it dialout."""
    try:
        return port.group()
    except (KeyError, OSError):
        return "dialout"


def _emulated() -> Finding:
    """The boards by what emulates them here."""
    boards, machines = import_module("sdk.boards"), import_module("sdk.driver.machines")
    found: dict[str, list[str]] = {}
    for name in boards.board_names():
        board = boards.load_board(name)
        if engine := machines.engine_of(board):
            found.setdefault("unicorn" if engine == "unicorn" else board.emulator.program, []).append(name)
    absent = [e for e in found if (find_spec(e) if e == "unicorn" else shutil.which(e)) is None]
    shown = "; ".join(f"{e}{' (not installed)' if e in absent else ''}: {', '.join(found[e])}" for e in sorted(found))
    return Finding(not absent, shown, "see the lines of " + ", ".join(absent))


def _pip(name: str) -> Callable[[], Finding]:
    return partial(_packages, {name: OPTIONAL_PACKAGES.get(name, "")})


CHECKS: Final = (
    Check("python", True, "everything", _python),
    Check("packages", True, "everything", partial(_packages, PACKAGES)),
    Check("compiler", True, "every build for this machine", _compiler),
    Check("compiler cache", True, "every build by zig", _compiler_cache),
    Check("cache", True, "every build", _cache),
    Check("unicorn", False, "emulated Cortex-M0 to M33 and RV32 boards: run, verify, bench, fit", _pip("unicorn")),
    Check("emulated boards", False, "which emulator each board uses", _emulated),
    Check("qemu-system-arm", False, "Cortex-M55, a second opinion on Arm boards (--device qemu://)",
          partial(_program, "qemu-system-arm", _takes_plugins)),
    Check("qemu-system-riscv32", False, "a second opinion on RISC-V boards (--device qemu://)",
          partial(_program, "qemu-system-riscv32", _takes_plugins)),
    Check("qemu-aarch64", False, "AArch64 programs on this machine", partial(_program, "qemu-aarch64", _takes_plugins)),
    Check("node", False, "WebAssembly: run, verify, bench, profile", partial(_program, "node")),
    *(
        Check(engine.distribution, False, f"sdk verify of {frontend.suffixes[0]} models", _pip(engine.distribution))
        for frontend in frontends()
        for engine in frontend.engines
    ),
    Check("ziglang", False, "WebAssembly, AArch64 Linux, and every board without a compiler below", _pip("ziglang")),
    Check("gcc", False, "this machine without zig, --toolchain gcc", partial(_program, "gcc")),
    Check("clang", False, "this machine without zig and gcc, --toolchain clang", partial(_program, "clang")),
    Check("arm-none-eabi-gcc", False, "Cortex-M without zig, --toolchain arm-none-eabi-gcc, examples/firmware",
          partial(_program, "arm-none-eabi-gcc", _has_newlib)),
    Check("riscv64-unknown-elf-gcc", False, "RISC-V boards without zig",
          partial(_program, "riscv64-unknown-elf-gcc")),
    Check("cmake", False, "examples/firmware", partial(_program, "cmake")),
    Check("OpenCL", False, "--gpu opencl", partial(_gpus, "opencl")),
    Check("Vulkan", False, "--gpu vulkan", partial(_gpus, "vulkan")),
    Check("zeroconf", False, "agents on the local network in sdk devices", _pip("zeroconf")),
    Check("distributed", False, "sdk farm, sdk bench --farm", _pip("distributed")),
    Check("tokenizers", False, "tokenizers of language models", _pip("tokenizers")),
    Check("uvicorn", False, "sdk llm serve", _pip("uvicorn")),
    Check("serial ports", False, "boards over a cable", _ports),
)
