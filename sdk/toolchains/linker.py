"""Linker scripts of bare-metal images, from a board's memory regions; what a failed link says of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sdk.errors import BuildError
from sdk.templates import render

_OVERFLOW = (
    re.compile(r"will not fit in region '(?P<region>\w+)': overflowed by (?P<bytes>\d+) bytes"),  # ld.lld
    re.compile(r"region `(?P<region>\w+)' overflowed by (?P<bytes>\d+) bytes"),  # GNU ld
)


@dataclass(frozen=True)
class Region:
    """One memory region of the image: ``size`` bytes from ``origin``; ``kind`` is "flash" or "ram". Where the core only
    fetches instructions there, it loads the same bytes from ``data_origin`` on."""

    name: str
    kind: str
    origin: int
    size: int
    data_origin: int | None = None


def render_linker_script(regions: Sequence[Region], stack_bytes: int, vectors_align: int = 4) -> str:
    """Return a script for GNU ld and ld.lld.

    The first flash region takes what the chip's ROM looks for, vectors (at a multiple of ``vectors_align``), code,
    constants and the image of ``.data``; the first RAM region takes the stack (``stack_bytes``, a multiple of 8),
    ``.data``, ``.bss`` and ``.noinit``. Others take the sections ``.sdk_region.<name>``; such RAM is not initialised.
    Golden cases (``.sdk_selftest``) are a section of their own. Raises
    BuildError when a kind of region is missing or the stack cannot fit.
    """
    flash = [region for region in regions if region.kind == "flash"]
    ram = [region for region in regions if region.kind == "ram"]
    if not flash or not ram:
        raise BuildError(
            "a bare-metal image needs one flash and one ram region",
            where=", ".join(f"{region.name} ({region.kind})" for region in regions) or "no region at all",
            hint="add the missing [[memory]] table to the board file",
        )
    if stack_bytes % 8 or not 0 < stack_bytes < ram[0].size:
        raise BuildError(
            f"a stack of {stack_bytes} bytes is not possible",
            where=f"region {ram[0].name}: {ram[0].size} bytes",
            why="it must be a positive multiple of 8 and smaller than the region",
            hint="change runtime.stack in the board file",
        )
    if any(region.data_origin is not None for region in regions if region is not flash[0]):
        raise BuildError(
            "only the first flash region may have a data_base",
            where=", ".join(region.name for region in regions if region.data_origin is not None),
            hint="leave it out of the other [[memory]] tables of the board file",
        )
    return render(
        "linker.ld",
        regions=regions,
        code=flash[0],
        data=ram[0],
        extra_flash=flash[1:],
        extra_ram=ram[1:],
        stack_bytes=stack_bytes,
        vectors_align=vectors_align,
        constants=f"{flash[0].name}_data",
        shift=0 if flash[0].data_origin is None else flash[0].data_origin - flash[0].origin,
    )


def region_overflows(stderr: str) -> dict[str, int]:
    """Return, from a failed link's messages, how many bytes each full region lacks; {} when none is full.

    ld.lld reports every section that does not fit, the last one with the whole excess: the largest counts.
    """
    lacking: dict[str, int] = {}
    for pattern in _OVERFLOW:
        for match in pattern.finditer(stderr):
            name, count = match["region"], int(match["bytes"])
            lacking[name] = max(count, lacking.get(name, 0))
    return lacking
