"""Cross-level compilation of machine-learning models for boards, phones and this machine."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sdk.compiler.memory.compiled_search import provide
from sdk.version import VERSION as __version__

if TYPE_CHECKING:
    from pathlib import Path

    from sdk.driver.model import Model, compile
    from sdk.errors import SdkError
    from sdk.quantizer.run import Quantized, quantize

__all__ = ["Model", "Quantized", "SdkError", "__version__", "compile", "quantize"]
_MODULES = {
    "Model": "driver.model",
    "Quantized": "quantizer.run",
    "SdkError": "errors",
    "compile": "driver.model",
    "quantize": "quantizer.run",
}


def __getattr__(name: str) -> Any:
    """Loads the compiler only when it is used: ``import sdk`` stays quick."""
    if name in _MODULES:
        return getattr(import_module(f"sdk.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'sdk' has no attribute {name!r}")


def _load_c(source: Path) -> Any:
    """Compiles and loads C of the compiler's own; the driver is imported when something needs that."""
    return import_module("sdk.driver.host_c").load_c(source)


provide(_load_c)
