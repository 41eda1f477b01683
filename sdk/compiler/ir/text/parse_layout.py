"""Reads layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sdk.compiler.ir.layout import Fuse, Interleave, Join, Layout, Pad, Permute, Records, Scale, Step, Tile, Widen
from sdk.compiler.ir.text.parse_types import read_dtype
from sdk.compiler.sym.tokens import Cursor
from sdk.errors import BuildError

__all__ = ["read_layout"]


def read_layout(cursor: Cursor) -> Layout:
    """Reads ``layout tile(1, 4)`` if it is here."""
    steps: list[Step] = []
    if cursor.accept("layout"):
        while not steps or cursor.text in _STEPS:
            steps.append(_read_step(cursor))
    return Layout(tuple(steps))


def _read_step(cursor: Cursor) -> Step:
    """Reads ``tile(1, 4)``."""
    at = cursor.mark
    read = _STEPS.get(cursor.text)
    if read is None:
        cursor.fail(f"expected a step of a layout, found {cursor.found()}", hint=f"one of {', '.join(_STEPS)}")
    cursor.advance()
    cursor.expect("(")
    step = read(cursor)
    cursor.expect(")")
    try:
        Layout((step,))
    except BuildError as error:
        cursor.fail(error.message, at, cursor.mark)
    return step


def _permute(cursor: Cursor) -> Permute:
    return Permute(tuple(_integers(cursor)))


def _records(cursor: Cursor) -> Records:
    axis, *fields = _integers(cursor) or [-1]
    return Records(axis, tuple(fields))


def _integers(cursor: Cursor) -> list[int]:
    found = [] if cursor.text == ")" else [cursor.integer()]
    while cursor.accept(","):
        found.append(cursor.integer())
    return found


def _join(cursor: Cursor) -> Join:
    axis, count = _pair(cursor)
    cursor.expect(",")
    return Join(axis, count, read_dtype(cursor))


def _scale(cursor: Cursor) -> Scale:
    bits = cursor.integer()
    return Scale(bits, cursor.name("the name of a parameter") if cursor.accept(",") else "")


def _pair(cursor: Cursor) -> tuple[int, int]:
    first = cursor.integer()
    cursor.expect(",")
    return first, cursor.integer()


_STEPS: Final[dict[str, Callable[[Cursor], Step]]] = {
    "permute": _permute,
    "fuse": lambda cursor: Fuse(*_pair(cursor)),
    "tile": lambda cursor: Tile(*_pair(cursor)),
    "pad": lambda cursor: Pad(*_pair(cursor)),
    "interleave": lambda cursor: Interleave(*_pair(cursor)),
    "join": _join,
    "records": _records,
    "scale": _scale,
    "widen": lambda cursor: Widen(read_dtype(cursor)),
}
