"""Damaged copies of a file: truncated, with bytes or words changed, with stretches moved."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

WORDS = (0, 1, 3, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFC)


def mutations(data: bytes, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """``count`` damaged copies with a description each; the same for the same seed."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        kind = ("cut", "bits", "bytes", "word", "offset", "move")[k % 6]
        yield f"{kind} {k}", _damage(bytearray(data), kind, rng)


def _damage(raw: bytearray, kind: str, rng: np.random.Generator) -> bytes:
    size = len(raw)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(0, size - 4))
        match kind:
            case "cut":
                return bytes(raw[:at])
            case "bits":
                raw[at] ^= 1 << int(rng.integers(0, 8))
            case "bytes":
                raw[at] = int(rng.integers(0, 256))
            case "word":
                word = WORDS[int(rng.integers(0, len(WORDS)))]
                raw[at & ~3 : (at & ~3) + 4] = word.to_bytes(4, "little")
            case "offset":
                word = (
                    int.from_bytes(raw[at & ~3 : (at & ~3) + 4], "little") + int(rng.integers(-64, 65))
                ) % 2**32
                raw[at & ~3 : (at & ~3) + 4] = word.to_bytes(4, "little")
            case _:
                length = int(rng.integers(1, 64))
                other = int(rng.integers(0, max(size - length, 1)))
                raw[at : at + length] = raw[other : other + length]
    return bytes(raw)
