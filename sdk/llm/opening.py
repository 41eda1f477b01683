"""A built language model, here or elsewhere."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from sdk.llm.model import LanguageModel, load

__all__ = ["open_model"]


def open_model(folder: Path, threads: int | None = None, device: str | None = None) -> LanguageModel:
    """The model in a folder, here or on the machine at the address of a ``device``.

    Raises:
        UsageError: as ``load``.
        SdkError: what the connection to a machine raises.
    """
    if device is None:
        return load(folder, threads)
    elsewhere = import_module("sdk.llm.device")  # which needs a compiler
    found: LanguageModel = elsewhere.DeviceModel(folder, device, threads)
    return found
