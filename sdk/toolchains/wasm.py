"""Reading WebAssembly objects, as clang writes them for the linker: sections, functions, their frames and calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sdk.errors import BuildError

__all__ = ["WasmFunction", "WasmObject", "is_wasm"]

_MAGIC: Final = b"\0asm"
_CUSTOM, _IMPORT, _CODE, _DATA = 0, 2, 10, 11  # sections
_SEGMENTS, _SYMBOLS = 5, 8  # parts of the section "linking"
_FUNCTION, _DATUM, _GLOBAL, _SECTION = 0, 1, 2, 3  # kinds of symbols
_LOCAL, _UNDEFINED, _NAMED = 0x02, 0x10, 0x40  # flags of symbols
_ADDED: Final = frozenset({3, 4, 5, 8, 9, 11, 14, 15, 16, 17, 21, 22, 23, 25})  # relocations with an addend
_CALLS: Final = frozenset({0, 1})  # relocations: a function that is called, or whose number is taken
_GLOBAL_USE: Final = 7  # relocation
_STACK_POINTER: Final = "__stack_pointer"
_GET_GLOBAL, _I32_CONST, _I32_SUB = 0x23, 0x41, 0x6B
_PADDED: Final = 5  # bytes of a number that the linker fills in


def is_wasm(path: Path) -> bool:
    """Whether a file is WebAssembly."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


@dataclass(frozen=True)
class WasmFunction:
    """A function that an object defines: the bytes it takes of the stack in memory, and what functions it refers to
    (names; with whether each is local to the object)."""

    name: str
    local: bool
    frame: int
    calls: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class _Symbol:
    kind: int
    flags: int
    index: int
    name: str

    @property
    def local(self) -> bool:
        return bool(self.flags & _LOCAL)


class _Bytes:
    """Numbers and names, read one after the other."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def number(self, *, signed: bool = False) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value - (1 << shift) if signed and byte & 0x40 else value

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise ValueError("it ends too early")
        self.at += size
        return self.data[self.at - size : self.at]

    def name(self) -> str:
        return self.take(self.number()).decode()

    @property
    def more(self) -> bool:
        return self.at < len(self.data)


class WasmObject:
    """One object: ``functions`` that it defines, names of the ``data`` that others may refer to, the ``code_bytes`` of
    all functions and the bytes of each of its ``segments`` of data by name."""

    def __init__(self, path: Path) -> None:
        try:
            self._read(_Bytes(path.read_bytes(), at=8))
        except (IndexError, ValueError, KeyError) as error:
            raise BuildError("damaged WebAssembly object", where=str(path), why=str(error)) from error

    def _read(self, file: _Bytes) -> None:
        sections: dict[int, bytes] = {}
        custom: dict[str, bytes] = {}
        while file.more:
            kind, body = file.byte(), file.take(file.number())
            if kind == _CUSTOM:
                inside = _Bytes(body)
                name = inside.name()
                custom[name] = body[inside.at :]
            else:
                sections[kind] = body
        imported = list(_imports(_Bytes(sections.get(_IMPORT, b"\0"))))
        names, symbols = _linking(_Bytes(custom["linking"], at=1), imported)
        code = sections.get(_CODE, b"\0")
        self.code_bytes = len(code)
        self.segments = dict(zip(names, _segments(_Bytes(sections.get(_DATA, b"\0"))), strict=True))
        self.data = tuple(s.name for s in symbols if s.kind == _DATUM and not s.flags & (_LOCAL | _UNDEFINED))
        relocations = list(_relocations(custom.get("reloc.CODE"), symbols))
        first = sum(kind == _FUNCTION for kind, _ in imported)
        own = {s.index - first: s for s in symbols if s.kind == _FUNCTION and not s.flags & _UNDEFINED}
        self.functions = tuple(
            _function(own[k], code, span, relocations) for k, span in enumerate(_bodies(_Bytes(code)))
        )


def _imports(section: _Bytes) -> Iterator[tuple[int, str]]:
    """Kind and name of each import, kinds numbered as those of symbols."""
    for _ in range(section.number()):
        section.name()
        name, kind = section.name(), section.byte()
        match kind:
            case 0:
                section.number()
                yield _FUNCTION, name
            case 1:
                section.byte()
                _limits(section)
            case 2:
                _limits(section)
            case 3:
                section.take(2)
                yield _GLOBAL, name
            case _:
                raise ValueError(f"an import of kind {kind}")


def _limits(section: _Bytes) -> None:
    for _ in range(2 if section.byte() & 1 else 1):
        section.number()


def _linking(section: _Bytes, imported: list[tuple[int, str]]) -> tuple[list[str], list[_Symbol]]:
    """The names of segments, and the symbols."""
    segments: list[str] = []
    symbols: list[_Symbol] = []
    while section.more:
        kind, part = section.byte(), _Bytes(section.take(section.number()))
        if kind == _SEGMENTS:
            for _ in range(part.number()):
                segments.append(part.name())
                part.number()
                part.number()
        elif kind == _SYMBOLS:
            symbols = [_symbol(part, imported) for _ in range(part.number())]
    return segments, symbols


def _symbol(part: _Bytes, imported: list[tuple[int, str]]) -> _Symbol:
    kind, flags = part.byte(), part.number()
    undefined = bool(flags & _UNDEFINED)
    if kind == _DATUM:
        name = part.name()
        for _ in range(0 if undefined else 3):  # segment, offset, size
            part.number()
        return _Symbol(kind, flags, 0, name)
    index = part.number()
    if kind == _SECTION:
        return _Symbol(kind, flags, index, "")
    if not undefined or flags & _NAMED:
        return _Symbol(kind, flags, index, part.name())
    alike = [name for of, name in imported if of == kind]
    return _Symbol(kind, flags, index, alike[index] if index < len(alike) else "")


def _segments(section: _Bytes) -> Iterator[int]:
    """The size of each segment of data."""
    for _ in range(section.number()):
        if section.number() != 0:
            raise ValueError("a segment without a place")
        section.byte()  # i32.const
        section.number(signed=True)
        section.byte()  # end
        yield len(section.take(section.number()))


def _relocations(section: bytes | None, symbols: list[_Symbol]) -> Iterator[tuple[int, int, _Symbol]]:
    """Kind, place in the code and symbol of what the linker fills in."""
    if section is None:
        return
    found = _Bytes(section)
    found.number()
    for _ in range(found.number()):
        kind, at, index = found.byte(), found.number(), found.number()
        if kind in _ADDED:
            found.number(signed=True)
        if kind in _CALLS or kind == _GLOBAL_USE:
            yield kind, at, symbols[index]


def _bodies(code: _Bytes) -> Iterator[tuple[int, int]]:
    """Where each function begins and ends."""
    for _ in range(code.number()):
        size = code.number()
        yield code.at, code.at + size
        code.take(size)


def _function(
    symbol: _Symbol, code: bytes, span: tuple[int, int], relocations: list[tuple[int, int, _Symbol]]
) -> WasmFunction:
    inside = [(kind, at, to) for kind, at, to in relocations if span[0] <= at < span[1]]
    calls = dict.fromkeys((to.name, to.local) for kind, _, to in inside if kind in _CALLS)
    pointers = [at for kind, at, to in inside if kind == _GLOBAL_USE and to.name == _STACK_POINTER]
    frames = [_frame(code, at, symbol.name) for at in pointers if code[at - 1] == _GET_GLOBAL]
    return WasmFunction(symbol.name, symbol.local, max(frames, default=0), tuple(calls))


def _frame(code: bytes, at: int, name: str) -> int:
    """What is taken off the stack pointer that is read at ``at``."""
    after = _Bytes(code, at + _PADDED)
    if after.byte() == _I32_CONST:
        size = after.number(signed=True)
        if after.byte() == _I32_SUB:
            return size
    raise BuildError("a frame has no fixed size", where=name, why="it holds an array of variable length")
