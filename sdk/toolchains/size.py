"""How many bytes of flash and RAM an object or an image takes, by section kind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.constants import SH_FLAGS

from sdk.toolchains.elf import ElfFile, Section
from sdk.toolchains.wasm import WasmObject, is_wasm


@dataclass(frozen=True)
class Sections:
    """Bytes of code, constants, initialised variables and zeroed variables."""

    text: int = 0
    rodata: int = 0
    data: int = 0
    bss: int = 0

    def __add__(self, other: Sections) -> Sections:
        return Sections(
            self.text + other.text, self.rodata + other.rodata, self.data + other.data, self.bss + other.bss
        )

    @property
    def flash_bytes(self) -> int:
        """What the image occupies in flash: code, constants and the initial values of variables."""
        return self.text + self.rodata + self.data

    @property
    def ram_bytes(self) -> int:
        """What variables occupy in RAM."""
        return self.data + self.bss

    def to_json(self) -> dict[str, int]:
        """Return the four counts as JSON-ready values."""
        return {"text": self.text, "rodata": self.rodata, "data": self.data, "bss": self.bss}


def _kind(section: Section) -> str | None:
    """Return the field of Sections that counts ``section``, None for what is never loaded."""
    if not section.flags & SH_FLAGS.SHF_ALLOC:
        return None
    if section.flags & SH_FLAGS.SHF_EXECINSTR:
        return "text"
    if section.type == "SHT_NOBITS":
        return "bss"
    # Constants that hold addresses are writable only until the dynamic linker has filled those in.
    if section.flags & SH_FLAGS.SHF_WRITE and not section.name.startswith(".data.rel.ro"):
        return "data"
    return "rodata"


def _elf_sizes(path: Path) -> Sections:
    """Those of an ELF file.

    clang gives each Arm function an entry that says it cannot be unwound; the linker merges them into one,
    so those of unlinked objects are not counted.
    """
    total, elf = Sections(), ElfFile(path)
    for section in elf.sections:
        kind = _kind(section)
        if kind is not None and not (elf.type == "ET_REL" and section.type == "SHT_ARM_EXIDX"):
            total += Sections(**{kind: section.size})
    return total


def _wasm_sizes(path: Path) -> Sections:
    """Those of a WebAssembly object, whose segments of data are named as sections are elsewhere."""
    module = WasmObject(path)
    total = Sections(text=module.code_bytes)
    for name, size in module.segments.items():
        kind = next((kind for kind in ("rodata", "bss") if name.startswith(f".{kind}")), "data")
        total += Sections(**{kind: size})
    return total


def section_sizes(paths: Iterable[Path]) -> Sections:
    """Return the summed sections of objects or images; raise BuildError for what is neither ELF nor WebAssembly."""
    return sum((_wasm_sizes(p) if is_wasm(p) else _elf_sizes(p) for p in paths), start=Sections())


def placed_constants(paths: Iterable[Path]) -> int:
    """Bytes of constants in ELF objects that go to a memory of their own (``.sdk_region.NAME``)."""
    found = (section for path in paths if not is_wasm(path) for section in ElfFile(path).sections)
    return sum(s.size for s in found if s.name.startswith(".sdk_region.") and _kind(s) == "rodata")
