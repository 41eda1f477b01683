"""The driver: what the commands and the Python API do, from a model file to results of a device."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sdk.driver.artifact import build
    from sdk.driver.execute import bench, run, verify
    from sdk.driver.explain import inspect, memory
    from sdk.driver.model import Model, compile
    from sdk.driver.options import BuildOptions
    from sdk.driver.page import memory_page, memory_svg

__all__ = [
    "BuildOptions",
    "Model",
    "bench",
    "build",
    "compile",
    "inspect",
    "memory",
    "memory_page",
    "memory_svg",
    "run",
    "verify",
]
_HOMES = {
    "BuildOptions": "options",
    "Model": "model",
    "bench": "execute",
    "build": "artifact",
    "compile": "model",
    "inspect": "explain",
    "memory": "explain",
    "memory_page": "page",
    "memory_svg": "page",
    "run": "execute",
    "verify": "execute",
}


def __getattr__(name: str) -> Any:
    """Loads what is asked for and no more: a build from the cache needs no compiler."""
    if name in _HOMES:
        return getattr(import_module(f"sdk.driver.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'sdk.driver' has no attribute {name!r}")
