"""What the system tells of the machine: cores, clocks, governors, temperatures, memory, load."""

from __future__ import annotations

import contextlib
import os
import platform
import re
from pathlib import Path

from sdk.devices.machine import Core, MachineFacts, machine_name

__all__ = ["machine_facts"]

_CPUS = Path("/sys/devices/system/cpu")
_ZONES = Path("/sys/class/thermal")
_MAX_CORES = 1024
_MAX_ZONES = 64
_MAX_TEXT = 64


def machine_facts(used_by: str | None = None) -> MachineFacts:
    """What can be known now; nothing is made up where the system does not tell. ``used_by`` is who has the machine."""
    memory = _fields(_text(Path("/proc/meminfo")))
    return MachineFacts(
        name=platform.node()[:_MAX_TEXT],
        system=f"{platform.system()} {platform.release()}"[:_MAX_TEXT],
        machine=machine_name(platform.machine())[:_MAX_TEXT],
        cpu=_cpu_name(),
        cores=tuple(_core(number) for number in sorted(_usable())[:_MAX_CORES]),
        temperatures_c=_temperatures(),
        memory_bytes=_kilobytes(memory.get("MemTotal")),
        free_bytes=_kilobytes(memory.get("MemAvailable")),
        load=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        used_by=used_by,
    )


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
        _mhz(folder / "scaling_max_freq"),
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
