"""Reading a TOML table as a record: typed, with units, and no key left unread."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec

from sdk.boards.base import Size, Table
from sdk.errors import UsageError

T = TypeVar("T", bound=Table)
_AS_NEAR = 0.1  # of the likeness of words: what is this much farther is not meant
_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
SIZE = re.compile(r"(0x[0-9a-fA-F]+|\d[\d_]*)\s*([KMG]?)B?")


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
    match = SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise UsageError(f"not a size: {value!r}", where=where, hint='write bytes, or a string such as "640K"')
    return int(match[1], 0) * _UNITS[match[2]]


def read_table(kind: type[T], data: Mapping[str, Any], where: str) -> T:
    """Return ``data`` as a record; raise UsageError naming file, key and what may stand there if it is none."""
    try:
        return msgspec.convert(data, kind, dec_hook=_size)
    except msgspec.ValidationError as error:
        raise _mistake(error, kind, data, where) from None


def _size(kind: type, value: object) -> Size:
    assert kind is Size  # no other type of ours is in a table
    try:
        return Size(parse_size(value, ""))
    except UsageError as error:
        raise ValueError(f"{error.message}\n{error.hint}") from None


def _mistake(error: msgspec.ValidationError, kind: type, data: object, where: str) -> UsageError:
    """What to tell people: msgspec says what is wrong and where, and here is added what may stand there."""
    what, _, path = str(error).removesuffix("`").partition(" - at `$")
    path, kind, value = _follow(path, kind, data)
    table, _, key = path.rpartition(".")
    quoted = what.split("`")[1] if "`" in what else ""
    if what.startswith("Object contains unknown field"):
        known = _fields(kind)
        hint = suggest(quoted, known) or f"known keys: {', '.join(sorted(known))}"
        return UsageError(f"unknown key {quoted!r}", where=where + path, hint=hint)
    if what.startswith("Object missing required field"):
        return UsageError(f"missing key {quoted!r}", where=where + path)
    if what.startswith("Invalid enum value"):
        allowed = _allowed(kind)
        hint = suggest(str(value), allowed) or f"one of {', '.join(sorted(allowed))}"
        return UsageError(f"key {key!r} has an unknown value {value!r}", where=where + table, hint=hint)
    if what.startswith("Expected"):
        why = f"{what.replace('object', 'table').replace(' | null', '')}; its value is {value!r}"
        return UsageError(f"key {key!r} has the wrong type", where=where + table, why=why)
    message, _, hint = what.partition("\n")  # by a record or a size itself
    return UsageError(message, where=where + path, hint=hint)


def _follow(path: str, kind: Any, value: Any) -> tuple[str, Any, Any]:
    """What stands at a path such as ``.core[0].name``, and of which type it must be; of a table whose keys may be any,
    which msgspec writes as ``[...]``, the first entry that is wrong."""
    for step, name, index in re.findall(r"(\.(\w+)|\[(\d+|\.\.\.)\])", path):
        if name:
            kind, value = _fields(kind)[name], value[name]
        elif index == "...":
            name = next(n for n in value if _is_wrong(value[n], get_args(kind)[1]))
            path, kind, value = path.replace(step, f".{name}", 1), get_args(kind)[1], value[name]
        else:
            value = value[int(index)]
    return path, kind, value


def _is_wrong(value: object, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind, dec_hook=_size)
    except msgspec.ValidationError:
        return True
    return False


def _fields(kind: Any) -> dict[str, Any]:
    """The keys of the table that a type has or is, with the types of their values."""
    found = next(one for one in (kind, *get_args(kind)) if isinstance(one, type) and issubclass(one, Table))
    return {field.encode_name: field.type for field in msgspec.structs.fields(found)}


def _allowed(kind: Any) -> list[str]:
    """The values of a closed set, or of a list of such."""
    if get_origin(kind) is Literal:
        return [str(value) for value in get_args(kind)]
    return [value for part in get_args(kind) for value in _allowed(part)]
