"""GPUs by maker: how each is said to like its work divided. None of them has run a kernel of ours.

Sources: IREE's KnownTargets.cpp (sizes of subgroups and groups, from reports of vulkan.gpuinfo.org), AdrenoConfig.cpp
and MaliConfig.cpp (tiles); TVM's dlight/gpu/matmul.py (tiles, and where it has none in shared memory); Imagination's
PowerVR Compute Development Recommendations; Mesa's v3dv.

Groups share 32 KiB or more on all of them but VideoCore, where they share 16, and may have 256 items or more: kernels
stay below both. Subgroups are of 64 items on Adreno and older AMD chips, of 32 on NVIDIA, AMD, Apple and PowerVR, of 16
on Mali since Valhall and on VideoCore, of 4 or 8 on Bifrost, of 8 to 32 on Intel: kernels do not depend on that, and
groups are whole ones everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sdk.compiler.machines.gpus.gpu import Gpu, GpuRule
from sdk.compiler.machines.gpus.groups import TEAMS
from sdk.compiler.schedules.gpu.cooperative import Team
from sdk.compiler.schedules.gpu.rules import Products, SharedProducts, Teams, Windows
from sdk.compiler.schedules.gpu.shared import SharedTile
from sdk.compiler.schedules.gpu.tiles import Tile

__all__ = ["GPUS"]


@dataclass(frozen=True)
class _Maker:
    """The GPUs whose names have one of the words ``devices``, in small letters; the tile of an item in registers, and
    that of a group where memory that it shares is faster than the caches."""

    name: str
    devices: tuple[str, ...]
    tile: Tile
    shared: SharedTile | None = None
    teams: Teams = TEAMS

    def rules(self) -> tuple[GpuRule, ...]:
        """In the order of trial."""
        shared = () if self.shared is None else (SharedProducts(self.shared),)
        return (self.teams, *shared, Products(self.tile), Windows(Tile(4, 4)))


_PLAIN: Final = Tile(4, 8, steps=4)
_DESKTOP: Final = SharedTile(items=(8, 16), rows=4, columns=4, depth=16, steps=2)  # TVM's for CUDA and ROCm
_SMALL: Final = SharedTile(items=(8, 8), rows=4, columns=4, depth=8, steps=2)  # TVM's for all others

_MAKERS: Final = (
    # neither IREE nor TVM has tiles in shared memory here; 16 rows by 4 columns are IREE's
    _Maker("adreno", ("adreno",), Tile(16, 4, steps=4)),
    # memory that groups share is cached memory like any other: tiles in registers, IREE's for f32
    _Maker("mali", ("mali", "immortalis"), Tile(6, 4, steps=4)),
    # groups of one subgroup need no wait at barriers
    _Maker("powervr", ("powervr",), _PLAIN, _SMALL, Teams(Team(32, 16))),
    # 16 registers an item where four threads share a processor; shared memory is read like any other
    _Maker("videocore", ("videocore", "v3d"), Tile(4, 4, steps=4)),
    _Maker("apple", ("apple",), _PLAIN, _SMALL),
    _Maker("nvidia", ("nvidia", "geforce", "quadro", "tesla"), _PLAIN, _DESKTOP),
    _Maker("amd", ("amd", "radeon", "xclipse", "gfx"), _PLAIN, _DESKTOP),
    _Maker("intel", ("intel",), _PLAIN, _SMALL),
)

GPUS: Final = tuple(
    Gpu(f"{interface}-{one.name}", one.rules(), driver=interface, devices=one.devices)
    for one in _MAKERS
    for interface in ("opencl", "vulkan")
)
