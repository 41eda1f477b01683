"""Firefox without a screen for tests, driven by the protocol that it speaks itself (Marionette)."""

from __future__ import annotations

import itertools
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

LONG = 120  # seconds: the machine may be busy
PORT = "MarionetteActivePort"  # a file of the profile
# no network but this machine; a port that is free
_PREFERENCES = {"marionette.port": 0, "network.proxy.type": 0, "browser.shell.checkDefaultBrowser": False,
                "datareporting.policy.dataSubmissionEnabled": False, "app.normandy.enabled": False,
                "services.settings.server": "", "toolkit.telemetry.enabled": False}  # fmt: skip


class Firefox:
    """What of Selenium's drivers the helpers for pages call."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("localhost", port), LONG)
        self._stream = self._socket.makefile("rb")
        self._numbers = itertools.count(1)
        self._read()  # what the server says of itself
        self._call("WebDriver:NewSession", {"timeouts": {"script": 1000 * LONG, "pageLoad": 1000 * LONG}})

    def _read(self) -> Any:
        size = b""
        while (byte := self._stream.read(1)) != b":":
            assert byte, "Firefox ended"
            size += byte
        return json.loads(self._stream.read(int(size)))

    def _call(self, name: str, given: dict[str, Any]) -> Any:
        text = json.dumps([0, next(self._numbers), name, given]).encode()
        self._socket.sendall(str(len(text)).encode() + b":" + text)
        _, _, error, result = self._read()
        assert error is None, error
        return result

    def close(self) -> None:
        """Leaves it."""
        self._stream.close()
        self._socket.close()

    def get(self, address: str) -> None:
        """Opens a page."""
        self._call("WebDriver:Navigate", {"url": address})

    def execute_script(self, script: str, *args: Any) -> Any:
        """What a function's body gives in the page."""
        return self._call("WebDriver:ExecuteScript", {"script": script, "args": args})["value"]


@contextmanager
def firefox(profile: Path) -> Iterator[Firefox]:
    """Firefox with a profile in a folder, which it makes."""
    program = shutil.which("firefox-esr") or shutil.which("firefox")
    assert program, "firefox-esr is not installed; `make soak` says how"
    profile.mkdir()
    lines = [f'user_pref("{name}", {json.dumps(value)});' for name, value in _PREFERENCES.items()]
    (profile / "user.js").write_text("\n".join([*lines, ""]))
    line = [program, "--headless", "--marionette", "--no-remote", "--profile", str(profile)]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        try:
            end = time.monotonic() + LONG
            while not (profile / PORT).exists() or not (profile / PORT).read_text():
                assert time.monotonic() < end, "Firefox does not begin"
                assert running.poll() is None, "Firefox ended"
                time.sleep(0.1)
            with closing(Firefox(int((profile / PORT).read_text()))) as driven:
                yield driven
        finally:
            running.kill()
