"""The package torch, imported when something first needs it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from sdk.errors import MissingToolError
from sdk.installs import pip_command

__all__ = ["first_line", "quiet", "torch_package", "trees"]


def torch_package() -> Any:
    """The package.

    Raises:
        MissingToolError: it is not installed.
    """
    try:
        return import_module("torch")
    except ImportError as err:
        raise MissingToolError("PyTorch is not installed", why=str(err), hint=pip_command("torch")) from None


def trees() -> Any:
    """Its module of nested lists and dicts."""
    return import_module("torch.utils._pytree")


@contextmanager
def quiet() -> Iterator[None]:
    """Without what torch warns of its own internals."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def first_line(err: Exception) -> str:
    """What an error of torch says, in a line."""
    return next(iter(str(err).strip().splitlines()), "") or type(err).__name__
