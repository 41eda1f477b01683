"""A conversation on a GPU of this machine."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from sdk.errors import DeviceFault
from sdk.toolchains.cache import CACHE_VARIABLE, cache_root, private_folder

__all__ = ["TOLD", "Device"]

TOLD: Final = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
_DEVICE: Final = "SDK_GPU_DEVICE"
_MESSAGE: Final = 512


class _Library(Protocol):
    @property
    def functions(self) -> Mapping[str, Callable[..., Any]]: ...
    @property
    def gpu(self) -> str | None: ...


class Device:
    """The GPU that runs the conversation of an instance: the device whose number ``SDK_GPU_DEVICE`` is, or the first.
    Kernels are kept in the folder of cached builds. ``notes`` say what runs on the processor.

    Raises:
        DeviceFault: there is no driver or device, or it has too little memory.
    """

    def __init__(self, library: _Library, instance: NDArray[np.uint8]) -> None:
        self.notes: list[str] = []
        told = TOLD(lambda line: self.notes.append(line.decode(errors="replace")))
        gpu, message = ctypes.c_void_p(), ctypes.create_string_buffer(_MESSAGE)
        # the runtime reads the name of the folder until it is closed
        self._folder = os.fsencode(private_folder(cache_root() / "gpu", CACHE_VARIABLE))
        number = os.environ.get(_DEVICE, "-1")
        if not number.removeprefix("-").isdecimal():
            raise DeviceFault(f"{_DEVICE}={number}: no number of a device", hint="sdk doctor lists the devices")
        status = library.functions["gpu_open"](
            instance.ctypes.data, int(number), self._folder, told, ctypes.addressof(gpu), message
        )
        if status:
            raise DeviceFault(
                f"the model does not run on a GPU by way of {library.gpu}",
                why=f"{message.value.decode(errors='replace')} (status {status})",
                hint="sdk doctor lists the devices; without --gpu sdk llm build makes it for the processor",
            )
        self.close = weakref.finalize(self, _closed, library.functions["gpu_close"], instance, gpu.value, self._folder)


def _closed(close: Callable[..., Any], instance: NDArray[np.uint8], gpu: int | None, _: bytes) -> None:
    """Ends it; the memory of the instance is kept until then."""
    close(instance.ctypes.data, gpu)
