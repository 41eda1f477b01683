"""GGUF files: metadata and tensors out of bytes that nobody vouches for; every length is checked before it is used."""

from __future__ import annotations

import math
import mmap
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.errors import UsageError
from sdk.files import open_regular, size_of
from sdk.llm.weights import FORMATS, NO_TYPE, Weight

__all__ = ["GgufFile", "map_file", "open_gguf", "read_gguf"]

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_MAX: Final = 1 << 20  # of tensors, and of keys of metadata
_NESTED: Final = 4
_NAME: Final = 1 << 16  # bytes of a name
_DIMS: Final = 4
_ALIGNMENT: Final = 32
_STRING, _ARRAY, _BOOL = 8, 9, 7
_NUMBERS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", _BOOL: "?", 10: "Q", 11: "q", 12: "d"}
# What is not read, by name: of these are files that people have.
_OTHERS: Final = {
    9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
    20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64",
    29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip
_BY_TYPE: Final = {f.type: f for f in FORMATS.values() if f.type != NO_TYPE}
_HINT: Final = "fetch the file again, or make it with llama.cpp's convert_hf_to_gguf.py"


@dataclass(frozen=True)
class GgufFile:
    """A file as read: ``metadata`` by key, numbers, texts, booleans and lists of them; ``tensors`` by name."""

    metadata: Mapping[str, Any]
    tensors: Mapping[str, Weight] = field(repr=False)


class _Damaged(Exception):
    """What is wrong with the bytes."""


class _Reader:
    """Bytes read from the front."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> memoryview:
        if count > len(self.data) - self.at:
            raise _Damaged(f"it ends at byte {len(self.data)}, within what begins at {self.at}")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, code: str) -> Any:
        (value,) = struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))
        return value

    def text(self, maximum: int) -> str:
        length = self.number("Q")
        if length > maximum:
            raise _Damaged(f"a text of {length} bytes at byte {self.at}")
        return bytes(self.take(length)).decode("utf-8", "surrogateescape")

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _STRING:
            return self.text(len(self.data))
        if kind != _ARRAY or depth == _NESTED:
            raise _Damaged(f"a value of kind {kind} at byte {self.at}")
        inner, count = self.number("I"), self.number("Q")
        if inner in _NUMBERS:
            code = _NUMBERS[inner]
            size = struct.calcsize("<" + code)
            return list(struct.unpack(f"<{count}{code}", self.take(count * size)))
        minimum = 8 if inner == _STRING else 12
        if count > (len(self.data) - self.at) // minimum:
            raise _Damaged(f"a list of {count} values at byte {self.at}")
        return [self.value(inner, depth + 1) for _ in range(count)]


def map_file(path: Path, option: str = "the path") -> memoryview:
    """The bytes of a regular file, mapped, so that only what is looked at is read.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        file = open_regular(path)
        try:
            size = size_of(file)
            return memoryview(mmap.mmap(file, size, access=mmap.ACCESS_READ)) if size else memoryview(b"")
        finally:
            os.close(file)
    except OSError as err:
        raise UsageError(f"cannot read {path}", why=err.strerror or str(err), hint=f"check {option}") from None


def open_gguf(path: Path) -> GgufFile:
    """The file at ``path``, mapped.

    Raises:
        UsageError: it cannot be read, is damaged or truncated, or has tensors of a format that is not supported.
    """
    return read_gguf(map_file(path), str(path))


def read_gguf(data: memoryview, name: str) -> GgufFile:
    """The file in ``data``, which is called ``name`` in errors; tensors are views of it.

    Raises:
        UsageError: it is damaged or truncated, or has tensors of a format that is not supported.
    """
    try:
        return _read(_Reader(data))
    except _Damaged as error:
        raise UsageError(f"{name} is no whole GGUF file", why=str(error), hint=_HINT) from None
    except UsageError as error:
        error.where = error.where or name
        raise


def _read(reader: _Reader) -> GgufFile:
    if bytes(reader.take(4)) != _MAGIC:
        raise _Damaged("it does not begin with GGUF")
    version = reader.number("I")
    if version not in _VERSIONS:
        raise _Damaged(f"it is of version {version}; 2 and 3 are known, little-endian")
    tensors, keys = reader.number("Q"), reader.number("Q")
    if max(tensors, keys) > _MAX:
        raise _Damaged(f"it says that it has {tensors} tensors and {keys} keys")
    metadata: dict[str, Any] = {}
    for _ in range(keys):
        key = reader.text(_NAME)
        if key in metadata:
            raise _Damaged(f"the key {key[:80]!r} stands there twice")
        metadata[key] = reader.value(reader.number("I"))
    rows = [_tensor_row(reader) for _ in range(tensors)]
    align = metadata.get("general.alignment", _ALIGNMENT)
    if not isinstance(align, int) or isinstance(align, bool) or not 1 <= align <= 1 << 20:
        raise _Damaged(f"it aligns tensors to {align!r}")
    body = np.frombuffer(reader.data, np.uint8)[-(-reader.at // align) * align :]
    found: dict[str, Weight] = {}
    for row in rows:
        weight = _tensor(body, *row)
        if weight.name in found:
            raise _Damaged(f"the tensor {weight.name[:80]!r} stands there twice")
        found[weight.name] = weight
    return GgufFile(metadata, found)


def _tensor_row(reader: _Reader) -> tuple[str, tuple[int, ...], int, int]:
    name, rank = reader.text(_NAME), reader.number("I")
    if rank > _DIMS:
        raise _Damaged(f"the tensor {name[:80]!r} has {rank} axes")
    dims = tuple(reader.number("Q") for _ in range(rank))
    return name, dims[::-1], reader.number("I"), reader.number("Q")  # the innermost axis comes first there


def _tensor(body: NDArray[np.uint8], name: str, shape: tuple[int, ...], type: int, offset: int) -> Weight:
    if type not in _BY_TYPE:
        read = ", ".join(f.name for f in _BY_TYPE.values() if f.count > 1)
        raise UsageError(
            f"the tensor {name[:80]!r} is of GGUF type {_OTHERS.get(type, type)}, which is not supported",
            why=f"weights are read as F32, F16, BF16, {read}",
            hint="fetch the model in one of these, or make it of its F16 file with llama.cpp's llama-quantize",
        )
    format = _BY_TYPE[type]
    if not shape or any(not 1 <= n <= len(body) * format.count for n in shape) or shape[-1] % format.count:
        raise _Damaged(f"the tensor {name[:80]!r} is {format.name}{list(shape)}")
    size = math.prod(shape) // format.count * format.bytes
    if offset > len(body) or size > len(body) - offset:
        raise _Damaged(f"the tensor {name[:80]!r} ends after the file: it was cut off")
    return Weight.of(name, format, shape, body[offset : offset + size])
