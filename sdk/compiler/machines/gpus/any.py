"""Kernels for whatever device a program finds: what is fast on drivers for processors, PoCL and lavapipe, and no
burden for GPUs, of which none has run them yet. Browsers have a GPU nearly always, so groups work together there."""

from __future__ import annotations

from typing import Final

from sdk.compiler.machines.gpus.gpu import Gpu
from sdk.compiler.machines.gpus.groups import PACKED, TEAMS
from sdk.compiler.schedules.gpu.rules import Attention, Packed, Products, Windows
from sdk.compiler.schedules.gpu.tiles import Tile

__all__ = ["GPUS"]

# PoCL vectorises nothing but what is written as vectors: 8 rows of 32 columns are 16 registers of AVX-512, for which a
# step reads 2 vectors and 8 numbers; they take half to two thirds of the time of 8 by 16 in products of 512, 1000 and
# 1024 cubed. Without vectors 4 rows of 16 are 64 variables already.
# Drivers of Vulkan make scalars of everything; lavapipe spends most of its time on reads, of which large tiles need
# few: 4 by 8 with steps of 4 read 12 vectors for 128 products, and leave room for others in 64 registers.
GPUS: Final = (
    Gpu(
        "opencl",
        rules=(
            Packed(4, 2), Products(Tile(8, 32, scalar_rows=4, scalar_columns=16)), Windows(Tile(4, 16)), Attention(32),
        ),
        lanes=16,
    ),
    Gpu("webgpu", rules=(PACKED, TEAMS, Products(Tile(4, 8)), Windows(Tile(4, 4)))),
    Gpu("vulkan", rules=(Packed(4, 2), Products(Tile(4, 8, steps=4)), Windows(Tile(4, 4)), Attention(32))),
)
