"""What a board does at most: multiply-accumulates and bytes, by its core's table or measured on this machine."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from sdk.boards import Board
from sdk.compiler.machines.lookup import machine_for
from sdk.cores import timing_for
from sdk.driver.host_c import load_c
from sdk.profile import Peak

__all__ = ["peak_of"]

READ_BYTES: Final = 64 << 20  # more than the caches hold
STEPS: Final = 1_000_000
TRIES: Final = 5


def peak_of(board: Board, threads: int = 1) -> Peak | None:
    """The most that ``threads`` cores of a board do; None where neither a table nor a clock tells."""
    timing = timing_for(board.core.cpu)
    if timing is not None:
        return Peak("cycle", timing.peak_macs, timing.peak_bytes, timing.source)
    if not board.hosted or board.emulator is not None:
        return None
    machine = machine_for(board.capabilities)
    products, read = _measured(machine.floats.lanes if machine.floats.lanes > 1 else 4)
    source = "measured here: floats in registers, four 8-bit products for one of floats where dot instructions are"
    return Peak("us", products * (machine.dot.products if machine.dot else 1) * threads, read, source)


@lru_cache(maxsize=4)
def _measured(lanes: int) -> tuple[float, float]:
    """Multiply-adds of floats, and bytes read from memory, in a microsecond of one core: the best of some tries."""
    library = load_c(Path(__file__).with_name("peak.c"), (f"SDK_PEAK_LANES={lanes}",))
    products, read = library.sdk_peak_products, library.sdk_peak_read
    products.restype = read.restype = ctypes.c_uint64
    values = (ctypes.c_float * 2)(0.5, 1.0)
    data = np.ones(READ_BYTES // 8, np.uint64)
    where, count = ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(READ_BYTES // (4 * lanes))
    made = int(products(ctypes.c_uint64(STEPS), values))
    return (
        made / _min_us(lambda: products(ctypes.c_uint64(STEPS), values)),
        READ_BYTES / _min_us(lambda: read(where, count)),
    )


def _min_us(work: Callable[[], object]) -> float:
    """Microseconds of the quickest of ``TRIES`` calls."""
    found = []
    for _ in range(TRIES):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return min(found) * 1e6
