"""What Android and Google Play ask of a shared library, looked at in the file itself."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from sdk.errors import BuildError

__all__ = ["check_android"]

PAGE: Final = 16384  # bytes, of newer phones


def check_android(library: Path) -> None:
    """Checks that a library can be mapped on phones with pages of 4 and of 16 KB, and that its code is not changed when
    it is loaded.

    Raises:
        BuildError: it is not so.
    """
    with library.open("rb") as file:
        elf = ELFFile(file)
        aligned = [int(part["p_align"]) for part in elf.iter_segments("PT_LOAD")]
        dynamic = [part for part in elf.iter_sections() if isinstance(part, DynamicSection)]
        tags = {tag.entry.d_tag for part in dynamic for tag in part.iter_tags()}
    if any(align % PAGE for align in aligned):
        _refuse(library, f"a segment is aligned to {min(aligned):,} bytes, and phones have pages of {PAGE:,}")
    if "DT_TEXTREL" in tags:
        _refuse(library, "its code has relocations, which Android does not load")


def _refuse(library: Path, why: str) -> None:
    raise BuildError(
        f"{library.name} is no library for Android", why=why,
        hint="use the compiler that comes with this tool: pip install ziglang, without --toolchain",
    )  # fmt: skip
