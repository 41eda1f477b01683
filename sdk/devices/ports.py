"""Who holds a serial port, as the system tells: lock files of other programs, locks of the kernel, open files.

We leave no lock file ourselves: what the kernel keeps for a process ends with it, however that ends.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Holder", "access_hint", "holder_of"]

_LOCKS = Path("/run/lock")  # LCK..NAME, a pid in it: Filesystem Hierarchy Standard 3.0, 5.9
_PROCESSES = Path("/proc")
_MAX_LOCK_BYTES = 64


@dataclass(frozen=True)
class Holder:
    """A process that has a port, by its number."""

    pid: int

    def __str__(self) -> str:
        try:
            place = _PROCESSES / str(self.pid)
            name = (place / "comm").read_text(encoding="utf-8", errors="replace").strip()
            return f"process {self.pid} ({name}) of {_user(place.stat().st_uid)}"
        except OSError:
            return f"process {self.pid}"


def holder_of(device: Path) -> Holder | None:
    """Another process that has ``device``, a path without links; None where nobody has, or nobody may be seen."""
    for pid in (*_noted(device), *_locking(device), *_opening(device)):
        if pid != os.getpid():
            return Holder(pid)
    return None


def access_hint(device: Path) -> str:
    """What lets this user open ``device``: the group that owns it, or a rule where that is no group for people."""
    facts = device.stat()
    group = _group(facts.st_gid)
    if facts.st_gid == 0 or not facts.st_mode & stat.S_IRGRP or not facts.st_mode & stat.S_IWGRP:
        rule = 'SUBSYSTEM=="tty", TAG+="uaccess"'
        return f"sudo tee /etc/udev/rules.d/70-serial.rules <<< '{rule}', sudo udevadm control -R, and plug it in anew"
    if facts.st_gid in os.getgroups():
        return f"the system keeps it from group {group} too: ls -l {device}"
    return f"sudo usermod -aG {group} $USER, then log in anew (newgrp {group} does for one shell)"


def _noted(device: Path) -> Iterator[int]:
    """The process of a lock file that still lives, and has the port where that can be seen: others are left over."""
    name = device.as_posix().removeprefix("/dev/").replace("/", "_")
    with contextlib.suppress(OSError, ValueError):
        with (_LOCKS / f"LCK..{name}").open("rb") as file:
            pid = int(file.read(_MAX_LOCK_BYTES))
        if (_PROCESSES / str(pid)).is_dir() and _has_open(pid, device) is not False:
            yield pid


def _locking(device: Path) -> Iterator[int]:
    """Processes with a lock of flock(): that can be seen of other users' too."""
    with contextlib.suppress(OSError):
        inode = device.stat()
        place = f"{os.major(inode.st_dev):02x}:{os.minor(inode.st_dev):02x}:{inode.st_ino}"
        for line in (_PROCESSES / "locks").read_text(encoding="ascii", errors="replace").splitlines():
            words = line.split()  # NUMBER: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE START END
            if len(words) >= 6 and words[1] == "FLOCK" and words[5] == place and words[4].isdecimal():
                yield int(words[4])


def _opening(device: Path) -> Iterator[int]:
    """Processes that have it open, of those that this user may look into."""
    with contextlib.suppress(OSError):
        for name in os.listdir(_PROCESSES):
            if name.isdecimal() and _has_open(int(name), device):
                yield int(name)


def _has_open(pid: int, device: Path) -> bool | None:
    """Whether a process has ``device`` open; None where that may not be seen."""
    folder = f"{_PROCESSES}/{pid}/fd"
    try:
        files = os.listdir(folder)
    except OSError:
        return None
    for file in files:
        with contextlib.suppress(OSError):
            if os.readlink(f"{folder}/{file}") == str(device):
                return True
    return False


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
