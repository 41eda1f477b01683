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


def row_of(interface: str, device: str | None) -> str:
    """The name of the row for a device of an interface by its name, such as "Adreno (TM) 750": that of its maker, or
    one for GPUs of any; without a name that of processors."""
    if device is None:
        return interface
    name = device.casefold()
    own = (gpu for gpu in GPUS.values() if gpu.interface == interface and any(word in name for word in gpu.devices))
    any_maker = f"{interface}-groups"
    return next((gpu.name for gpu in own), any_maker if any_maker in GPUS else interface)


def gpu_for(name: str) -> Gpu:
    """The row of a name; that of an interface, such as "vulkan", is for all of its devices."""
    return GPUS[name]
