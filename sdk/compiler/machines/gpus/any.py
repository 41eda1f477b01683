"""Kernels for whatever device a program finds: what is fast on drivers for processors, PoCL and lavapipe, and no
burden for GPUs, of which none has run them yet."""

from __future__ import annotations

from typing import Final

from sdk.compiler.machines.gpus.gpu import Gpu
from sdk.compiler.schedules.gpu.rules import Products, Windows
from sdk.compiler.schedules.gpu.tiles import Tile

__all__ = ["GPUS"]

# PoCL vectorises nothing but what is written as vectors: 8 rows of 16 columns are 8 registers of AVX-512, 16 of AVX,
# and take half the time of 4 rows in a product of 1024 by 1024. Without vectors 4 rows are 64 variables already.
# Drivers of Vulkan make scalars of everything; lavapipe spends most of its time on reads, of which large tiles need
# few: 4 by 8 with steps of 4 read 12 vectors for 128 products, and leave room for others in 64 registers.
GPUS: Final = (
    Gpu("opencl", rules=(Products(Tile(8, 16, scalar_rows=4)), Windows(Tile(4, 16))), lanes=16),
    Gpu("webgpu", rules=()),
    Gpu("vulkan", rules=(Products(Tile(4, 8, steps=4)), Windows(Tile(4, 4)))),
)
