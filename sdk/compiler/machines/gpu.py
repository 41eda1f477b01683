"""GPUs, as far as plans and constants go: kernels are made of the nests later (``schedules.gpu``)."""

from __future__ import annotations

from typing import Final

from sdk.compiler.machines.common import FPUS
from sdk.compiler.machines.machine import Machine
from sdk.compiler.schedules.rules.columns_last import ColumnsLast
from sdk.compiler.schedules.rules.groups import GroupRows, GroupWords

__all__ = ["MACHINES"]

MACHINES: Final = (
    Machine(
        name="gpu",
        needs=frozenset({"gpu"}),
        float_units=FPUS,
        rules=(GroupWords(), GroupRows(), ColumnsLast()),
    ),
)
