"""How what the tool can use is installed here: the exact command for each program and Python package."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

__all__ = ["OPTIONAL_PACKAGES", "PACKAGES", "install_command", "manager", "pip_command"]

# What pyproject.toml requires, and what its extras "verify", "torch", "unicorn", "zig", "discover", "farm" and "llm"
# add: distribution and versions. A test compares them. Hints name packages and no extra of ours, which only an
# installation from an index would know.
PACKAGES: Final = {
    "click": ">=8.2,<9",
    "jinja2": ">=3.1,<4",
    "msgspec": ">=0.19,<1",
    "numpy": ">=1.26,<3",
    "onnx": ">=1.18,<2",
    "platformdirs": ">=4,<5",
    "pyelftools": ">=0.32,<1",
    "pyserial": ">=3.5,<4",
    "rich": ">=13.7,<16",
    "tflite": ">=2.18,<3",
}
OPTIONAL_PACKAGES: Final = {
    "ai-edge-litert": ">=2.1,<3",
    "distributed": ">=2026.8,<2028",
    "onnxruntime": ">=1.20,<2",
    "tflite-micro": ">=0.dev20240101,<1",
    "tokenizers": ">=0.22,<1",
    "torch": ">=2.13,<3",
    "unicorn": ">=2.1.4,<2.2",
    "uvicorn": ">=0.30,<1",
    "zeroconf": ">=0.131,<1",
    "ziglang": ">=0.16,<0.18",
}

_COMMANDS: Final = {
    "apt": "apt-get install -y",
    "dnf": "dnf install -y",
    "pacman": "pacman -S --needed",
    "brew": "brew install",
}
# Program -> packages that bring it, by manager; "" stands for the managers not named.
_PROGRAMS: Final[dict[str, dict[str, str]]] = {
    "qemu-system-arm": {"brew": "qemu", "": "qemu-system-arm"},
    "qemu-system-riscv32": {
        "apt": "qemu-system-misc",
        "dnf": "qemu-system-riscv",
        "pacman": "qemu-system-riscv",
        "brew": "qemu",
    },
    "qemu-aarch64": {"apt": "qemu-user", "dnf": "qemu-user", "pacman": "qemu-user"},
    "node": {"brew": "node", "": "nodejs"},
    "gcc": {"": "gcc"},
    "clang": {"brew": "llvm", "": "clang"},
    "cmake": {"": "cmake"},
    "arm-none-eabi-gcc": {
        "apt": "gcc-arm-none-eabi libnewlib-arm-none-eabi",
        "dnf": "arm-none-eabi-gcc-cs arm-none-eabi-newlib",
        "pacman": "arm-none-eabi-gcc arm-none-eabi-newlib",
        "brew": "--cask gcc-arm-embedded",
    },
    "riscv64-unknown-elf-gcc": {
        "apt": "gcc-riscv64-unknown-elf",
        "pacman": "riscv64-elf-gcc",
        "brew": "riscv64-elf-gcc",
    },
}
_FAMILIES: Final = {"debian": "apt", "ubuntu": "apt", "fedora": "dnf", "rhel": "dnf", "arch": "pacman"}


def manager(release: str | None = None) -> str:
    """This system's package manager; ``release`` is the text of /etc/os-release (None: read it). "apt" where nothing
    tells, since the names of packages then are at least those that most pages on the web give."""
    if platform.system() == "Darwin":
        return "brew"
    if release is None:
        file = Path("/etc/os-release")
        release = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    facts = dict(line.split("=", 1) for line in release.splitlines() if "=" in line)
    names = [name for key in ("ID", "ID_LIKE") for name in facts.get(key, "").strip("\"'").split()]
    return next((_FAMILIES[name] for name in names if name in _FAMILIES), "apt")


def install_command(program: str, by: str | None = None) -> str | None:
    """The command that installs ``program`` with package manager ``by`` (None: this system's); None where no package of
    that manager is known to bring it."""
    by = by or manager()
    names = _PROGRAMS.get(program, {})
    packages = names.get(by) or names.get("")
    if packages is None:
        return None
    as_root = by != "brew" and os.geteuid() != 0
    return f"{'sudo ' if as_root else ''}{_COMMANDS[by]} {packages}"


def pip_command(package: str) -> str:
    """The command that installs a Python package for the Python that runs this, by uv where that made an environment
    without pip."""
    wanted = package + {**PACKAGES, **OPTIONAL_PACKAGES}.get(package, "")
    if find_spec("pip") is None and shutil.which("uv"):
        return shlex.join(["uv", "pip", "install", "--python", sys.executable, wanted])
    return shlex.join([sys.executable, "-m", "pip", "install", wanted])
