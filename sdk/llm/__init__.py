"""Language models: checkpoints built into C, and run on this machine."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sdk.llm.build import build_model
    from sdk.llm.model import LanguageModel, load

__all__ = ["LanguageModel", "build_model", "load"]
_MODULES = {"LanguageModel": "model", "build_model": "build", "load": "model"}


def __getattr__(name: str) -> Any:
    """Loads what is asked for and no more: a conversation needs no compiler."""
    if name in _MODULES:
        return getattr(import_module(f"sdk.llm.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'sdk.llm' has no attribute {name!r}")
