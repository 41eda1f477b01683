"""Reading a TOML table field by field: typed, with units, and no key left unread."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from sdk.errors import UsageError

_AS_NEAR = 0.1  # of the likeness of words: what is this much farther is not meant
_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def suggest(name: str, known: Iterable[str]) -> str | None:
    """Return "did you mean ..." for the nearest known names, None when nothing is near."""
    names = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.5)
    ratios = [difflib.SequenceMatcher(None, near, name).ratio() for near in names]
    near = [word for word, ratio in zip(names, ratios, strict=True) if ratio > max(ratios) - _AS_NEAR]
    return f"did you mean {' or '.join(near)}?" if near else None


def parse_size(value: object, where: str) -> int:
    """Return bytes from an integer or a string such as "640K" or "0x1000"; raise UsageError if neither."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = re.fullmatch(r"(0x[0-9a-fA-F]+|\d[\d_]*)\s*([KMG]?)B?", value) if isinstance(value, str) else None
    if match is None:
        raise UsageError(
            f"not a size: {value!r}", where=where, hint='write bytes, or a string such as "640K"'
        )
    return int(match[1], 0) * _UNITS[match[2]]


class Table:
    """One TOML table with the path of keys that leads to it; ``finish`` rejects the keys nobody asked for."""

    def __init__(self, data: object, where: str) -> None:
        if not isinstance(data, Mapping):
            raise UsageError("expected a table", where=where)
        self.data: Mapping[str, Any] = data
        self.where = where
        self._asked: set[str] = set()

    def _take(self, key: str, kinds: type | tuple[type, ...], default: object, required: bool) -> Any:
        self._asked.add(key)
        if key not in self.data:
            if required:
                raise UsageError(f"missing key {key!r}", where=self.where)
            return default
        value = self.data[key]
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
            raise UsageError(
                f"key {key!r} has the wrong type", where=self.where, why=f"its value is {value!r}"
            )
        return value

    def text(self, key: str, default: str | None = None, choices: Iterable[str] = ()) -> str:
        """Read a string; without a default it is required; ``choices``, where given, limits it."""
        value: str = self._take(key, str, default, default is None)
        allowed = tuple(choices)
        if allowed and value not in allowed:
            raise UsageError(
                f"key {key!r} has an unknown value {value!r}",
                where=self.where,
                hint=suggest(value, allowed) or f"one of {', '.join(allowed)}",
            )
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        """Read an integer; without a default it is required."""
        value: int = self._take(key, int, default, default is None)
        return value

    def size(self, key: str, default: int | None = None) -> int:
        """Read a byte count; without a default it is required."""
        value = self._take(key, (int, str), default, default is None)
        return parse_size(value, f"{self.where}.{key}")

    def strings(self, key: str) -> tuple[str, ...]:
        """Read a list of strings, empty when absent."""
        values = self._take(key, list, [], False)
        if not all(isinstance(value, str) for value in values):
            raise UsageError(f"key {key!r} must list strings", where=self.where)
        return tuple(values)

    def table(self, key: str) -> Table | None:
        """Read a sub-table, None when absent."""
        value = self._take(key, dict, None, False)
        return None if value is None else Table(value, f"{self.where}.{key}")

    def need(self, key: str) -> Table:
        """Read a sub-table that must be there."""
        found = self.table(key)
        if found is None:
            raise UsageError(f"missing table [{key}]", where=self.where)
        return found

    def tables(self, key: str) -> list[Table]:
        """Read an array of tables, empty when absent."""
        values = self._take(key, list, [], False)
        return [Table(value, f"{self.where}.{key}[{index}]") for index, value in enumerate(values)]

    def items(self) -> Iterable[tuple[str, Any]]:
        """All keys and values, for a table whose keys are names chosen by the author."""
        self._asked.update(self.data)
        return self.data.items()

    def finish(self) -> None:
        """Raise UsageError for the first key that was never read."""
        for key in self.data:
            if key not in self._asked:
                hint = suggest(key, self._asked) or f"known keys: {', '.join(sorted(self._asked))}"
                raise UsageError(f"unknown key {key!r}", where=self.where, hint=hint)
