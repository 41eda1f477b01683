"""An image on QEMU: requests are loaded into its memory, results come back in a file that it writes."""

from __future__ import annotations

import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

__all__ = ["run_semihosted"]

REQUESTS = 0x7400_0000  # as semihosted.ld has it
COMMAND = ("qemu-system-arm", "-M", "mps3-an547", "-display", "none", "-monitor", "none", "-serial", "none")
Raw = tuple[bytes, bytes, int]  # words, inputs, bytes of outputs


def run_semihosted(image: Path, requests: Sequence[Raw], timeout_s: float) -> list[bytes | str]:
    """The outputs of each request, or what went wrong; the machine is started anew after a fault."""
    out: list[bytes | str] = []
    while len(out) < len(requests):
        found, why = _started(image, requests[len(out) :], timeout_s)
        out += found
        if why:
            out.append(why)
    return out


def _started(image: Path, requests: Sequence[Raw], timeout_s: float) -> tuple[list[bytes | str], str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "requests.bin").write_bytes(_packed(requests))
        loaded = f"loader,file=requests.bin,addr={REQUESTS:#x},force-raw=on"
        command = [*COMMAND, "-semihosting-config", "enable=on,target=native", "-device", loaded]
        limit = timeout_s + len(requests)
        try:
            done = subprocess.run(
                [*command, "-kernel", str(image.resolve())], cwd=folder, capture_output=True, timeout=limit, check=False
            )
            why = f"fault: {done.stderr.decode(errors='replace')[:200]}"
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
