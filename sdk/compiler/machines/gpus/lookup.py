"""The rows of this folder by name."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Final

from sdk.compiler.machines.gpus.gpu import Gpu

__all__ = ["GPUS", "gpu_for", "row_of"]


def _found() -> Iterator[Gpu]:
    """``GPUS`` of every module of this folder."""
    package = importlib.import_module("sdk.compiler.machines.gpus")
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        if info.name != "lookup":
            yield from getattr(importlib.import_module(f"sdk.compiler.machines.gpus.{info.name}"), "GPUS", ())


GPUS: Final = {gpu.name: gpu for gpu in _found()}


def row_of(interface: str, groups: bool) -> str:
    """The name of the row for the devices of an interface; with ``groups`` for those of which it is known that their
    work items share memory."""
    own = f"{interface}-groups"
    return own if groups and own in GPUS else interface


def gpu_for(name: str) -> Gpu:
    """The row of a name; that of an interface, such as "vulkan", is for all of its devices."""
    return GPUS[name]
