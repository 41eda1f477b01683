"""Drives that boards show while their loader runs: those with a file INFO_UF2.TXT, which says what board it is."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Drive", "find_drives", "read_drive"]

INFO: Final = "INFO_UF2.TXT"
_MAX_INFO: Final = 4096
_LABELS: Final = Path("/dev/disk/by-label")
_MOUNTS: Final = Path("/proc/self/mounts")
_FOLDERS: Final = ("/media", "/run/media", "/Volumes")
_KINDS: Final = ("vfat", "msdos", "exfat", "fuseblk")


@dataclass(frozen=True)
class Drive:
    """A drive by its folder, and what its board and loader say that they are."""

    folder: Path
    board_id: str
    model: str


def find_drives() -> list[Drive]:
    """The drives that are mounted here."""
    found = (read_drive(folder) for folder in sorted(set(_folders())))
    return [drive for drive in found if drive is not None]


def unmounted() -> list[str]:
    """Labels of drives that may be a board's, and that nobody has mounted."""
    if not _LABELS.is_dir():
        return []
    mounted = {os.path.realpath(device) for device, _, _ in _mounts()}
    names = (path for path in sorted(_LABELS.iterdir()) if re.search(r"RP2|BOOT|UF2", path.name))
    return [path.name for path in names if os.path.realpath(path) not in mounted]


def read_drive(folder: Path) -> Drive | None:
    """The drive in a folder; None where it is no board's."""
    try:
        with (folder / INFO).open("rb") as file:
            text = file.read(_MAX_INFO).decode("ascii", "replace")
    except OSError:
        return None
    facts = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    if "Board-ID" not in facts:
        return None
    return Drive(folder, facts["Board-ID"].strip(), facts.get("Model", "").strip())


def _folders() -> Iterator[Path]:
    for _, folder, kind in _mounts():
        if kind in _KINDS:
            yield Path(folder)
    for root in map(Path, _FOLDERS):
        for depth in ("*", "*/*"):
            yield from (path for path in root.glob(depth) if path.is_dir())


def _mounts() -> Iterator[tuple[str, str, str]]:
    """Devices, folders and kinds of what is mounted; escapes of blanks are read."""
    if not _MOUNTS.is_file():
        return
    for line in _MOUNTS.read_text(errors="replace").splitlines():
        device, folder, kind, *_ = line.split()
        yield device, re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), folder), kind
