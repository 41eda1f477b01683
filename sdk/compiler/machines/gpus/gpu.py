"""What the compiler knows of a GPU: one record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sdk.compiler.analysis.pattern import Kind
from sdk.compiler.schedules.gpu.tiles import Tile

__all__ = ["Gpu"]


@dataclass(frozen=True)
class Gpu:
    name: str
    tiles: Mapping[Kind, Tile] = field(default_factory=dict)

    @property
    def variants(self):
        yield self
        if any(t.lanes > 1 for t in self.tiles.values()):
            yield replace(self, tiles={k: replace(t, lanes=1) for k, t in self.tiles.items()})
