"""Cores of which nothing is known but what C says."""

from __future__ import annotations

from typing import Final

from sdk.compiler.machines.common import COLUMNS, FPUS, SINGLE_FLOATS
from sdk.compiler.machines.machine import Machine

__all__ = ["MACHINES"]

MACHINES: Final = (
    Machine(
        name="scalar",
        needs=frozenset(),
        float_units=FPUS,
        rules=(*COLUMNS, *SINGLE_FLOATS),
    ),
)
