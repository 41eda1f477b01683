"""What the system tells of the machine: cores, clocks, governors, temperatures, memory, load."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import sys
from pathlib import Path

from sdk.devices.machine import Core, MachineFacts

__all__ = ["elf_machine", "machine_facts"]

_CPUS = Path("/sys/devices/system/cpu")
_ZONES = Path("/sys/class/thermal")
_MAX_CORES = 1024
_MAX_ZONES = 64
_MAX_TEXT = 64
# What the header of a program says, and what the system calls such a machine.
_ELF_MACHINES = {3: "i686", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_ALIKE = {"amd64": "x86_64", "arm64": "aarch64", "armv7l": "arm", "armv6l": "arm", "armv8l": "arm", "i386": "i686"}


def machine_facts(used_by: str | None = None) -> MachineFacts:
    """What can be known now; nothing is made up where the system does not tell. ``used_by`` is who has the machine."""
    memory = _fields(_text(Path("/proc/meminfo")))
    return MachineFacts(
        name=platform.node()[:_MAX_TEXT],
        system=f"{platform.system()} {platform.release()}"[:_MAX_TEXT],
        machine=_this_machine(),
        cpu=_cpu_name(),
        cores=tuple(_core(number) for number in sorted(_usable())[:_MAX_CORES]),
        temperatures_c=_temperatures(),
        memory_bytes=_kilobytes(memory.get("MemTotal")),
        free_bytes=_kilobytes(memory.get("MemAvailable")),
        load=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        used_by=used_by,
    )


def elf_machine(head: bytes) -> str | None:
    """For which machine a program is, by its first 20 bytes, where that is another one than this; else None."""
    if head[:4] != b"\x7fELF" or len(head) < 20 or head[5] not in (1, 2):
        return None if sys.platform != "linux" or head[:2] == b"#!" else "no program of this system"
    number = int.from_bytes(head[18:20], "little" if head[5] == 1 else "big")
    name = _ELF_MACHINES.get(number, f"machine {number}")
    this = _this_machine()
    runs = {this, *({"i686"} if this == "x86_64" else {"arm"} if this == "aarch64" else ())}
    return None if name in runs else name


def _this_machine() -> str:
    name = platform.machine().lower()
    return _ALIKE.get(name, name)[:_MAX_TEXT]


def _usable() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _core(number: int) -> Core:
    folder = _CPUS / f"cpu{number}" / "cpufreq"
    return Core(
        number,
        _mhz(folder / "scaling_cur_freq"),
        _mhz(folder / "cpuinfo_max_freq"),
        (_text(folder / "scaling_governor") or "").strip()[:_MAX_TEXT] or None,
    )


def _mhz(path: Path) -> float | None:
    value = _number(path)
    return None if value is None else value / 1000


def _temperatures() -> dict[str, float]:
    found: dict[str, float] = {}
    with contextlib.suppress(OSError):
        for zone in sorted(_ZONES.glob("thermal_zone*"))[:_MAX_ZONES]:
            value = _number(zone / "temp")
            if value is not None:
                kind = (_text(zone / "type") or zone.name).strip()[:_MAX_TEXT]
                found[kind if kind not in found else f"{kind} {zone.name[12:]}"] = value / 1000
    return found


def _cpu_name() -> str | None:
    board = (_text(Path("/proc/device-tree/model")) or "").strip("\0\n")
    fields = _fields(_text(Path("/proc/cpuinfo")))
    names = (board, *(fields.get(key) for key in ("model name", "Model", "Hardware", "uarch")))
    return next((name[:_MAX_TEXT] for name in names if name), None)


def _fields(text: str | None) -> dict[str, str]:
    return dict(re.findall(r"^(\S[^:\n]*?)\s*:\s*(.*)$", text or "", re.MULTILINE))


def _kilobytes(text: str | None) -> int | None:
    found = re.match(r"(\d+) kB", text or "")
    return int(found[1]) * 1024 if found else None


def _number(path: Path) -> int | None:
    try:
        return int(_text(path) or "")
    except ValueError:
        return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")[:_MAX_TEXT * 1024]
    except OSError:
        return None
