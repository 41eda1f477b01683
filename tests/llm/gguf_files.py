"""GGUF files written for tests, and numbers of their blocks computed one by one."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.llm.weights import FORMATS

KINDS = {bool: (7, "?"), int: (4, "I"), float: (6, "f")}


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value_of(value: Any) -> bytes:
    """Kind and bytes of a value of metadata."""
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if isinstance(value, list):
        parts = [value_of(v) for v in value]
        return struct.pack("<I", 9) + parts[0][:4] + struct.pack("<Q", len(parts)) + b"".join(p[4:] for p in parts)
    kind, code = KINDS[type(value)]
    return struct.pack("<I" + code, kind, value)


def gguf(metadata: Mapping[str, Any], tensors: Mapping[str, tuple[str, tuple[int, ...], bytes]]) -> bytes:
    """A file of version 3: tensors by name as format, shape (outermost first) and bytes."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(text(key) + value_of(value) for key, value in metadata.items())
    body = b""
    for name, (format, shape, data) in tensors.items():
        head += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape[::-1])
        head += struct.pack("<IQ", FORMATS[format].type, len(body))
        body += data + bytes(-len(data) % 32)
    return head + bytes(-len(head) % 32) + body


def floats(values: NDArray[np.float32]) -> tuple[str, tuple[int, ...], bytes]:
    return "F32", values.shape, values.astype("<f4").tobytes()


def f16(data: bytes) -> np.float32:
    return np.float32(np.frombuffer(data, "<f2")[0])


def sub_scale(packed: bytes, k: int) -> tuple[int, int]:
    """Scale and minimum of group k of eight, of 6 bits each."""
    if k < 4:
        return packed[k] & 63, packed[k + 4] & 63
    return packed[k + 4] % 16 + (packed[k - 4] // 64) * 16, packed[k + 4] // 16 + (packed[k] // 64) * 16


def number(format: str, block: bytes, k: int) -> np.float32:
    """Number k of a block, from its bits alone, in f32."""
    one = np.float32
    if format == "Q8_0":
        return f16(block[:2]) * one(np.int8(np.uint8(block[2 + k])))
    if format in ("Q4_0", "Q4_1", "Q5_0", "Q5_1"):
        scaled, five = format.endswith("1"), format.startswith("Q5")
        bits = block[4 if scaled else 2 :]
        high = int.from_bytes(bits[:4], "little") >> k & 1 if five else 0
        nibble = bits[(4 if five else 0) + k % 16] >> (4 if k >= 16 else 0) & 15
        whole = nibble + 16 * high
        return (
            f16(block[:2]) * one(whole) + f16(block[2:4])
            if scaled
            else f16(block[:2]) * one(whole - (16 if five else 8))
        )
    if format == "Q6_K":
        half, at = divmod(k, 128)
        part, lane = divmod(at, 32)
        low = block[64 * half + 32 * (part % 2) + lane] >> (4 if part >= 2 else 0) & 15
        high = block[128 + 32 * half + lane] >> (2 * part) & 3
        scale = f16(block[208:]) * one(np.int8(np.uint8(block[192 + k // 16])))
        return scale * one(low + 16 * high - 32)
    group, lane = divmod(k, 32)
    scale, minimum = sub_scale(block[4:16], group)
    start = 48 if format == "Q5_K" else 16
    whole = block[start + 32 * (group // 2) + lane] >> (4 * (group % 2)) & 15
    whole += 16 * (block[16 + lane] >> group & 1) if format == "Q5_K" else 0
    return f16(block[:2]) * one(scale) * one(whole) - f16(block[2:4]) * one(minimum)
