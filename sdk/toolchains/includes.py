"""What a C unit can see: the headers that it includes, and which macros of the command line they speak of."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

__all__ = ["included", "mentioned"]

_INCLUDE: Final = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:["<]([^">\n]+)[">])?', re.MULTILINE)
_WORD: Final = re.compile(r"[A-Za-z_]\w*")


def included(name: str, text: str, headers: Mapping[str, str]) -> list[str]:
    """The names of those ``headers`` (their texts by name) that the unit ``name`` may include, directly or through
    others, in the order of ``headers``; all of them where a name comes from a macro. Conditions are taken as met."""
    found: set[str] = set()
    open_texts = [(name, text)]
    while open_texts:
        here, read = open_texts.pop()
        for match in _INCLUDE.finditer(read):
            if match[1] is None:
                return list(headers)
            beside = posixpath.normpath(posixpath.join(posixpath.dirname(here), match[1]))
            for one in {beside, posixpath.normpath(match[1])} & headers.keys() - found:
                found.add(one)
                open_texts.append((one, headers[one]))
    return [one for one in headers if one in found]


def mentioned(defines: Sequence[str], texts: Iterable[str]) -> tuple[str, ...]:
    """Those of the macros ``defines`` ("NAME" or "NAME=VALUE") whose names ``texts`` have; all of them where names are
    pasted together."""
    words: set[str] = set()
    for text in texts:
        if "##" in text:
            return tuple(defines)
        words.update(_WORD.findall(text))
    return tuple(define for define in defines if define.partition("=")[0] in words)
