"""The frontends: each package of this folder reads one format of model files, and is found by looking for it here."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from sdk.frontends.base import Frontend

__all__ = ["claimed", "engine_names", "frontends", "readable", "recognise", "suffixes"]


@cache
def frontends() -> tuple[Frontend, ...]:
    """The ``FRONTEND`` of every package here, by name."""
    packages = sorted(info.name for info in iter_modules(__path__) if info.ispkg)
    return tuple(import_module(f"{__name__}.{name}").FRONTEND for name in packages)


def suffixes() -> tuple[str, ...]:
    """The endings of the files that are read."""
    return tuple(suffix for frontend in frontends() for suffix in frontend.suffixes)


def readable() -> str:
    """What is read, in words."""
    return ", ".join(f"{frontend.title}s ({' '.join(frontend.suffixes)})" for frontend in frontends())


def engine_names() -> tuple[str, ...]:
    """The engines that results can be compared with."""
    return tuple(dict.fromkeys(engine.name for frontend in frontends() for engine in frontend.engines))


def claimed(suffix: str) -> Frontend | None:
    """The frontend of the files with an ending, in any case."""
    return next((frontend for frontend in frontends() if suffix.lower() in frontend.suffixes), None)


def recognise(data: bytes, suffix: str) -> Frontend | None:
    """The frontend of a file's contents. Its ending counts only where those are of several formats at once, and where
    they tell nothing the answer is None, whatever the ending."""
    found = [frontend for frontend in frontends() if frontend.sniff(data)]
    named = claimed(suffix)
    return named if named in found else next(iter(found), None)
