"""Reading ELF files: sections, symbols and relocations, enough to measure what a compiler produced."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sdk.errors import BuildError

SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR = 1, 2, 4
SHT_SYMTAB, SHT_RELA, SHT_NOBITS, SHT_REL = 2, 4, 8, 9
SHT_ARM_EXIDX = 0x70000001
ET_REL = 1
STT_FUNC, STT_SECTION = 2, 3
STB_LOCAL = 0
EM_ARM, EM_X86_64 = 40, 62


@dataclass(frozen=True)
class Section:
    """One section header with its contents; ``link`` and ``info`` are indices of other sections, ``address`` is where
    the section is once linked."""

    index: int
    name: str
    type: int
    flags: int
    address: int
    size: int
    link: int
    info: int
    data: bytes


@dataclass(frozen=True)
class Symbol:
    """One symbol: ``section`` is the index of its section, 0 when it is undefined here."""

    name: str
    value: int
    size: int
    type: int
    binding: int
    section: int


@dataclass(frozen=True)
class Relocation:
    """A place in section ``section`` at ``offset`` that refers to ``symbol`` plus ``addend``."""

    section: int
    offset: int
    symbol: Symbol
    addend: int


class ElfFile:
    """A parsed little-endian ELF file, object or linked, 32 or 64 bits."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._raw = path.read_bytes()
        if self._raw[:4] != b"\x7fELF" or self._raw[5:6] != b"\x01":
            raise BuildError("not a little-endian ELF file", where=str(path))
        self.is64 = self._raw[4] == 2
        try:
            self.type, self.machine = struct.unpack_from("<HH", self._raw, 16)
            self.sections = self._read_sections()
            self.symbols = self._read_symbols()
        except (struct.error, IndexError, ValueError, OverflowError) as error:
            raise BuildError("damaged ELF file", where=str(path), why=str(error)) from error

    def _read_sections(self) -> list[Section]:
        at, size, count, names = self._header()
        form = "<IIQQQQIIQQ" if self.is64 else "<IIIIIIIIII"
        rows = [struct.unpack_from(form, self._raw, at + index * size) for index in range(count)]
        text = self._raw[rows[names][4] : rows[names][4] + rows[names][5]] if rows else b""
        sections = []
        for index, (name, kind, flags, address, offset, length, link, info, *_) in enumerate(rows):
            data = b"" if kind == SHT_NOBITS else self._raw[offset : offset + length]
            sections.append(Section(index, _string(text, name), kind, flags, address, length, link, info, data))
        return sections

    def _header(self) -> tuple[int, int, int, int]:
        """Offset, entry size and count of the section headers, and the index of the one with their names."""
        at = struct.unpack_from("<Q" if self.is64 else "<I", self._raw, 40 if self.is64 else 32)[0]
        size, count, names = struct.unpack_from("<HHH", self._raw, 58 if self.is64 else 46)
        return at, size, count, names

    def _read_symbols(self) -> list[Symbol]:
        table = next((section for section in self.sections if section.type == SHT_SYMTAB), None)
        if table is None:
            return []
        text = self.sections[table.link].data
        symbols = []
        for row in struct.iter_unpack("<IBBHQQ" if self.is64 else "<IIIBBH", table.data):
            if self.is64:
                name, info, _, section, value, size = row
            else:
                name, value, size, info, _, section = row
            symbols.append(Symbol(_string(text, name), value, size, info & 15, info >> 4, section))
        return symbols

    def relocations(self, section: Section) -> Iterator[Relocation]:
        """Yield the relocations of ``section``; the addend is 0 where the format keeps it in place."""
        for table in self.sections:
            if table.type not in (SHT_REL, SHT_RELA) or table.info != section.index:
                continue
            explicit = table.type == SHT_RELA
            form = ("<QQq" if explicit else "<QQ") if self.is64 else ("<IIi" if explicit else "<II")
            for offset, info, *addend in struct.iter_unpack(form, table.data):
                symbol = self.symbols[info >> (32 if self.is64 else 8)]
                yield Relocation(section.index, offset, symbol, addend[0] if addend else 0)

    def code_at(self, address: int, most: int) -> bytes:
        """At most so many bytes from an address of a linked file, to the end of the section there."""
        for section in self.sections:
            if section.flags & SHF_ALLOC and section.address <= address < section.address + len(section.data):
                return section.data[address - section.address : address - section.address + most]
        return b""

    def functions(self) -> list[Symbol]:
        """All functions defined in this file."""
        return [symbol for symbol in self.symbols if symbol.type == STT_FUNC and symbol.section != 0]


def _string(table: bytes, at: int) -> str:
    return table[at : table.index(b"\0", at)].decode()
