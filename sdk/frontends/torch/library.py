"""The package torch, imported when something first needs it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from sdk.errors import MissingToolError

__all__ = ["quiet", "torch_package"]


def torch_package(name: str = "torch") -> Any:
    """The package, or a module of it.

    Raises:
        MissingToolError: it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as err:
        raise MissingToolError(
            "PyTorch is not installed", why=str(err), hint="pip install 'crosslevel[torch]'"
        ) from None


@contextmanager
def quiet() -> Iterator[None]:
    """Without what torch warns of its own internals."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
