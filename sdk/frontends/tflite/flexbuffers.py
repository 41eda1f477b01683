"""Options of custom operators: a map of names to numbers and texts in FlexBuffers, read without trust in an offset.

A value is read from the back: the last byte says how wide the root is, the one before it of what type. Offsets point
backwards, from where they stand, so nothing can be read twice without end.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sdk.errors import BuildError

__all__ = ["Flags", "read_flags"]

Scalar = int | float | bool | str | None
_NULL, _INT, _UINT, _FLOAT, _KEY, _STRING, _INDIRECT_INT, _INDIRECT_UINT, _INDIRECT_FLOAT, _MAP, _BOOL = (
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 26,
)  # fmt: skip
_KINDS: Final[Mapping[int, str]] = {_INT: "i", _UINT: "u", _FLOAT: "f", _BOOL: "u"}
_INDIRECT: Final[Mapping[int, int]] = {_INDIRECT_INT: _INT, _INDIRECT_UINT: _UINT, _INDIRECT_FLOAT: _FLOAT}
_CODES: Final[Mapping[tuple[str, int], str]] = {
    ("i", 1): "<b", ("i", 2): "<h", ("i", 4): "<i", ("i", 8): "<q",
    ("u", 1): "<B", ("u", 2): "<H", ("u", 4): "<I", ("u", 8): "<Q",
    ("f", 2): "<e", ("f", 4): "<f", ("f", 8): "<d",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Flags:
    """Options of a custom operator by name."""

    values: Mapping[str, Scalar]

    def has(self, name: str) -> bool:
        """Whether an option is given."""
        return self.values.get(name) is not None

    def number(self, name: str, missing: float | None = None) -> float:
        """An option that is a number.

        Raises:
            BuildError: it is none, or left out where nothing stands for it.
        """
        value = self.values.get(name)
        if value is None and missing is not None:
            return missing
        if not isinstance(value, (int, float)):
            raise BuildError(f"the option {name} is {'missing' if value is None else repr(value)}, not a number")
        return value

    def integer(self, name: str, lo: int, hi: int, missing: int | None = None) -> int:
        """An option that is an integer of ``lo..hi``.

        Raises:
            BuildError: it is none, is outside, or is left out where nothing stands for it.
        """
        value = self.number(name, missing)
        if not lo <= value <= hi or value != int(value):
            raise BuildError(f"the option {name} is {value}, it must be an integer of {lo} to {hi}")
        return int(value)


@dataclass(frozen=True, slots=True)
class _Reader:
    data: bytes

    def number(self, kind: str, at: int, width: int) -> int | float:
        code = _CODES.get((kind, width))
        if code is None or at < 0 or at + width > len(self.data):
            raise _damaged(f"a number of {width} bytes lies at byte {at} of {len(self.data)}")
        found = struct.unpack_from(code, self.data, at)[0]
        assert isinstance(found, (int, float))
        return found

    def follow(self, at: int, width: int) -> int:
        """The place that the offset at ``at`` points back to."""
        return at - int(self.number("u", at, width))

    def text(self, at: int) -> str:
        end = self.data.find(b"\0", max(at, 0))
        if at < 0 or end < 0:
            raise _damaged(f"a text at byte {at} has no end")
        return self.data[at:end].decode("utf-8", "replace")

    def scalar(self, at: int, width: int, packed: int) -> Scalar:
        """The value at ``at`` in a vector of elements of ``width`` bytes; None where there is none, or no scalar."""
        kind, inner = packed >> 2, 1 << (packed & 3)
        if kind in _INDIRECT:
            return self.number(_KINDS[_INDIRECT[kind]], self.follow(at, width), inner)
        if kind in _KINDS:
            value = self.number(_KINDS[kind], at, width)
            return bool(value) if kind == _BOOL else value
        return self.text(self.follow(at, width)) if kind in (_KEY, _STRING) else None

    def map(self, at: int, width: int) -> dict[str, Scalar]:
        count = int(self.number("u", at - width, width))
        keys, key_width = self.follow(at - 3 * width, width), int(self.number("u", at - 2 * width, width))
        types = at + count * width
        if types + count > len(self.data) or key_width not in (1, 2, 4, 8):
            raise _damaged(f"a map of {count} options lies at byte {at} of {len(self.data)}")
        if int(self.number("u", keys - key_width, key_width)) != count:
            raise _damaged(f"a map of {count} options has another number of names")
        found: dict[str, Scalar] = {}
        for k in range(count):
            name = self.text(self.follow(keys + k * key_width, key_width))
            found[name] = self.scalar(at + k * width, width, self.data[types + k])
        return found


def _damaged(why: str) -> BuildError:
    return BuildError("the options of the custom operator cannot be read", why=why)


def read_flags(data: bytes) -> Flags:
    """The scalars of a map; no options where there are no bytes. Vectors and maps inside are left out.

    Raises:
        BuildError: what is read lies outside the bytes, or they are no map.
    """
    if not data:
        return Flags({})
    if len(data) < 3:
        raise _damaged(f"they are {len(data)} bytes")
    width, packed = data[-1], data[-2]
    if packed >> 2 != _MAP or width not in (1, 2, 4, 8):
        raise _damaged("they are no map of FlexBuffers")
    reader = _Reader(data)
    return Flags(reader.map(reader.follow(len(data) - 2 - width, width), 1 << (packed & 3)))
