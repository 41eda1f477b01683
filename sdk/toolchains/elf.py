"""Reading ELF files: sections, symbols and relocations, enough to measure what a compiler produced."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf import elffile, relocation, sections
from elftools.elf.constants import SH_FLAGS
from elftools.elf.enums import ENUM_ST_SHNDX

from sdk.errors import BuildError


@dataclass(frozen=True)
class Section:
    """One section, its type as the specification calls it; ``address`` is where it is once linked, ``data`` is empty
    where all of it is zeros that no file holds."""

    index: int
    name: str
    type: str
    flags: int
    address: int
    size: int
    data: bytes


@dataclass(frozen=True)
class Symbol:
    """One symbol: ``section`` is the index of its section, 0 when it is undefined here."""

    name: str
    value: int
    size: int
    type: str
    binding: str
    section: int


@dataclass(frozen=True)
class Relocation:
    """A place at ``offset`` of a section that refers to ``symbol`` plus ``addend``, 0 where that is in the place."""

    offset: int
    symbol: Symbol
    addend: int


@dataclass(frozen=True)
class Load:
    """Bytes of a section that a loader puts at ``address``, where they may wait to be copied elsewhere."""

    name: str
    address: int
    data: bytes


class ElfFile:
    """A little-endian ELF file, object or linked, 32 or 64 bits; type and machine as the specification calls them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        raw = path.read_bytes()
        if raw[:4] != b"\x7fELF" or raw[5:6] != b"\x01":
            raise BuildError("not a little-endian ELF file", where=str(path))
        with self._read():
            elf = elffile.ELFFile(io.BytesIO(raw))
            self._found = list(elf.iter_sections())
            self.is64, self.type, self.machine = elf.elfclass == 64, elf["e_type"], elf["e_machine"]
            self.sections = [_section(*numbered) for numbered in enumerate(self._found)]
            self._segments = [part.header for part in elf.iter_segments("PT_LOAD")]
        self._relocations = [s for s in self._found if isinstance(s, relocation.RelocationSection)]

    @contextmanager
    def _read(self) -> Iterator[None]:
        try:
            yield
        except (ELFError, ValueError, OverflowError) as error:
            raise BuildError("damaged ELF file", where=str(self.path), why=str(error)) from error

    @cached_property
    def symbols(self) -> list[Symbol]:
        """All symbols, by index; they take longer to read than all else, and sizes need none."""
        with self._read():
            tables = [s for s in self._found if isinstance(s, sections.SymbolTableSection)]
            own = (table for table in tables if table["sh_type"] == "SHT_SYMTAB")
            return [_symbol(symbol) for table in own for symbol in table.iter_symbols()]

    def relocations(self, section: Section) -> Iterator[Relocation]:
        """Yield the relocations of ``section``."""
        for table in self._relocations:
            if table["sh_info"] == section.index:
                for one in table.iter_relocations():
                    addend = one["r_addend"] if one.is_RELA() else 0
                    yield Relocation(one["r_offset"], self.symbols[one["r_info_sym"]], addend)

    def loads(self) -> list[Load]:
        """What is loaded before a linked program starts, by address: the sections with contents, each where its segment
        says that it is stored."""
        found = []
        for section in self.sections:
            for part in self._segments if section.flags & SH_FLAGS.SHF_ALLOC and section.data else ():
                offset = section.address - part["p_vaddr"]
                if offset >= 0 and offset + len(section.data) <= part["p_filesz"]:
                    found.append(Load(section.name, part["p_paddr"] + offset, section.data))
                    break
        return sorted(found, key=lambda load: load.address)

    def code_at(self, address: int, maximum: int) -> bytes:
        """At most so many bytes from an address of a linked file, to the end of the section there."""
        for section in self.sections:
            if section.flags & SH_FLAGS.SHF_ALLOC and section.address <= address < section.address + len(section.data):
                return section.data[address - section.address : address - section.address + maximum]
        return b""

    def functions(self) -> list[Symbol]:
        """All functions defined in this file."""
        return [symbol for symbol in self.symbols if symbol.type == "STT_FUNC" and symbol.section != 0]


def _section(index: int, found: sections.Section) -> Section:
    kind, size = found["sh_type"], found["sh_size"]
    data = b"" if kind == "SHT_NOBITS" else found.data()
    return Section(index, found.name, kind, found["sh_flags"], found["sh_addr"], size, data)


def _symbol(found: sections.Symbol) -> Symbol:
    info, section = found["st_info"], found["st_shndx"]
    section = ENUM_ST_SHNDX.get(section, section)
    return Symbol(found.name, found["st_value"], found["st_size"], info["type"], info["bind"], section)
