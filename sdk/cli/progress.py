"""The step under way, shown on stderr to people who have waited a second; nothing of it in pipes or with --json."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sdk.steps import listening
from sdk.text import printable

if TYPE_CHECKING:
    from rich.status import Status

DELAY_S = 1.0


class _Line:
    """A line that appears when the command has taken ``DELAY_S`` and is wiped when no step is under way."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._lock = threading.Lock()
        self._text: str | None = None
        self._timer: threading.Timer | None = None
        self._status: Status | None = None

    def __call__(self, text: str | None) -> None:
        with self._lock:
            self._text = text
            if text is None:
                self._wipe()
            elif self._status is not None:
                self._status.update(_plain(text))
            elif self._timer is None:
                wait = max(0.0, self._begin + DELAY_S - time.monotonic())
                self._timer = threading.Timer(wait, self._show)
                self._timer.daemon = True
                self._timer.start()

    def _show(self) -> None:
        from rich.console import Console

        with self._lock:
            if self._text is not None and self._timer is threading.current_thread():
                self._status = Console(stderr=True).status(_plain(self._text))
                self._status.start()

    def _wipe(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._status is not None:
            self._status.stop()
            self._status = None

    def close(self) -> None:
        """Wipes the line, whatever is under way."""
        self(None)


def _plain(text: str) -> str:
    """The text with nothing in it that rich reads as markup, or a terminal acts on."""
    from rich.markup import escape

    return escape(printable(text))


def is_shown(as_json: bool) -> bool:
    """Return whether there is somebody to show steps to: stderr is a terminal that can wipe a line."""
    return not as_json and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def shown(as_json: bool) -> Iterator[None]:
    """Shows the steps until the block ends, where somebody sees them."""
    if not is_shown(as_json):
        yield
        return
    line = _Line()
    try:
        with listening(line):
            yield
    finally:
        line.close()
