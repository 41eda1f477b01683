"""An image on QEMU: a machine that requests are loaded into, and that writes results to a file, or a program of Linux
between two pipes."""

from __future__ import annotations

import struct
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

__all__ = ["run_program", "run_semihosted"]

REQUESTS = 0x7400_0000  # as semihosted.ld has it
PROGRAM = ("qemu-aarch64", "-cpu", "max")
COMMAND = ("qemu-system-arm", "-M", "mps3-an547", "-display", "none", "-monitor", "none", "-serial", "none")
Raw = tuple[bytes, bytes, int]  # words, inputs, bytes of outputs
Started = tuple[list[bytes | str], str]  # what came of requests before one failed, and why it did


def run_semihosted(image: Path, requests: Sequence[Raw], timeout_s: float) -> list[bytes | str]:
    """The outputs of each request, or what went wrong; the machine is started anew after a fault."""
    return _run(_started, image, requests, timeout_s)


def run_program(image: Path, requests: Sequence[Raw], timeout_s: float) -> list[bytes | str]:
    """As ``run_semihosted``, of a program."""
    return _run(_piped, image, requests, timeout_s)


def _run(
    start: Callable[[Path, Sequence[Raw], float], Started], image: Path, requests: Sequence[Raw], timeout_s: float
) -> list[bytes | str]:
    out: list[bytes | str] = []
    while len(out) < len(requests):
        found, why = start(image, requests[len(out) :], timeout_s + len(requests) - len(out))
        out += found
        if why:
            out.append(why)
    return out


def _piped(image: Path, requests: Sequence[Raw], limit: float) -> Started:
    image.chmod(0o755)
    command = [*PROGRAM, str(image.resolve())]
    try:
        done = subprocess.run(command, input=_packed(requests), capture_output=True, timeout=limit, check=False)
        raw, why = done.stdout, f"fault: {done.stderr.decode(errors='replace')[:200]}"
    except subprocess.TimeoutExpired as err:
        raw, why = err.stdout or b"", f"no end within {limit:g} s"
    found = _unpacked(raw, requests)
    return found, why if len(found) < len(requests) else ""


def _started(image: Path, requests: Sequence[Raw], limit: float) -> Started:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "requests.bin").write_bytes(_packed(requests))
        loaded = f"loader,file=requests.bin,addr={REQUESTS:#x},force-raw=on"
        command = [*COMMAND, "-semihosting-config", "enable=on,target=native", "-device", loaded]
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
