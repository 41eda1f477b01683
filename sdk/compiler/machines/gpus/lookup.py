"""The rows of this folder by name."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Final

from sdk.compiler.machines.gpus.gpu import Gpu

__all__ = ["GPUS", "gpu_for"]


def _found() -> Iterator[Gpu]:
    """``GPUS`` of every module of this folder."""
    package = importlib.import_module("sdk.compiler.machines.gpus")
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        if info.name != "lookup":
            yield from getattr(importlib.import_module(f"sdk.compiler.machines.gpus.{info.name}"), "GPUS", ())


GPUS: Final = {gpu.name: gpu for gpu in _found()}


def gpu_for(interface: str) -> Gpu:
    """The row for all devices of an interface, such as "vulkan"."""
    return GPUS[interface]
