"""UF2, the format of files that are copied to a board's drive: blocks of 512 bytes, each of which says where it goes.

Source: the specification, github.com/microsoft/uf2.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sdk.errors import UsageError

__all__ = ["BLOCK", "PAGE", "Block", "pack", "unpack"]

BLOCK: Final = 512
PAGE: Final = 256  # bytes of flash in a block: what loaders write at once
DATA: Final = 476  # of a block, payload and checksum
_MAGIC: Final = (0x0A324655, 0x9E5D5157)
_MAGIC_END: Final = 0x0AB16F30
_NOT_MAIN_FLASH: Final = 0x0000_0001
_FAMILY: Final = 0x0000_2000
_MD5: Final = 0x0000_4000
_HEADER: Final = struct.Struct("<8I")
_CHECKSUM: Final = struct.Struct("<II16s")  # of a region of flash: address, bytes, MD5
_ERASED: Final = 0xFF


@dataclass(frozen=True)
class Block:
    """What a block says: ``data`` goes to ``address``; ``family`` is the chips that it is for, None where it tells
    none. ``region`` is what of the flash its checksum is of, None where it has none."""

    address: int
    data: bytes
    family: int | None
    region: tuple[int, int, bytes] | None = None


def pack(parts: Iterable[tuple[int, bytes]], family: int, sector: int | None = None) -> bytes:
    """A file that writes ``parts``, addresses and bytes, for chips of ``family``.

    Flash is written in whole pages; what a page has beside the parts is as erased. With ``sector``, the bytes that the
    chip erases at once, whole sectors are written, and each block has the MD5 of its sector: a loader may leave out
    one whose flash has it already.
    """
    unit = sector or PAGE
    assert unit % PAGE == 0
    units: dict[int, bytearray] = {}
    for address, data in parts:
        for at in range(address // unit * unit, address + len(data), unit):
            page = units.setdefault(at, bytearray([_ERASED]) * unit)
            first, last = max(at, address), min(at + unit, address + len(data))
            page[first - at : last - at] = data[first - address : last - address]
    pages = [(at + k, bytes(held), k) for at, held in sorted(units.items()) for k in range(0, unit, PAGE)]
    out = bytearray()
    for number, (address, held, offset) in enumerate(pages):
        body = held[offset : offset + PAGE]
        flags = _FAMILY | (_MD5 if sector else 0)
        tail = _CHECKSUM.pack(address - offset, unit, _md5(held)) if sector else b""
        out += _HEADER.pack(*_MAGIC, flags, address, len(body), number, len(pages), family)
        out += body + bytes(DATA - len(body) - len(tail)) + tail + struct.pack("<I", _MAGIC_END)
    return bytes(out)


def unpack(data: bytes) -> list[Block]:
    """The blocks of a file, in order.

    Raises:
        UsageError: it is no whole UF2 file: a size, a magic number, a number or a checksum is wrong.
    """
    if not data or len(data) % BLOCK:
        raise _damaged(f"it has {len(data)} bytes, which is no multiple of {BLOCK}")
    blocks, count = [], len(data) // BLOCK
    for number in range(count):
        raw = data[number * BLOCK : (number + 1) * BLOCK]
        *magic, flags, address, size, told, total, family = _HEADER.unpack_from(raw)
        if tuple(magic) != _MAGIC or raw[-4:] != struct.pack("<I", _MAGIC_END):
            raise _damaged(f"block {number} lacks a magic number")
        if (told, total) != (number, count):
            raise _damaged(f"block {number} of {count} says that it is {told} of {total}")
        room = DATA - (_CHECKSUM.size if flags & _MD5 else 0)
        if not 0 < size <= room:
            raise _damaged(f"block {number} says that it has {size} bytes of {room}")
        if flags & _NOT_MAIN_FLASH:
            continue
        body = raw[_HEADER.size : _HEADER.size + size]
        region = _CHECKSUM.unpack_from(raw, _HEADER.size + room) if flags & _MD5 else None
        blocks.append(Block(address, body, family if flags & _FAMILY else None, region))
    _check_regions(blocks)
    return blocks


def _check_regions(blocks: list[Block]) -> None:
    """Compare checksums of regions that the file has the whole of."""
    pages = {block.address: block.data for block in blocks}
    for start, size, digest in {block.region for block in blocks if block.region}:
        held = bytearray()
        while len(held) < size and start + len(held) in pages:
            held += pages[start + len(held)]
        if len(held) == size and _md5(held) != digest:
            raise _damaged(f"the checksum of {size} bytes at {start:#010x} is another")


def _md5(data: bytes | bytearray) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _damaged(why: str) -> UsageError:
    return UsageError("not a UF2 file", why=why, hint="make it again")
