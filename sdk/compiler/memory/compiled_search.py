"""Who compiles the C of the search for offsets: whoever knows a C compiler says so, for none is known here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Make", "maker", "provide"]

Make = Callable[["Path"], Any]  # from a C file to a ctypes.CDLL


class _Provided:
    make: Make | None = None


def provide(make: Make | None) -> None:
    """Says what compiles and loads a C file; None = nothing does. What it raises comes out of who needs the file."""
    _Provided.make = make


def maker() -> Make | None:
    """What compiles and loads a C file."""
    return _Provided.make
