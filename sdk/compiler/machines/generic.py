"""Cores of which nothing is known but what C says."""

from __future__ import annotations

from typing import Final

from sdk.compiler.machines.common import FPUS, LEAST, SINGLE_FLOATS
from sdk.compiler.machines.model import Machine
from sdk.compiler.schedules.rules.integer_window import ColumnWindow

__all__ = ["MACHINES"]

MACHINES: Final = (
    Machine(
        name="scalar",
        needs=frozenset(),
        float_units=FPUS,
        rules=(ColumnWindow("bytes", LEAST), ColumnWindow("halves", LEAST), *SINGLE_FLOATS),
    ),
)
