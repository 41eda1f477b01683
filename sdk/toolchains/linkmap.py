"""What a linked image puts where: bytes of each memory region by kind, and what takes them by symbol."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from elftools.elf.constants import SH_FLAGS

from sdk.toolchains.elf import ElfFile, Section
from sdk.toolchains.linker import Region

__all__ = ["LinkMap", "RegionUse", "link_map"]

KINDS: Final = ("boot", "vectors", "text", "rodata", "selftest", "data", "bss", "noinit", "stack", "other")
_REST: Final = "literals and gaps"


@dataclass(frozen=True)
class RegionUse:
    """A memory region of the image: its size, and the bytes in it by kind of section."""

    name: str
    kind: str
    size: int
    parts: dict[str, int]

    @property
    def used(self) -> int:
        """All bytes in it."""
        return sum(self.parts.values())


@dataclass(frozen=True)
class LinkMap:
    """An image by region, and what takes flash and RAM by owner: an operator or a tensor of the model, its arena, the
    agent; largest first, in bytes."""

    regions: tuple[RegionUse, ...]
    owners: tuple[tuple[str, int, int], ...]  # name, bytes of flash, bytes of RAM

    def to_json(self) -> dict[str, Any]:
        """JSON-ready values (docs/json.md)."""
        return {
            "regions": [
                {"name": r.name, "kind": r.kind, "bytes": r.size, "used": r.used, **r.parts} for r in self.regions
            ],
            "owners": [{"owner": name, "flash": flash, "ram": ram} for name, flash, ram in self.owners],
        }


def link_map(image: Path, regions: Sequence[Region], prefix: str) -> LinkMap:
    """The map of an image that was linked into ``regions``, of a model whose symbols begin with ``prefix``.

    Raises:
        BuildError: the file is no image.
    """
    elf = ElfFile(image)
    loaded = [s for s in elf.sections if s.flags & SH_FLAGS.SHF_ALLOC and s.size]
    flash = next(region for region in regions if region.kind == "flash")
    uses = []
    for region in regions:
        parts = dict.fromkeys(KINDS, 0)
        for section in loaded:
            if _inside(region, section):
                parts["rodata" if _is_placed(region, section) else _kind(section)] += section.size
            elif region is flash and section.name == ".data":
                parts["data"] += section.size  # what variables begin with
        uses.append(RegionUse(region.name, region.kind, region.size, {k: n for k, n in parts.items() if n}))
    return LinkMap(tuple(uses), _owners(elf, loaded, prefix))


def _inside(region: Region, section: Section) -> bool:
    origins = [region.origin] if region.data_origin is None else [region.origin, region.data_origin]
    return any(origin <= section.address < origin + region.size for origin in origins)


def _is_placed(region: Region, section: Section) -> bool:
    """Whether it holds the constants of a flash of their own."""
    return region.kind == "flash" and section.name == f".region_{region.name}"


def _kind(section: Section) -> str:
    name = section.name.removeprefix(".")
    return name if name in KINDS else "other"


def _owners(elf: ElfFile, loaded: Sequence[Section], prefix: str) -> tuple[tuple[str, int, int], ...]:
    """Bytes by owner; what no symbol covers is an entry of its own, so that all adds up."""
    flash, ram = Counter[str](), Counter[str]()
    for section in loaded:
        sides = [ram] if section.flags & SH_FLAGS.SHF_WRITE else [flash]
        sides += [flash] if section.name == ".data" else []
        taken, end = Counter[str](), section.address
        for address, size, name in sorted(
            (s.value & ~1, s.size, s.name) for s in elf.symbols if s.section == section.index and s.size
        ):
            fresh = min(address + size, section.address + section.size) - max(address, end)  # aliases count once
            if fresh > 0:
                taken[_owner(name, prefix)] += fresh
                end = address + size
        left = section.size - taken.total()
        taken["stack" if section.name == ".stack" else _REST] += left
        for side in sides:
            side.update(taken)
    rows = [(name, flash[name], ram[name]) for name in flash.keys() | ram.keys() if flash[name] or ram[name]]
    return tuple(sorted(rows, key=lambda row: (-(row[1] + row[2]), row[0])))


def _owner(symbol: str, prefix: str) -> str:
    """Whom a symbol is of: an operator's code, a tensor of the model, the arena, else the agent and what it runs on."""
    for start, what in ((f"{prefix}_op_", "code"), (f"{prefix}_w_", "constants")):
        if symbol.startswith(start):
            return f"{what} {symbol.removeprefix(start)}"
    if symbol.startswith("arena"):
        return symbol
    return "model" if symbol.startswith(prefix) else "agent and start-up"
