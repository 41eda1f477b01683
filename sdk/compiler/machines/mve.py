"""Arm's M-profile vectors (Helium): Cortex-M55 and M85."""

from __future__ import annotations

from typing import Final

from sdk.compiler.ir.types import I8
from sdk.compiler.machines.common import FPUS, LANES, PANELS, TILES
from sdk.compiler.machines.machine import Dot, FloatUnit, Machine
from sdk.compiler.schedules.rules.few_channels import ChannelProducts, MultiplierWindow, NarrowWindow
from sdk.compiler.schedules.rules.integer_mve import AcrossTiles, OneChannel, QuadWindow, Staging
from sdk.compiler.schedules.rules.plain import PlainWindow

__all__ = ["MACHINES"]

FEW: Final = 64  # multiply-accumulates below which the plain nest is kept: it takes ten times the instructions
MVE_FLOATS: Final = FloatUnit("mve", frozenset({"mve-fp"}), lanes=4, registers=8, fma=True)

MACHINES: Final = (
    # VMLADAVA adds all sixteen products of two vectors of bytes to one sum in a general register
    Machine(
        name="mve",
        needs=frozenset({"mve"}),
        float_units=(MVE_FLOATS, *FPUS),
        vector_bytes=16,
        dot=Dot(I8, I8, 16),
        tile_rows=2,
        tile_cols=2,
        part_vectors=True,
        rules=(
            AcrossTiles(FEW, steps=4, staging=Staging(region=512, gather=4, gather_words=25, dot=4)),
            OneChannel(FEW, steps=4, region=512, taps=16),
            # three pixels leave of eight vectors some for what is read; 1 KB: stage all channels of narrow images
            QuadWindow(region=1024, at_once=3, taps=16, groups=((16, 4), (4, 4)), spare=10),
            NarrowWindow(FEW, region=512, lanes=4, at_once=3, taps=16),
            MultiplierWindow(FEW, region=512, lanes=4, at_once=3, taps=16),
            PlainWindow("bytes", 0),
            ChannelProducts(lanes=4, at_once=2),
            PANELS,
            TILES,
            *LANES,
        ),
    ),
)
