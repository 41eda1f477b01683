"""Files for runners: UF2 by its specification, binaries and Intel HEX as objcopy makes them."""

from __future__ import annotations

import hashlib
import random
import struct
import subprocess
from pathlib import Path

import pytest
from flash_desk import hex_records, memory

from sdk.errors import UsageError
from sdk.flash.image import as_bin, as_hex, read_image
from sdk.flash.uf2 import pack, unpack
from sdk.toolchains.elf import Load

FAMILY = 0xE48BFF56


def test_blocks_as_the_specification_says() -> None:
    data = pack([(0x1000_00F0, bytes(range(32))), (0x1000_0400, b"end")], FAMILY)
    assert len(data) == 3 * 512
    fields = [struct.unpack_from("<8I", data, 512 * k) for k in range(3)]
    assert [f[:2] for f in fields] == [(0x0A324655, 0x9E5D5157)] * 3
    assert [f[2] for f in fields] == [0x2000] * 3
    assert [f[3] for f in fields] == [0x1000_0000, 0x1000_0100, 0x1000_0400]
    assert [f[4:] for f in fields] == [(256, k, 3, FAMILY) for k in range(3)]
    assert all(data[512 * k + 508 : 512 * k + 512] == bytes.fromhex("306fb10a") for k in range(3))
    assert all(data[512 * k + 288 : 512 * k + 508] == bytes(220) for k in range(3))
    assert data[32 : 32 + 256] == b"\xff" * 240 + bytes(range(16))
    assert data[512 + 32 : 512 + 64] == bytes(range(16, 32)) + b"\xff" * 16


def test_checksums_of_sectors() -> None:
    data = pack([(0x2000, bytes(300)), (0x4010, b"x")], FAMILY, sector=4096)
    assert len(data) == 2 * 16 * 512
    flags = {struct.unpack_from("<I", data, 512 * k + 8)[0] for k in range(32)}
    assert flags == {0x6000}
    start, size, digest = struct.unpack_from("<II16s", data, 512 * 17 + 32 + 476 - 24)
    held = b"\xff" * 16 + b"x" + b"\xff" * (4096 - 17)
    assert (start, size, digest) == (0x4000, 4096, hashlib.md5(held).digest())
    assert memory([(b.address, b.data) for b in unpack(data)])[-4096:] == held
    broken = bytearray(data)
    broken[40] ^= 1
    with pytest.raises(UsageError, match="UF2") as error:
        unpack(bytes(broken))
    assert "checksum" in str(error.value.why)


def test_any_parts_come_back() -> None:
    rng = random.Random(7)
    for _ in range(40):
        at, parts = 0x0800_0000 + rng.randrange(4096), []
        for _ in range(rng.randrange(1, 6)):
            parts.append((at, rng.randbytes(rng.randrange(1, 900))))
            at += len(parts[-1][1]) + rng.choice((0, 1, 17, 256, 3000))
        want = memory(parts)
        blocks = unpack(pack(parts, FAMILY, rng.choice((None, 256, 4096))))
        assert {b.family for b in blocks} == {FAMILY}
        assert len({b.address for b in blocks}) == len(blocks)
        assert all(b.address % 256 == 0 for b in blocks)
        got, first = memory([(b.address, b.data) for b in blocks]), blocks[0].address
        assert got[parts[0][0] - first :].startswith(want)
        loads = [Load("part", *part) for part in parts]
        assert as_bin(loads) == (parts[0][0], want)
        assert memory(hex_records(as_hex(loads))) == want


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d[:-1], "multiple of 512"),
        (lambda d: b"", "0 bytes"),
        (lambda d: b"\0" + d[1:], "magic"),
        (lambda d: d[:508] + b"\0" + d[509:], "magic"),
        (lambda d: d[512:], "block 0 of 1 says that it is 1 of 2"),
        (lambda d: d[:16] + struct.pack("<I", 477) + d[20:], "477 bytes of 476"),
    ],
)
def test_damaged_files_are_refused(change, says: str) -> None:
    data = pack([(0, bytes(512))], FAMILY)
    with pytest.raises(UsageError, match="not a UF2 file") as error:
        unpack(change(data))
    assert says in str(error.value.why)


SCRIPT = """
MEMORY { flash (rx) : ORIGIN = 0x0800FF00, LENGTH = 64K  ram (rwx) : ORIGIN = 0x20000000, LENGTH = 8K }
SECTIONS {
    .text : { *(.text*) } > flash
    .rodata : ALIGN(64) { *(.rodata*) } > flash
    .data : { *(.data*) } > ram AT > flash
    .bss (NOLOAD) : { *(.bss*) } > ram
}
"""
SOURCE = """
const char sdk_rt_build_id[33] __attribute__((used)) = "0123456789abcdef0123456789abcdef";
int counts[300] = { 1, 2, 3 }, more[100];
int main(void) { return counts[more[0]]; }
"""


def test_as_objcopy_makes_them(tmp_path: Path, need_tool) -> None:
    """A linked program, with what lies in RAM stored behind its code, over a border of 64 KiB."""
    (tmp_path / "l.ld").write_text(SCRIPT)
    (tmp_path / "m.c").write_text(SOURCE)
    gcc, objcopy = need_tool("arm-none-eabi-gcc"), need_tool("arm-none-eabi-objcopy")
    flags = ("-nostdlib", "-mcpu=cortex-m4", "-mthumb", "-Wl,--build-id=none", "-Wl,-emain", "-T", tmp_path / "l.ld")
    subprocess.run([gcc, *flags, tmp_path / "m.c", "-o", tmp_path / "m.elf"], check=True)
    image = read_image(tmp_path / "m.elf")
    assert image.build_id == "0123456789abcdef0123456789abcdef"
    start, data = as_bin(image.parts)
    assert start == 0x0800FF00
    assert start + len(data) > 0x0801_0000
    for kind in ("binary", "ihex"):
        subprocess.run([objcopy, "-O", kind, "--gap-fill", "0xff", tmp_path / "m.elf", tmp_path / kind], check=True)
    assert (tmp_path / "binary").read_bytes() == data
    assert memory(hex_records((tmp_path / "ihex").read_text())) == memory(hex_records(as_hex(image.parts))) == data
