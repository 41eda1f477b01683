"""The file of a model's weights: a head that tells whose they are, then each constant at a multiple of 64.

The head has 64 bytes: "SDKWGHT1", the bytes of the whole file as a little-endian u64, the SHA-256 of all that
follows the head, and zeros. Elements are little-endian.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.module import Const, Stack

__all__ = ["ALIGN", "WeightsFile", "little"]

ALIGN: Final = 64
_MAGIC: Final = b"SDKWGHT1"


def little(const: Const | Stack) -> bytes:
    """The bytes of a constant as files have them; one at least."""
    return b"".join(_parts(const)) or b"\0"


def _parts(const: Const | Stack) -> Iterator[memoryview | bytes]:
    """The bytes of a constant in pieces, zeros between the arrays of a stack."""
    for array in const.arrays:
        stored = _as_stored(array).data
        yield stored
        if isinstance(const, Stack) and stored.nbytes < const.stride:
            yield bytes(const.stride - stored.nbytes)


def _as_stored(data: NDArray[np.generic]) -> NDArray[np.uint8]:
    """The bytes of an array, in its own memory where that has their order."""
    stored = data.astype(data.dtype.newbyteorder("<"), order="C", copy=False)
    return stored.reshape(-1).view(np.uint8)


@dataclass(frozen=True)
class WeightsFile:
    """The file of these constants."""

    consts: tuple[Const | Stack, ...]

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where each begins."""
        found, at = [], ALIGN
        for const in self.consts:
            found.append(at)
            at += -(-max(const.nbytes, 1) // ALIGN) * ALIGN
        return tuple(found)

    @cached_property
    def data(self) -> bytes:
        """The whole file. It may be of gigabytes, so that constants are copied once, and straight into it."""
        body: list[memoryview | bytes] = []
        for const in self.consts:
            body += [*_parts(const), bytes(-const.nbytes % ALIGN if const.nbytes else ALIGN)]
        hasher = hashlib.sha256()
        for part in body:
            hasher.update(part)
        total = ALIGN + sum(len(part) for part in body)
        head = _MAGIC + total.to_bytes(8, "little") + hasher.digest()
        return b"".join([head.ljust(ALIGN, b"\0"), *body])

    @property
    def digest(self) -> bytes:
        """The SHA-256 that stands in its head."""
        return self.data[16:48]
