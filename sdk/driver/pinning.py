"""Programs whose times are compared start alike: on one CPU, and without address space layout randomisation.

Two processes of one program can differ by tens of percent for as long as they live, by where their stack and data lie
and by what else their CPU does; no number of runs in turns averages that out. Google Benchmark starts itself again
without randomisation for the same reason.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from typing import Final

from sdk.agent.facts import machine_facts

__all__ = ["pinned"]

_NO_RANDOMIZE: Final = 0x0040000  # ADDR_NO_RANDOMIZE of <sys/personality.h>
_QUERY: Final = 0xFFFFFFFF  # personality() tells what is, and changes nothing


@contextlib.contextmanager
def pinned() -> Iterator[None]:
    """What this thread starts in the block runs on the fastest core that it may use, each program at the same addresses
    every time. Elsewhere than on Linux, and where the system forbids it, programs start as always."""
    if sys.platform != "linux":
        yield
        return
    personality = ctypes.CDLL(None).personality
    allowed, persona = os.sched_getaffinity(0), personality(_QUERY)
    try:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, {_fastest(allowed)})
        if persona != -1:
            personality(persona | _NO_RANDOMIZE)
        yield
    finally:
        os.sched_setaffinity(0, allowed)
        if persona != -1:
            personality(persona)


def _fastest(allowed: set[int]) -> int:
    """The number of the core with the highest clock; of equal ones the last, since systems do their own work on the
    first."""
    clocks = {core.number: core.max_mhz or 0.0 for core in machine_facts().cores}
    return max(allowed, key=lambda number: (clocks.get(number, 0.0), number))
