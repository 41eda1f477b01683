"""What the machine we run on can execute, found at run time."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from pathlib import Path

# The kernel's flag names that differ from ours.
_X86_NAMES = {
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
    "avx_vnni": "avxvnni",
    "avx512_vnni": "avx512vnni",
    "avx512_bf16": "avx512bf16",
    "avx512_fp16": "avx512fp16",
}
_ARM_NAMES = {"asimd": "neon", "asimddp": "dotprod", "asimdhp": "fp16"}
_ARCHS = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64"}


@dataclass(frozen=True)
class HostMachine:
    """Architecture, capabilities, address width and the compiler's target triple of this machine."""

    arch: str
    capabilities: frozenset[str]
    pointer_bits: int
    zig_target: str


def parse_cpuinfo(text: str, arch: str, known: frozenset[str]) -> frozenset[str]:
    """Return the capabilities in ``known`` that /proc/cpuinfo's text grants on every core it lists."""
    label, names = ("flags", _X86_NAMES) if arch == "x86_64" else ("Features", _ARM_NAMES)
    per_core = [
        frozenset(names.get(flag, flag) for flag in line.split(":", 1)[1].split())
        for line in text.splitlines()
        if line.split(":", 1)[0].strip() == label and ":" in line
    ]
    return frozenset.intersection(*per_core) & known if per_core else frozenset()


def detect(known: frozenset[str]) -> HostMachine:
    """Describe this machine; where the system lists no features, claim the architecture's baseline."""
    machine = platform.machine().lower()
    arch = _ARCHS.get(machine, machine)
    found = {"x86_64": frozenset({"sse2"}), "aarch64": frozenset({"neon"})}.get(arch, frozenset())
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        found |= parse_cpuinfo(cpuinfo.read_text(errors="replace"), arch, known)
    elif sys.platform == "darwin" and arch == "aarch64":
        found |= {"dotprod", "fp16"}  # in every Apple core since the M1
    # Every machine in _ARCHS loads and stores unaligned words and divides in hardware.
    found |= {"unaligned", "div", "fpu-sp", "fpu-dp"}
    return HostMachine(arch, found & known, 64 if sys.maxsize > 2**32 else 32, f"{arch}-{_system()}")


def _system() -> str:
    if sys.platform == "darwin":
        return "macos"
    if sys.platform == "win32":
        return "windows-gnu"
    return "linux-gnu" if platform.libc_ver()[0] == "glibc" else "linux-musl"
