"""Processes that tests kill, and what is left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MARK = "CROSSLEVEL_TEST_KILLS"
GONE_S = 30.0  # for what was started to end; an agent keeps a program for 5 s


class Place:
    """Processes with a mark, and a folder of theirs for temporary files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.env = {**os.environ, MARK: str(folder), "TMPDIR": str(self.temporary), "CROSSLEVEL_KEYS": str(folder),
                    "PYTHONPATH": f"{ROOT}{os.pathsep}{HERE}"}  # fmt: skip

    def start(self, *words: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen([sys.executable, *words], stdout=pipe, stderr=pipe, text=True, env=self.env, cwd=ROOT)

    def alive(self) -> dict[int, str]:
        """The marked processes, and those whose program lies in the folder, by what they were started with."""
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                facts = (path / "environ").read_bytes() + bytes(str((path / "exe").readlink()), "utf-8")
                if str(self.folder).encode() in facts and int(path.name) != os.getpid():
                    found[int(path.name)] = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
            except OSError:
                continue
        return found

    def kill_all(self) -> None:
        for pid in self.alive():
            os.kill(pid, signal.SIGKILL)

    def wait_until_gone(self, but: set[int]) -> None:
        until = time.monotonic() + GONE_S
        while (left := self.alive().keys() - but) and time.monotonic() < until:
            time.sleep(0.05)
        assert not left, self.alive()


def heard(process: subprocess.Popen[str], *last: str) -> str:
    """What a process prints, up to a line that ends with one of ``last``."""
    assert process.stdout is not None
    text = ""
    while not text.endswith(last) and (line := process.stdout.readline()):
        text += line
    return text
