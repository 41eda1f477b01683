"""The file of a model's weights: a head that tells whose they are, then each constant at a multiple of 64.

The head has 64 bytes: "SDKWGHT1", the bytes of the whole file as a little-endian u64, the SHA-256 of all that
follows the head, and zeros. Elements are little-endian.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from sdk.compiler.ir.module import Const

__all__ = ["ALIGN", "WeightsFile", "little"]

ALIGN: Final = 64
_MAGIC: Final = b"SDKWGHT1"


def little(const: Const) -> bytes:
    """The bytes of a constant as files have them; one at least."""
    return const.data.astype(const.data.dtype.newbyteorder("<"), copy=False).tobytes() or b"\0"


@dataclass(frozen=True)
class WeightsFile:
    """The file of these constants."""

    consts: tuple[Const, ...]

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where each begins."""
        found, at = [], ALIGN
        for const in self.consts:
            found.append(at)
            at += -(-max(const.data.nbytes, 1) // ALIGN) * ALIGN
        return tuple(found)

    @cached_property
    def data(self) -> bytes:
        """The whole file."""
        body = bytearray()
        for const, at in zip(self.consts, self.offsets, strict=True):
            body += bytes(at - ALIGN - len(body))
            body += little(const)
        body += bytes(-len(body) % ALIGN)
        head = _MAGIC + (ALIGN + len(body)).to_bytes(8, "little") + hashlib.sha256(body).digest()
        return bytes(head + bytes(ALIGN - len(head)) + body)

    @property
    def digest(self) -> bytes:
        """The SHA-256 that stands in its head."""
        return self.data[16:48]
