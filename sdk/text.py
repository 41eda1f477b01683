"""Text of a model's, a device's or a tool's making as it may be shown, where nothing in it acts on what shows it, and
sent, where a name may be too long."""

from __future__ import annotations

import hashlib
from typing import Final

__all__ = ["printable", "wire_name"]

_WIRE_BYTES: Final = 64  # SDK_RT_MAX_TEXT: what an agent tells of a name


def printable(text: str, keep: str = "") -> str:
    """``text`` with its escapes in the place of what is no visible character or space: controls, ESC among them, marks
    that turn the direction of writing, separators of lines, halves of characters. Those in ``keep`` stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escape(c) for c in text)


def wire_name(name: str) -> str:
    """``name`` as an agent tells it: a long one is cut, and ends in a digest that tells it from others so cut."""
    if len(name.encode("utf-8", "replace")) <= _WIRE_BYTES:
        return name
    tail = f"~{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"
    return name.encode("ascii", "replace").decode("ascii")[: _WIRE_BYTES - len(tail)] + tail


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
