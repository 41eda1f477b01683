"""Rules for GPUs: what of which nests is the work of one item."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sdk.compiler.schedules.gpu.tiles import Item, Tile, tiled
from sdk.compiler.schedules.locate import ScheduleError

if TYPE_CHECKING:
    from sdk.compiler.machines.gpus.gpu import Gpu, Part

__all__ = ["Products", "Windows", "item_of"]


@dataclass(frozen=True)
class Products:
    """Products of matrices, convolutions as products of matrices: a tile of pixels by channels, each read once a step
    for all of them."""

    tile: Tile
    name = "products"

    def applies(self, part: Part, gpu: Gpu) -> bool:
        """Multiply-accumulates in which the first factor is the same for all columns."""
        return part.pattern.kind == "contraction"

    def schedule(self, part: Part, gpu: Gpu) -> Item:
        """The tile."""
        return _tiled(part, gpu, self.tile)


@dataclass(frozen=True)
class Windows:
    """Depthwise convolutions: a tile of neighbours, which share what their windows have in common, by channels."""

    tile: Tile
    name = "windows"

    def applies(self, part: Part, gpu: Gpu) -> bool:
        """Multiply-accumulates in which both factors differ by column."""
        return part.pattern.kind == "window"

    def schedule(self, part: Part, gpu: Gpu) -> Item:
        """The tile."""
        return _tiled(part, gpu, self.tile)


def _tiled(part: Part, gpu: Gpu, tile: Tile) -> Item:
    lanes = min(gpu.lanes, tile.columns)
    return tiled(part.loops, part.chain, part.inner, replace(tile, lanes=lanes), part.aligned)


def item_of(part: Part, gpu: Gpu) -> Item:
    """What an item does of a nest.

    Raises:
        ScheduleError: no rule of the GPU is for such nests, or none holds.
    """
    for rule in gpu.rules:
        if rule.applies(part, gpu):
            try:
                return rule.schedule(part, gpu)
            except ScheduleError:
                continue
    raise ScheduleError(f"no rule of {gpu.name} is for the nest {part.loops.name}")
