"""Tensors of checkpoints in their own bits: formats, read as floats, cut and permuted by rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["FORMATS", "NO_TYPE", "Format", "Weight"]

Bytes = NDArray[np.uint8]
NO_TYPE: Final = -1  # of a format that GGUF files have not
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Format:
    """How numbers are stored: ``count`` of them in ``bytes``, which ``read`` makes floats of: blocks [n, bytes] to
    [n, count]. ``type`` is the number of the format in GGUF files."""

    name: str
    type: int
    count: int
    bytes: int
    read: Callable[[Bytes], Floats] = field(repr=False)


@dataclass(frozen=True)
class Weight:
    """A tensor in a checkpoint: ``data`` is [rows, bytes of a row], a row being all but the last axis' numbers."""

    name: str
    format: Format
    shape: tuple[int, ...]
    data: Bytes = field(repr=False)

    @classmethod
    def of(cls, name: str, format: Format, shape: tuple[int, ...], data: Bytes) -> Weight:
        """The tensor in ``data``, as many bytes as it has."""
        rows, width = math.prod(shape[:-1]), shape[-1] if shape else 1
        return cls(name, format, shape, data.reshape(rows, width // format.count * format.bytes))

    @classmethod
    def from_floats(cls, name: str, values: NDArray[np.float32]) -> Weight:
        """A tensor of f32."""
        stored = np.ascontiguousarray(values, dtype="<f4")
        return cls.of(name, FORMATS["F32"], values.shape, stored.view(np.uint8).reshape(-1))

    @property
    def numbers(self) -> int:
        """How many it has."""
        return math.prod(self.shape)

    @property
    def is_float(self) -> bool:
        """Whether each number is stored by itself."""
        return self.format.count == 1

    def floats(self) -> Floats:
        """Its numbers as f32."""
        blocks = self.data.reshape(-1, self.format.bytes)
        return self.format.read(blocks).reshape(self.shape)

    def rows(self, chosen: NDArray[np.intp] | slice) -> Weight:
        """The tensor of some rows, in an order of the caller's; bits stay as they are. For two axes or one."""
        if len(self.shape) == 1:
            taken = self.data.reshape(self.shape[0], -1)[chosen].reshape(1, -1)
            return replace(self, shape=(taken.shape[1] // self.format.bytes,), data=taken)
        taken = self.data[chosen]
        return replace(self, shape=(len(taken), *self.shape[1:]), data=taken)

    def renamed(self, name: str) -> Weight:
        """The same under another name."""
        return replace(self, name=name)

    def mapped(self, change: Callable[[Floats], Floats]) -> Weight:
        """The tensor of f32 that ``change`` makes of its numbers."""
        return Weight.from_floats(self.name, change(self.floats()))


def _half(blocks: Bytes, at: int) -> Floats:
    """The f16 at a place of each block, [n, 1]."""
    return blocks[:, at : at + 2].copy().view("<f2").astype(np.float32)


def _f32(blocks: Bytes) -> Floats:
    return np.ascontiguousarray(blocks).view("<f4").astype(np.float32, copy=False)


def _f16(blocks: Bytes) -> Floats:
    return np.ascontiguousarray(blocks).view("<f2").astype(np.float32)


def _bf16(blocks: Bytes) -> Floats:
    wide = np.ascontiguousarray(blocks).view("<u2").astype(np.uint32) << np.uint32(16)
    return np.asarray(wide).view(np.float32)


def _nibbles(packed: Bytes) -> NDArray[np.uint8]:
    """[n, 16] as [n, 32]: the low halves, then the high ones."""
    return np.concatenate((packed & np.uint8(15), packed >> np.uint8(4)), axis=1)


def _fifth_bits(blocks: Bytes, at: int) -> NDArray[np.uint8]:
    """The fifth bits of 32 numbers, [n, 32] of 0 or 16."""
    bits = np.unpackbits(blocks[:, at : at + 4], axis=1, bitorder="little")
    return bits << np.uint8(4)


def _q4_0(blocks: Bytes) -> Floats:
    return _half(blocks, 0) * (_nibbles(blocks[:, 2:]).astype(np.int8) - np.int8(8)).astype(np.float32)


def _q4_1(blocks: Bytes) -> Floats:
    return _half(blocks, 0) * _nibbles(blocks[:, 4:]).astype(np.float32) + _half(blocks, 2)


def _q4_z(blocks: Bytes) -> Floats:
    zeros = blocks[:, 2:3].astype(np.int16)
    return _half(blocks, 0) * (_nibbles(blocks[:, 4:]).astype(np.int16) - zeros).astype(np.float32)


def _q5_0(blocks: Bytes) -> Floats:
    numbers = _nibbles(blocks[:, 6:]) | _fifth_bits(blocks, 2)
    return _half(blocks, 0) * (numbers.astype(np.int8) - np.int8(16)).astype(np.float32)


def _q5_1(blocks: Bytes) -> Floats:
    numbers = _nibbles(blocks[:, 8:]) | _fifth_bits(blocks, 4)
    return _half(blocks, 0) * numbers.astype(np.float32) + _half(blocks, 2)


def _in_bytes(blocks: Bytes, at: int) -> NDArray[np.uint8]:
    """The fifth bits of 32 numbers, [n, 32] of 0 or 16, that of number 4 * k + i being bit k of byte i."""
    bits = np.unpackbits(blocks[:, at : at + 4], axis=1, bitorder="little").reshape(-1, 4, 8)
    return bits.transpose(0, 2, 1).reshape(-1, 32) << np.uint8(4)


def _q5_0t(blocks: Bytes) -> Floats:
    numbers = _nibbles(blocks[:, 6:]) | _in_bytes(blocks, 2)
    return _half(blocks, 0) * (numbers.astype(np.int8) - np.int8(16)).astype(np.float32)


def _q5_1t(blocks: Bytes) -> Floats:
    numbers = _nibbles(blocks[:, 8:]) | _in_bytes(blocks, 4)
    return _half(blocks, 0) * numbers.astype(np.float32) + _half(blocks, 2)


def _q8_0(blocks: Bytes) -> Floats:
    return _half(blocks, 0) * blocks[:, 2:].view(np.int8).astype(np.float32)


def _sub_scales(packed: Bytes) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Scales and minima of eight groups, [n, 8] each, of 6 bits out of twelve bytes: the upper two bits of the first
    eight bytes belong to the last four groups."""
    low, mid, high = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    six, four = np.uint8(63), np.uint8(15)
    scales = np.concatenate((low & six, (high & four) | ((low >> np.uint8(6)) << np.uint8(4))), axis=1)
    minima = np.concatenate((mid & six, (high >> np.uint8(4)) | ((mid >> np.uint8(6)) << np.uint8(4))), axis=1)
    return scales, minima


def _grouped(blocks: Bytes, numbers: NDArray[np.uint8]) -> Floats:
    """Numbers [n, 8, 32] of a block of eight groups with scales and minima."""
    scales, minima = _sub_scales(blocks[:, 4:16])
    scale = (_half(blocks, 0) * scales.astype(np.float32))[:, :, None]
    minimum = (_half(blocks, 2) * minima.astype(np.float32))[:, :, None]
    return (scale * numbers.astype(np.float32) - minimum).reshape(-1, 256)


def _pairs(packed: Bytes) -> NDArray[np.uint8]:
    """[n, 128] as [n, 8, 32]: of each 32 bytes the low halves, then the high ones."""
    four = packed.reshape(-1, 4, 1, 32)
    return np.concatenate((four & np.uint8(15), four >> np.uint8(4)), axis=2).reshape(-1, 8, 32)


def _q4_k(blocks: Bytes) -> Floats:
    return _grouped(blocks, _pairs(blocks[:, 16:]))


def _q5_k(blocks: Bytes) -> Floats:
    shifts = np.arange(8, dtype=np.uint8).reshape(1, 8, 1)
    fifth = ((blocks[:, None, 16:48] >> shifts) & np.uint8(1)) << np.uint8(4)
    return _grouped(blocks, _pairs(blocks[:, 48:]) | fifth)


def _q6_k(blocks: Bytes) -> Floats:
    low = blocks[:, :128].reshape(-1, 2, 1, 64)
    four = np.concatenate((low & np.uint8(15), low >> np.uint8(4)), axis=2).reshape(-1, 2, 4, 32)
    shifts = np.array([0, 2, 4, 6], dtype=np.uint8).reshape(1, 1, 4, 1)
    high = ((blocks[:, 128:192].reshape(-1, 2, 1, 32) >> shifts) & np.uint8(3)) << np.uint8(4)
    numbers = (four | high).astype(np.int8) - np.int8(32)
    scales = _half(blocks, 208) * blocks[:, 192:208].view(np.int8).astype(np.float32)
    floats: Floats = scales[:, :, None] * numbers.reshape(-1, 16, 16).astype(np.float32)
    return floats.reshape(-1, 256)


_TABLE: Final[tuple[tuple[str, int, int, int, Any], ...]] = (
    ("F32", 0, 1, 4, _f32), ("F16", 1, 1, 2, _f16), ("BF16", 30, 1, 2, _bf16),
    ("Q4_0", 2, 32, 18, _q4_0), ("Q4_1", 3, 32, 20, _q4_1), ("Q5_0", 6, 32, 22, _q5_0), ("Q5_1", 7, 32, 24, _q5_1),
    ("Q8_0", 8, 32, 34, _q8_0),
    ("Q4_Z", NO_TYPE, 32, 20, _q4_z), ("Q5_0T", NO_TYPE, 32, 22, _q5_0t), ("Q5_1T", NO_TYPE, 32, 24, _q5_1t),
    ("Q4_K", 12, 256, 144, _q4_k), ("Q5_K", 13, 256, 176, _q5_k), ("Q6_K", 14, 256, 210, _q6_k),
)  # fmt: skip
FORMATS: Final[Mapping[str, Format]] = {row[0]: Format(*row) for row in _TABLE}
