"""GPUs of makers that have no row: their work items are in groups that share memory. No driver for processors gains by
that, so these rows are not those of the interfaces."""

from __future__ import annotations

from typing import Final

from sdk.compiler.machines.gpus.gpu import Gpu
from sdk.compiler.schedules.gpu.cooperative import Team
from sdk.compiler.schedules.gpu.rules import Packed, Products, SharedProducts, Teams, Windows
from sdk.compiler.schedules.gpu.shared import SharedTile
from sdk.compiler.schedules.gpu.tiles import Tile

__all__ = ["GPUS", "PACKED", "TEAMS"]

TEAMS: Final = Teams(Team(64, 16))  # 64 items are whole waves of every vendor, and far below what any driver allows

PACKED: Final = Packed(4, 2, Team(64, 16))
# 32 rows by 64 columns of results, 16 steps of their sums in 6 KiB; an item has 32 sums in registers, for which it
# reads 12 elements a step.
SHARED: Final = SharedProducts(SharedTile(items=(4, 16), rows=8, columns=4, depth=16, steps=2))

GPUS: Final = tuple(
    Gpu(
        f"{interface}-groups",
        (PACKED, TEAMS, SHARED, Products(Tile(4, 8, steps=4)), Windows(Tile(4, 4))),
        driver=interface,
    )
    for interface in ("opencl", "vulkan")
)
