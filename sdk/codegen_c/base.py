"""What a backend is, and how the folders of this package are found: clone ``null/`` to write another."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from sdk.compiler.ir.module import Module
from sdk.errors import UsageError

__all__ = ["Backend", "backend_names", "get_backend"]


class Backend(Protocol):
    """A package that prints planned modules.

    Its files have the same names in every backend: ``expr`` prints values, ``stmt`` loops functions,
    ``model`` the entries, ``weights`` the constants.
    """

    def emit(self, module: Module, prefix: str, *, isa: frozenset[str], options: Any) -> Mapping[str, str | bytes]:
        """Source files by name for a module of stage "planned"; the same input gives the same text.

        Args:
            module: what to print.
            prefix: C identifier that starts every external name.
            isa: the capabilities the code may use.
            options: the backend's own ``EmitOptions``.

        Raises:
            BuildError: the module uses what the backend has no spelling for.
        """


def backend_names() -> tuple[str, ...]:
    """Every backend: a folder here with an ``__init__.py``."""
    folder = Path(__file__).resolve().parent
    return tuple(sorted(p.parent.name for p in folder.glob("*/__init__.py")))


def get_backend(name: str) -> Backend:
    """The backend called ``name``.

    Raises:
        UsageError: there is none of that name.
    """
    if name not in backend_names():
        raise UsageError(f"unknown backend {name!r}", hint=f"one of {', '.join(backend_names())}")
    backend: Backend = importlib.import_module(f"sdk.codegen_c.{name}")
    return backend
