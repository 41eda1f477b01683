"""The architectures: each module of this folder is one, and is found by looking for it here."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from sdk.errors import BuildError
from sdk.llm.architectures.base import Architecture

__all__ = ["architecture_of", "architectures"]


@cache
def architectures() -> tuple[Architecture, ...]:
    """The ``ARCHITECTURE`` of every module here, by name."""
    names = sorted(info.name for info in iter_modules(__path__) if info.name != "base")
    return tuple(import_module(f"{__name__}.{name}").ARCHITECTURE for name in names)


def architecture_of(name: str) -> Architecture:
    """The architecture that a checkpoint says it has: in the words of config.json, or of GGUF files.

    Raises:
        BuildError: there is none of that name; the known ones are listed.
    """
    for found in architectures():
        if name == found.name or name in found.models or name in found.other_gguf:
            return found
    known = sorted({model for a in architectures() for model in a.models})
    raise BuildError(
        f"the architecture {name[:60]!r} is not supported",
        why=f"supported: {', '.join(known)}",
        hint="sdk help llm says what a new one takes: one file",
    )
