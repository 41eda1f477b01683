"""Text of a model's, a device's or a tool's making as it may be shown: nothing in it acts on what shows it."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str, keep: str = "") -> str:
    """``text`` with its escapes in the place of what is no visible character or space: controls, ESC among them, marks
    that turn the direction of writing, separators of lines, halves of characters. Those in ``keep`` stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
