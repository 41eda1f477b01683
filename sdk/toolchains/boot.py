"""What a chip's ROM checks before it runs an image: checksums that are known only once all is linked."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from elftools.elf import elffile

from sdk.errors import BuildError

__all__ = ["boot_checksum", "sign_boot"]

_SIGNED: Final = {"stage2": 256}  # bytes of .boot whose last word is the checksum of those before it
_POLYNOMIAL: Final = 0x04C1_1DB7


def boot_checksum(data: bytes) -> int:
    """The CRC-32 of the RP2040's ROM (RP2040 Datasheet, 2.8.1.3.1): highest bit first, begun with ones, kept."""
    crc = 0xFFFF_FFFF
    for byte in data:
        crc ^= byte << 24
        for _ in range(8):
            crc = (crc << 1 ^ (_POLYNOMIAL if crc >> 31 else 0)) & 0xFFFF_FFFF
    return crc


def sign_boot(image: Path, boot: str | None) -> None:
    """Puts the checksum that the ROM of a kind of ``boot`` wants into a linked image, in place.

    Raises:
        BuildError: the code in ``.boot`` has another size than the ROM reads.
    """
    size = _SIGNED.get(boot or "")
    if size is None:
        return
    with image.open("r+b") as file:
        section = elffile.ELFFile(file).get_section_by_name(".boot")
        found = 0 if section is None else section["sh_size"]
        if section is None or found != size:
            raise BuildError(f"the boot code has {found} bytes, where the ROM reads {size}", where=str(image))
        start = section["sh_offset"]
        file.seek(start)
        crc = boot_checksum(file.read(size - 4))
        file.seek(start + size - 4)
        file.write(struct.pack("<I", crc))
