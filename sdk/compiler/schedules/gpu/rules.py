"""Rules for GPUs: what of which nests is the work of one item."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Final

from sdk.compiler.ir.loops import For
from sdk.compiler.schedules.attention_lanes import shape_of_attention
from sdk.compiler.schedules.gpu.attention import attended
from sdk.compiler.schedules.gpu.cooperative import Team, cooperative, longest
from sdk.compiler.schedules.gpu.packed import packed_rows, packed_tile
from sdk.compiler.schedules.gpu.shared import SharedTile, shared
from sdk.compiler.schedules.gpu.tiles import Item, Tile, rows_of, tiled
from sdk.compiler.schedules.group_words import in_words
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.sym import max_value

if TYPE_CHECKING:
    from sdk.compiler.machines.gpus.gpu import Gpu, Part

__all__ = ["Attention", "Packed", "Products", "SharedProducts", "Teams", "Windows", "item_of"]

_PANEL_LOOPS: Final = 2  # around a product of one row of activations: panels, and rows of weights in one


@dataclass(frozen=True)
class Products:
    """Products of matrices, convolutions as products of matrices: a tile of pixels by channels, each read once a step
    for all of them."""

    tile: Tile
    name = "products"
    shares = False

    def applies(self, part: Part, gpu: Gpu) -> bool:
        """Multiply-accumulates in which the first factor is the same for all columns."""
        return part.pattern.kind == "contraction"

    def schedule(self, part: Part, gpu: Gpu) -> Item:
        """The tile."""
        return _tiled(part, gpu, self.tile)


@dataclass(frozen=True)
class SharedProducts:
    """Products of matrices and convolutions as products of matrices, of at least ``rows`` rows: a group's tile, whose
    factors lie in memory that its items share."""

    tile: SharedTile
    rows: int = 5
    name = "shared products"
    shares = False

    def applies(self, part: Part, gpu: Gpu) -> bool:
        """Multiply-accumulates in which the first factor is the same for all columns."""
        rows = rows_of(part.chain, part.inner, part.pattern)
        return part.pattern.kind == "contraction" and _maximum(rows) >= self.rows

    def schedule(self, part: Part, gpu: Gpu) -> Item:
        """The tile of a group."""
        return shared(part.loops, part.chain, part.inner, part.pattern, self.tile, part.aligned)


@dataclass(frozen=True)
class Windows:
    """Depthwise convolutions: a tile of neighbours, which share what their windows have in common, by channels."""

    tile: Tile
    name = "windows"
    shares = False

    def applies(self, part: Part, gpu: Gpu) -> bool:
        """Multiply-accumulates in which both factors differ by column."""
        return part.pattern.kind == "window"

    def schedule(self, part: Part, gpu: Gpu) -> Item:
        """The tile."""
        return _tiled(part, gpu, self.tile)


@dataclass(frozen=True)
class Packed:
    """Products with weights in groups: ``rows`` of activations by ``panels`` of weights to an item. With a ``team`` one
    row of activations is multiplied by groups, which divide each row of weights."""

    rows: int
    panels: int
    team: Team | None = None
    name = "packed"
    shares = False

    def applies(self, part: Part, gpu: Gpu) -> bool:
        """Nests that ``group_words`` has made."""
        return in_words(part.loops)

    def schedule(self, part: Part, gpu: Gpu) -> Item:
        """The work of an item or a group."""
        if self.team is not None and len(part.chain) == _PANEL_LOOPS:
            with suppress(ScheduleError):
                return packed_rows(part.loops, part.chain, part.inner, self.team, part.aligned)
        return packed_tile(part.loops, part.chain, part.inner, self.rows, self.panels, part.aligned)


@dataclass(frozen=True)
class Attention:
    """Attention: ``sums`` slots, or numbers of a head, at once."""

    sums: int
    name = "attention"
    shares = False

    def applies(self, part: Part, gpu: Gpu) -> bool:
        """Nests of ``attend`` and ``attend_bytes``."""
        return shape_of_attention(part.loops, all_rows=True) is not None

    def schedule(self, part: Part, gpu: Gpu) -> Item:
        """A row."""
        return attended(part.loops, self.sums)


@dataclass(frozen=True)
class Teams:
    """Sums, maxima, norms, softmax, products of few rows: a group of items for each row, where its loops are of at
    least ``minimum`` steps. Where ``plenty`` of neighbouring results are there to be computed, an item each is as good;
    products of more than ``rows`` rows are left to other rules."""

    team: Team
    minimum: int = 32
    plenty: int = 1 << 16
    rows: int = 1
    name = "teams"
    shares = True

    def applies(self, part: Part, gpu: Gpu) -> bool:
        """Nests with long loops that are no products of many rows, or windows."""
        kind = part.pattern.kind
        if kind == "contraction":
            rows = _maximum(rows_of(part.chain, part.inner, part.pattern))
            few = rows <= self.rows
        else:
            few = kind == "reduction"
        return few and longest(part.inner, part.loops) >= self.minimum

    def schedule(self, part: Part, gpu: Gpu) -> Item:
        """The group's work."""
        item = cooperative(part.loops, part.chain, part.inner, self.team)
        if len(item.local) > 1 and _maximum(part.chain) >= self.plenty:
            raise ScheduleError("there are enough items")
        return item


def _maximum(loops: Sequence[For]) -> int:
    """The most iterations of loops, one in another."""
    return prod(1 << 20 if (maximum := max_value(loop.hi - loop.lo)) is None else maximum for loop in loops)


def _tiled(part: Part, gpu: Gpu, tile: Tile) -> Item:
    lanes = min(gpu.lanes, tile.columns)
    return tiled(part.loops, part.chain, part.inner, replace(tile, lanes=lanes), part.aligned)


def item_of(part: Callable[[bool], Part], gpu: Gpu) -> tuple[Part, Item]:
    """What an item does of a nest, or a group: ``part(shares)`` is the nest for rules that have items share arrays, or
    that have none do.

    Raises:
        ScheduleError: no rule of the GPU is for such nests, or none holds.
    """
    name = ""
    for rule in gpu.rules:
        found = part(rule.shares)
        name = found.loops.name
        if rule.applies(found, gpu):
            try:
                return found, rule.schedule(found, gpu)
            except ScheduleError:
                continue
    raise ScheduleError(f"no rule of {gpu.name} is for the nest {name}")
