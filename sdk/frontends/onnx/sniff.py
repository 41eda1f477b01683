"""Whether bytes are an ONNX model, told from the outermost fields of the protobuf without a package that reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["FIELDS", "is_onnx"]

NUMBER, BYTES = 0, 2  # wire types
_FIXED: Final = {1: 8, 5: 4}  # the other wire types: a number of so many bytes
IR_VERSION, GRAPH = 1, 7
# The fields of a ModelProto by number. Later versions of ONNX may have more.
FIELDS: Final[Mapping[int, int]] = {
    IR_VERSION: NUMBER, 2: BYTES, 3: BYTES, 4: BYTES, 5: NUMBER, 6: BYTES, GRAPH: BYTES, 8: BYTES, 14: BYTES, 20: BYTES,
    25: BYTES, 26: BYTES,
}  # fmt: skip
VARINT_BYTES: Final = 10


def is_onnx(data: bytes) -> bool:
    """Whether ``data`` is fields of a ModelProto to its last byte, the version of the format and a graph among them."""
    seen: set[int] = set()
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        field, wire = tag >> 3, tag & 7
        if FIELDS.get(field, wire) != wire:
            return False
        if wire in _FIXED:
            at += _FIXED[wire]
        elif wire in (NUMBER, BYTES):
            number, at = _varint(data, at)
            at += number if wire == BYTES else 0
        else:
            return False
        seen.add(field)
    return at == len(data) and {IR_VERSION, GRAPH} <= seen


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at a place and the first byte behind it, which is beyond the end where the number is cut off."""
    value = 0
    for k, byte in enumerate(data[at : at + VARINT_BYTES]):
        value |= (byte & 127) << 7 * k
        if byte < 128:
            return value, at + k + 1
    return value, len(data) + 1
