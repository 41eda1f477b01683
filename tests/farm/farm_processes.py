"""A farm on this machine: its scheduler and its workers as processes that tests start, kill and start again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_int8.tflite"


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


def copies(folder: Path, count: int) -> list[Path]:
    """Models that are other ones by their names alone, so that they are built once."""
    paths = [folder / f"model{k}.tflite" for k in range(count)]
    for path in paths:
        path.write_bytes(DIGITS.read_bytes())
    return paths


def certificates(folder: Path, openssl: str) -> tuple[Path, Path, Path]:
    """An authority, and a certificate by it with its key."""
    folder.mkdir()
    ca, ca_key, cert, key, asked = (folder / name for name in ("ca.pem", "ca.key", "cert.pem", "key.pem", "asked"))
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    for words in (
        ["req", "-x509", *new, "-subj", "/CN=authority", "-days", "9", "-keyout", ca_key, "-out", ca],
        ["req", *new, "-subj", "/CN=farm", "-keyout", key, "-out", asked],
        ["x509", "-req", "-in", asked, "-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-days", "9", "-out", cert],
    ):
        subprocess.run([openssl, *words], check=True, capture_output=True)
    return ca, cert, key


class Process:
    """An ``sdk farm`` command in a process group of its own, after the words ``within`` another command; ``folder`` is
    for what Dask leaves there."""

    def __init__(self, *words: str, folder: Path, within: Sequence[str] = ()) -> None:
        command = [*within, sys.executable, "-m", "sdk", "farm", *words]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, "TMPDIR": str(folder)},
        )  # fmt: skip
        self.errors: list[str] = []
        self.out: list[str] = []
        self._threads = [
            threading.Thread(target=self._read, args=pair, daemon=True)
            for pair in ((self._process.stdout, self.out), (self._process.stderr, self.errors))
        ]
        self._ready = threading.Event()
        for thread in self._threads:
            thread.start()

    def _read(self, stream, lines: list[str]) -> None:
        for line in stream:
            lines.append(line)
            if lines is self.out and line == "}\n":
                self._ready.set()

    def ready(self) -> dict[str, object]:
        """The object that it prints when it serves."""
        assert self._ready.wait(60), (self.out, self.errors)
        return dict(json.loads("".join(self.out)))

    def kill(self) -> None:
        """End it and all that it started, at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(30)

    def end(self) -> int:
        """End it as Ctrl-C does; its exit code."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)
        try:
            return self._process.wait(90)  # Dask gives a job under way 30 s
        finally:
            self.kill()

    def close(self) -> None:
        """Leave nothing."""
        self.kill()
        for thread in self._threads:
            thread.join(10)
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()
