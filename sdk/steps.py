"""The step that is under way, told to whoever shows it: nobody, unless somebody listens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Listener", "listening", "step", "update"]

# Called with the text of the outermost and the innermost step, or with None when nothing is under way any more.
Listener = Callable[[str | None], None]
_listeners: list[Listener] = []
_steps: list[str] = []


@contextmanager
def step(text: str) -> Iterator[None]:
    """Says that ``text`` ("planning memory") goes on until the block ends; steps may hold others. What goes on beside
    the main thread is not told."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _steps.append(text)
    _tell()
    try:
        yield
    finally:
        _steps.pop()
        _tell()


def update(text: str) -> None:
    """Says that the innermost step is now at ``text`` ("case 3 of 10")."""
    if _steps and threading.current_thread() is threading.main_thread():
        _steps[-1] = text
        _tell()


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tells ``listener`` of steps until the block ends."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def _tell() -> None:
    text = ": ".join(dict.fromkeys((_steps[0], _steps[-1]))) if _steps else None
    for listener in _listeners:
        listener(text)
