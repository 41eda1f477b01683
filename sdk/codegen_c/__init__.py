"""The backends: each package of this folder with a ``BACKEND`` prints modules, and is found by looking for it here."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from sdk.codegen_c.base import Backend
from sdk.errors import UsageError

if TYPE_CHECKING:
    from sdk.boards import Board

__all__ = ["backend_names", "backends", "get_backend", "usual_backend"]


@cache
def backends() -> tuple[Backend, ...]:
    """The ``BACKEND`` of every package here that has one, by name: others print what several backends need."""
    names = sorted(info.name for info in iter_modules(__path__) if info.ispkg)
    packages = [import_module(f"{__name__}.{name}") for name in names]
    return tuple(package.BACKEND for package in packages if hasattr(package, "BACKEND"))


def backend_names() -> tuple[str, ...]:
    """What backends are called."""
    return tuple(backend.name for backend in backends())


def get_backend(name: str) -> Backend:
    """The backend called ``name``.

    Raises:
        UsageError: there is none of that name.
    """
    for backend in backends():
        if backend.name == name:
            return backend
    raise UsageError(f"unknown backend {name!r}", hint=f"one of {', '.join(backend_names())}")


def usual_backend(board: Board) -> Backend:
    """What code for a board is printed by where nobody chose: the first backend whose code runs there.

    Raises:
        UsageError: there is none.
    """
    for backend in backends():
        if backend.runtime is not None and backend.refuses(board) is None:
            return backend
    raise UsageError(f"no backend's code runs on {board.name}", hint=f"--backend {' or '.join(backend_names())}")
