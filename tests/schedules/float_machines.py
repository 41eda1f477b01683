"""A machine for each kind of vectors of floats, the widest first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sdk.compiler.machines.lookup import machine_for
from sdk.compiler.machines.machine import Machine

__all__ = ["FLOATS"]

SETS: Final = {
    "avx512f": ("sse2", "avx", "avx2", "fma", "avx512f"),
    "avx2fma": ("sse2", "avx", "avx2", "fma"),
    "neon": ("neon",),
    "mve": ("mve", "mve-fp"),
    "sse2": ("sse2",),
}
FLOATS: Final[Mapping[str, Machine]] = {name: machine_for(have) for name, have in SETS.items()}
