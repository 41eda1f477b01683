"""Names of a model file made identifiers of a module."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["identifier"]

NAME_LENGTH: Final = 40


def identifier(text: str) -> str:
    """A C identifier that resembles ``text``: the first of merged names, its last parts when long."""
    word = re.sub(r"[^0-9A-Za-z_]+", "_", text.split(";")[0]).strip("_")
    while len(word) > NAME_LENGTH and "_" in word:
        word = word.split("_", 1)[1]
    word = word[-NAME_LENGTH:].lstrip("_") or "t"
    return word if not word[0].isdigit() else f"t_{word}"
