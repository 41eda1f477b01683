"""A linked WebAssembly module without its constants: code as one file, what memory holds at first as another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sdk.errors import BuildError

__all__ = ["SplitModule", "share_memory", "split_module"]

_HEAD: Final = b"\0asm\1\0\0\0"
_IMPORT, _DATA, _DATA_COUNT = 2, 11, 12  # sections
_MEMORY, _BOUNDED, _SHARED = 2, 1, 3  # a kind of import; flags of its limits
_I32_CONST, _END = 0x41, 0x0B


@dataclass(frozen=True)
class SplitModule:
    """``module`` has no data; ``data`` are the contents of its segments one behind the other, and ``segments`` tells of
    each where in memory it goes and how many bytes it has."""

    module: bytes
    data: bytes
    segments: tuple[tuple[int, int], ...]


def split_module(linked: bytes) -> SplitModule:
    """Takes the data out of a module whose segments have places that are numbers.

    Raises:
        BuildError: it is no such module.
    """
    if linked[: len(_HEAD)] != _HEAD:
        raise BuildError("the linker made no WebAssembly module")
    try:
        kept, data, segments = bytearray(_HEAD), bytearray(), []
        at = len(_HEAD)
        while at < len(linked):
            start, kind = at, linked[at]
            size, at = _number(linked, at + 1)
            body, at = linked[at : at + size], at + size
            if kind == _DATA:
                for place, contents in _segments(body):
                    segments.append((place, len(contents)))
                    data += contents
            elif kind != _DATA_COUNT:
                kept += linked[start:at]
        return SplitModule(bytes(kept), bytes(data), tuple(segments))
    except (IndexError, ValueError) as error:
        raise BuildError("the module's data cannot be taken out", why=str(error)) from error


def share_memory(module: bytes) -> tuple[bytes, int, int]:
    """A module whose one import is a memory of bounded size, which becomes one that threads share; the place of the
    byte that says so (1: not shared), and how many pages of 64 KiB the memory has at first.

    Raises:
        BuildError: it is no such module.
    """
    try:
        at = len(_HEAD)
        while module[at] != _IMPORT:
            size, at = _number(module, at + 1)
            at += size
        _, at = _number(module, at + 1)
        count, at = _number(module, at)
        for _ in range(2):  # the names of the module and of the memory
            size, at = _number(module, at)
            at += size
        if (count, module[at], module[at + 1]) != (1, _MEMORY, _BOUNDED):
            raise ValueError("its import is another")
        pages, _ = _number(module, at + 2)
    except (IndexError, ValueError) as error:
        raise BuildError("the module imports no memory that threads could share", why=str(error)) from error
    return module[: at + 1] + bytes([_SHARED]) + module[at + 2 :], at + 1, pages


def _segments(body: bytes) -> list[tuple[int, bytes]]:
    found = []
    count, at = _number(body, 0)
    for _ in range(count):
        if body[at] != 0 or body[at + 1] != _I32_CONST:
            raise ValueError("a segment has no fixed place")
        place, at = _signed(body, at + 2)
        if body[at] != _END:
            raise ValueError("the place of a segment is computed")
        size, at = _number(body, at + 1)
        if size > len(body) - at:
            raise ValueError("a segment ends too early")
        found.append((place & 0xFFFFFFFF, body[at : at + size]))
        at += size
    return found


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at


def _signed(data: bytes, at: int) -> tuple[int, int]:
    first = at
    value, at = _number(data, at)
    return (value - (1 << 7 * (at - first)) if data[at - 1] & 0x40 else value), at
