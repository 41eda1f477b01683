"""An image on a machine that is started for it: all requests go in at once, results come back one by one.

QEMU loads the requests into its memory, and the image writes a file; a program of Linux and Node read and write their
standard files.
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
Started = Literal["qemu", "qemu-user", "node"]
Raw = tuple[bytes, bytes, int]  # words, inputs, bytes of outputs


def run_started(image: Path, machine: Started, requests: Sequence[Raw], timeout_s: float) -> list[bytes | str]:
    """The outputs of each request, or what went wrong; the machine is started anew after a fault."""
    out: list[bytes | str] = []
    while len(out) < len(requests):
        found, why = _started(image, machine, requests[len(out) :], timeout_s)
        out += found
        if why:
            out.append(why)
    return out


def _started(image: Path, machine: Started, requests: Sequence[Raw], timeout_s: float) -> tuple[list[bytes | str], str]:
    limit = timeout_s + len(requests)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "requests.bin").write_bytes(_packed(requests))
        command, out = _command(machine, str(image.resolve()))
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


def _command(machine: Started, image: str) -> tuple[list[str], str]:
    """The command, and the file that its output goes to: results, but for a machine that writes those itself."""
    match machine:
        case "qemu":
            loaded = f"loader,file=requests.bin,addr={REQUESTS:#x},force-raw=on"
            config = ["-semihosting-config", "enable=on,target=native", "-device", loaded]
            return [*COMMAND, *config, "-kernel", image], "printed.bin"
        case "qemu-user":
            return ["qemu-aarch64", "-cpu", "max", image], "results.bin"
        case "node":
            return ["node", str(HERE / "drive.mjs"), image], "results.bin"


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
