"""An image on a machine that is started for it: all requests go in at once, results come back one by one.

QEMU loads the requests into its memory, and the image writes a file; Node reads and writes its standard files.
"""

from __future__ import annotations

import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

__all__ = ["run_started"]

REQUESTS = 0x7400_0000  # as semihosted.ld has it
COMMAND = ("qemu-system-arm", "-M", "mps3-an547", "-display", "none", "-monitor", "none", "-serial", "none")
HERE = Path(__file__).resolve().parent
Raw = tuple[bytes, bytes, int]  # words, inputs, bytes of outputs


def run_started(
    image: Path, machine: Literal["qemu", "node"], requests: Sequence[Raw], timeout_s: float
) -> list[bytes | str]:
    """The outputs of each request, or what went wrong; the machine is started anew after a fault."""
    out: list[bytes | str] = []
    while len(out) < len(requests):
        found, why = _started(image, machine, requests[len(out) :], timeout_s)
        out += found
        if why:
            out.append(why)
    return out


def _started(
    image: Path, machine: Literal["qemu", "node"], requests: Sequence[Raw], timeout_s: float
) -> tuple[list[bytes | str], str]:
    limit = timeout_s + len(requests)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "requests.bin").write_bytes(_packed(requests))
        if machine == "qemu":
            loaded = f"loader,file=requests.bin,addr={REQUESTS:#x},force-raw=on"
            config = ["-semihosting-config", "enable=on,target=native", "-device", loaded]
            command, out = [*COMMAND, *config, "-kernel", str(image.resolve())], "printed.bin"
        else:
            command, out = ["node", str(HERE / "drive.mjs"), str(image.resolve())], "results.bin"
        try:
            with (folder / "requests.bin").open("rb") as given, (folder / out).open("wb") as written:
                done = subprocess.run(
                    command, cwd=folder, stdin=given, stdout=written, stderr=subprocess.PIPE, timeout=limit, check=False
                )
            why = f"fault: {done.stderr.decode(errors='replace')[:400]}"
        except subprocess.TimeoutExpired:
            why = f"no end within {limit:g} s"
        results = folder / "results.bin"
        found = _unpacked(results.read_bytes() if results.exists() else b"", requests)
    return found, why if len(found) < len(requests) else ""


def _packed(requests: Sequence[Raw]) -> bytes:
    """The count; then of each request three sizes and what they are the sizes of, padded to words."""
    out = bytearray(struct.pack("<i", len(requests)))
    for words, given, wanted in requests:
        padded = given + bytes(-len(given) % 4)
        out += struct.pack("<3i", len(words), len(padded), wanted) + words + padded
    return bytes(out)


def _unpacked(raw: bytes, requests: Sequence[Raw]) -> list[bytes | str]:
    at, out = 0, list[bytes | str]()
    for _, _, wanted in requests:
        if at + 4 + wanted > len(raw):
            break
        (status,) = struct.unpack_from("<i", raw, at)
        out.append(f"status {status}" if status else raw[at + 4 : at + 4 + wanted])
        at += 4 + wanted
    return out
