"""The tokens of a vocabulary in the order of their texts: what a device walks through to find those that may come."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sdk.llm.grammar.nodes import ANY, Ranges
from sdk.llm.text.table import shown_texts

__all__ = ["Words", "words_of"]

MAGIC: Final = 0x44575353
VERSION: Final = 1
_LONGEST: Final = 255
_STRIP_ALL: Final = 0xFF


@dataclass(frozen=True)
class Words:
    """A vocabulary as c_runtime/llm/sdk_grammar.h reads it. ``characters`` are those that its tokens can write, each by
    tokens of whole characters or by one for each byte; ``mark`` tells vocabularies apart."""

    table: bytes
    characters: Ranges
    mark: int


def words_of(tokenizer: Any, vocabulary: int) -> Words:
    """The words of a ``tokenizers.Tokenizer`` for a model of so many tokens.

    Raises:
        BuildError: the tokenizer decodes in a way that a device cannot.
    """
    texts, strip = shown_texts(tokenizer)
    return words_of_texts(texts[:vocabulary], vocabulary, _STRIP_ALL if strip is None else min(strip, _STRIP_ALL - 1))


def words_of_texts(texts: Sequence[bytes], vocabulary: int, strip: int = 0) -> Words:
    """The words of tokens that add these bytes, where decoding takes ``strip`` spaces from the begin of a text."""
    rows = sorted((text, at) for at, text in enumerate(texts) if 0 < len(text) <= _LONGEST)
    singles = {text for text, _ in rows if len(text) == 1}
    high = {bytes([byte]) for byte in (*range(0x80, 0xC0), *range(0xC2, 0xF5))}
    if not high <= singles:  # a part of a character might have no other part that ends it
        rows = [row for row in rows if _is_whole(row[0])]
    characters = _characters({text for text, _ in rows}, high <= singles)
    shared = [0] * len(rows)
    for k in range(1, len(rows)):
        shared[k] = _shared(rows[k - 1][0], rows[k][0])
    suffixes = [text[n:] for (text, _), n in zip(rows, shared, strict=True)]
    body = b"".join((
        np.array([at for _, at in rows], dtype="<u4").tobytes(),
        np.cumsum([0, *map(len, suffixes)]).astype("<u4").tobytes(),
        np.array(shared + [0] * (len(rows) % 2), dtype="<u2").tobytes(),
    ))  # fmt: skip
    pool = b"".join(suffixes)
    mark = zlib.crc32(body + pool, strip)
    data = body + pool + bytes(-len(pool) % 4)
    head = struct.pack("<8I", MAGIC, VERSION, 32 + len(data), len(rows), vocabulary, strip, mark, len(pool))
    return Words(head + data, characters, mark)


def _shared(one: bytes, other: bytes) -> int:
    """How many bytes two texts begin with alike."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _is_whole(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _characters(texts: set[bytes], every_byte: bool) -> Ranges:
    """The characters that can be written."""
    codes = sorted(
        ord(text.decode()) for text in texts if len(text) <= 4 and _is_whole(text) and len(text.decode()) == 1
    )
    found: list[tuple[int, int]] = []
    for code in codes:
        if every_byte and code > 0x7F:
            break
        if found and found[-1][1] == code - 1:
            found[-1] = (found[-1][0], code)
        else:
            found.append((code, code))
    if every_byte:
        found += [(max(low, 0x80), high) for low, high in ANY.ranges]
    return tuple(found)
