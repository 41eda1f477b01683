"""Devices: sessions with the agent on a board, an emulator or this machine (docs/wire.md)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sdk.devices.base import EmulatorSpec, OpenRequest, Transport, register, schemes
    from sdk.devices.client import Session, open_device
    from sdk.devices.messages import (
        CrashRecord,
        DeviceInfo,
        DeviceStats,
        DimInfo,
        ModelInfo,
        RunStats,
        TensorInfo,
    )

__all__ = [
    "CrashRecord",
    "DeviceInfo",
    "DeviceStats",
    "DimInfo",
    "EmulatorSpec",
    "ModelInfo",
    "OpenRequest",
    "RunStats",
    "Session",
    "TensorInfo",
    "Transport",
    "open_device",
    "register",
    "schemes",
]
_MODULES = {
    **dict.fromkeys(("EmulatorSpec", "OpenRequest", "Transport", "register", "schemes"), "base"),
    **dict.fromkeys(("Session", "open_device"), "client"),
}


def __getattr__(name: str) -> Any:
    """Loads what is asked for and no more: the process of an emulated board needs no transports."""
    if name in __all__:
        return getattr(import_module(f"sdk.devices.{_MODULES.get(name, 'messages')}"), name)
    raise AttributeError(f"module 'sdk.devices' has no attribute {name!r}")
