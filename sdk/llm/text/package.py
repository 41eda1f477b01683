"""The package ``tokenizers``, which an installation may lack."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from sdk.errors import MissingToolError
from sdk.installs import pip_command

__all__ = ["tokenizers_package"]


def tokenizers_package() -> Any:
    """The package.

    Raises:
        MissingToolError: it is not installed.
    """
    if find_spec("tokenizers") is None:
        raise MissingToolError("the package tokenizers is not installed", hint=pip_command("tokenizers"))
    return import_module("tokenizers")
