"""Devices: sessions with the agent on a board, an emulator or this machine (docs/wire.md)."""

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
