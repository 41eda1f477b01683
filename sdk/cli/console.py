"""The console that tables are printed on; apart from the rest, as what it is made of takes a while to load."""

from __future__ import annotations

from typing import NoReturn

import rich.console


class Console(rich.console.Console):
    """As rich's, but whoever stops reading is told of as everywhere else, and does not end the process as a failure."""

    def on_broken_pipe(self) -> NoReturn:
        """Raise what a write to such a pipe raises."""
        raise BrokenPipeError
