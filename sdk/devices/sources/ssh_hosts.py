"""Machines of ``~/.ssh/config``. None is connected to: that may ask for a password."""

from __future__ import annotations

import glob
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from sdk.devices.sources.base import Found, register_source
from sdk.files import read_regular

__all__ = ["find_hosts"]

_PLACE = "ssh"
_MAX_BYTES = 1 << 20
_MAX_FILES = 64
_MAX_HOSTS = 256


@register_source(_PLACE)
def find_hosts() -> Iterator[Found]:
    """The hosts with a name of their own, in the order of the file."""
    home = Path.home() / ".ssh"
    names = dict.fromkeys(_names(home / "config", home, [_MAX_FILES]))
    for name in list(names)[:_MAX_HOSTS]:
        yield Found(_PLACE, f"ssh://{name}", name, "not asked", fix=f"ssh {shlex.quote(name)}")


def _names(path: Path, home: Path, left: list[int]) -> Iterator[str]:
    left[0] -= 1
    if left[0] < 0:
        return
    try:
        text = read_regular(path, _MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return
    for line in text.splitlines():
        word, _, rest = line.strip().replace("=", " ", 1).partition(" ")
        try:
            words = shlex.split(rest)
        except ValueError:
            continue
        if word.lower() == "host":
            yield from (name for name in words if not set(name) & set("*?!"))
        elif word.lower() == "include":
            for pattern in words:
                for one in sorted(glob.glob(os.path.join(home, os.path.expanduser(pattern)))):
                    yield from _names(Path(one), home, left)
