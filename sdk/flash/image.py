"""What is written to a board: the loadable bytes of a linked program, as a binary, Intel HEX or UF2."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sdk.boards import Board, Memory
from sdk.errors import BuildError, FlashError, UsageError
from sdk.flash import uf2
from sdk.toolchains.elf import ElfFile, Load

__all__ = ["BUILD_ID", "ERASED", "Image", "as_bin", "as_hex", "check_fits", "read_image"]

BUILD_ID: Final = "sdk_rt_build_id"  # the symbol with the hash that an agent tells in its greeting
ERASED: Final = 0xFF  # what erased flash reads as, between the parts of an image
MAX_BIN: Final = 1 << 26  # bytes of a binary, gaps included
_HASH: Final = 32  # digits of such a hash
_LINE: Final = 16  # bytes of a line of Intel HEX
_SHOWN: Final = 5  # what takes most of an image, in an error


@dataclass(frozen=True)
class Image:
    """A linked program: what is loaded, by address, and the hash that it tells of itself; None where it has none."""

    path: Path
    parts: tuple[Load, ...]
    build_id: str | None

    @property
    def size(self) -> int:
        """Bytes to write."""
        return sum(len(part.data) for part in self.parts)


def read_image(path: Path) -> Image:
    """The image in an ELF file.

    Raises:
        UsageError: it is none, has nothing to load, or parts that overlap.
    """
    try:
        elf = ElfFile(path)
    except (BuildError, OSError) as error:
        why = error.message if isinstance(error, BuildError) else error.strerror
        raise UsageError(f"{path} is no image", why=why, hint="give a model, or the .elf of a firmware") from None
    parts = elf.loads()
    if not parts:
        raise UsageError(f"{path} has nothing to write", why="no section of it is loaded", hint="give a linked .elf")
    for one, other in itertools.pairwise(parts):
        if one.address + len(one.data) > other.address:
            raise UsageError(f"{path} is damaged", why=f"{one.name} and {other.name} are loaded to the same place")
    return Image(path, tuple(parts), _build_id(elf))


def _build_id(elf: ElfFile) -> str | None:
    found = [symbol for symbol in elf.symbols if symbol.name == BUILD_ID]
    text = elf.code_at(found[0].value, _HASH) if found else b""
    return text.decode("ascii", "replace") if len(text) == _HASH else None


def as_bin(parts: Sequence[Load]) -> tuple[int, bytes]:
    """The first address, and all bytes from there on.

    Raises:
        UsageError: the parts are so far apart that a binary is no way to write them.
    """
    start, end = parts[0].address, parts[-1].address + len(parts[-1].data)
    if end - start > MAX_BIN:
        why = f"its parts lie from {start:#x} to {end:#x}"
        raise UsageError("the image is too wide for a binary", why=why, hint="flash it with a runner that takes ELF")
    data = bytearray([ERASED]) * (end - start)
    for part in parts:
        data[part.address - start : part.address - start + len(part.data)] = part.data
    return start, bytes(data)


def as_hex(parts: Sequence[Load]) -> str:
    """Intel HEX, with 32-bit addresses."""
    lines, upper = [], -1
    for address, data in _lines(parts):
        if address >> 16 != upper:
            upper = address >> 16
            lines.append(_record(0, 4, upper.to_bytes(2, "big")))
        lines.append(_record(address & 0xFFFF, 0, data))
    return "\n".join([*lines, _record(0, 1, b""), ""])


def _lines(parts: Sequence[Load]) -> Iterator[tuple[int, bytes]]:
    """Pieces that cross no line of 16 bytes, so none that an extended address would have to change in."""
    for part in parts:
        at, end = part.address, part.address + len(part.data)
        while at < end:
            stop = min(end, (at // _LINE + 1) * _LINE)
            yield at, part.data[at - part.address : stop - part.address]
            at = stop


def _record(address: int, kind: int, data: bytes) -> str:
    body = bytes([len(data)]) + address.to_bytes(2, "big") + bytes([kind]) + data
    return f":{body.hex()}{-sum(body) & 0xFF:02x}".upper()


def write_as(image: Image, takes: str, folder: Path, name: str, family: int = 0) -> tuple[Path, int]:
    """The image in a file of a format (elf, bin, hex, uf2) in ``folder``, and its first address.

    Raises:
        UsageError: ``as_bin``.
    """
    path, start = folder / f"{name}.{takes}", image.parts[0].address
    match takes:
        case "elf":
            path.write_bytes(image.path.read_bytes())
        case "bin":
            start, data = as_bin(image.parts)
            path.write_bytes(data)
        case "hex":
            path.write_text(as_hex(image.parts), encoding="ascii")
        case _:
            path.write_bytes(uf2.pack([(part.address, part.data) for part in image.parts], family))
    return path, start


def check_fits(image: Image, board: Board) -> None:
    """Refuse an image that is not within the memories of a board.

    Raises:
        FlashError: by how much it is too large and what takes it, or what has no place there.
    """
    over: dict[str, int] = {}
    for part in image.parts:
        home = _home(part, board.memory)
        if home is None:
            have = ", ".join(f"{m.name} {m.base:#010x} to {m.end:#010x}" for m in board.memory)
            raise FlashError(
                f"the image is not for {board.name}",
                where=str(image.path),
                why=f"{part.name} is at {part.address:#010x}, where {board.name} has no memory: it has {have}",
                hint="give the image that was linked for this board, or --board with the one that it is for",
            )
        over[home.name] = max(over.get(home.name, 0), part.address + len(part.data) - home.end)
    excess = {name: size for name, size in over.items() if size > 0}
    if excess:
        raise FlashError(
            f"the image is too large for {board.name}: {', '.join(f'{n} by {s:,} bytes' for n, s in excess.items())}",
            where=str(image.path),
            why=f"{image.size:,} bytes; most of it: {_largest(image)}",
            hint="sdk memory MODEL --board B shows what a model takes; sdk boards lists larger boards",
        )


def _home(part: Load, memory: Sequence[Memory]) -> Memory | None:
    return next((m for m in memory if m.base <= part.address < m.end), None)


def _largest(image: Image) -> str:
    sizes: dict[str, int] = {part.name: len(part.data) for part in image.parts}
    elf = ElfFile(image.path)
    held = {symbol.name: symbol.size for symbol in elf.symbols if symbol.type in ("STT_OBJECT", "STT_FUNC")}
    sections, symbols = (sorted(found.items(), key=lambda one: -one[1])[:_SHOWN] for found in (sizes, held))
    return ", ".join(f"{name} {size:,}" for name, size in (*sections, *symbols))
