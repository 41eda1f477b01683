"""Patterns that split a text, from regular expressions to programs that run without a way back (see tok_parts.h).

A subset of what Oniguruma reads: characters and classes of them, alternatives, groups, repetition of single characters
without limit and of groups up to eight times, possessive or not, ``(?i:...)``, and looking ahead by one character.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from sdk.llm.text.characters import CODES, CharSet, case_variants, class_members
from sdk.llm.text.errors import refusal

__all__ = ["Sets", "compile_pattern", "literal_program"]

MATCH, SET, LOOP, TAKE, TRY, JUMP, IF, UNLESS = range(8)
OPERAND: Final = 0xFFFFFF
_MAX_SETS: Final = 32
_MAX_COPIES: Final = 8
_MAX_LOOP: Final = 255
_MAX_WORDS: Final = 10_000
_MAX_DEPTH: Final = 30
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "e": "\x1b", "a": "\a"}
_QUANTIFIER: Final = re.compile(r"([?*+])([+?]?)|\{(\d*)(,?)(\d*)\}([+?*]?)")
# Pairs of letters that one character may stand for where case does not count.
_LIGATURES: Final = ("ss", "st", "ff", "fi", "fl")


def _key(members: CharSet) -> bytes:
    return hashlib.sha256(members.tobytes()).digest()


class Sets:
    """The sets of characters of one table, each a bit; the first is white space."""

    def __init__(self) -> None:
        self._sets: list[CharSet] = [class_members(r"\s")]
        self._index: dict[bytes, int] = {_key(self._sets[0]): 0}

    def add(self, members: CharSet, where: str, key: bytes | None = None) -> int:
        """The number of a set; ``key`` is its ``_key`` where that is known.

        Raises:
            BuildError: there are more sets than bits.
        """
        key = key or _key(members)
        if key not in self._index:
            if len(self._sets) == _MAX_SETS:
                raise refusal(f"more than {_MAX_SETS} classes of characters", where=where)
            self._index[key] = len(self._sets)
            self._sets.append(members)
        return self._index[key]

    def tables(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pages (uint16, one for 128 characters), the classes of the characters of each page (uint8), and the sets that
        each class is in (uint32)."""
        masks = np.zeros(CODES, dtype=np.uint32)
        for bit, members in enumerate(self._sets):
            masks |= members.astype(np.uint32) << np.uint32(bit)
        sets, classes = np.unique(masks, return_inverse=True)
        if len(sets) > 256:
            raise refusal(f"classes of characters that cut them into {len(sets)} kinds", where="pre_tokenizer")
        rows: dict[bytes, int] = {}
        pages = [rows.setdefault(row.tobytes(), len(rows)) for row in classes.astype(np.uint8).reshape(-1, 128)]
        return np.array(pages, dtype=np.uint16), np.frombuffer(b"".join(rows), dtype=np.uint8), sets


@dataclass(frozen=True, eq=False)
class _Chars:
    members: CharSet
    key: bytes

    @staticmethod
    def of(members: CharSet) -> _Chars:
        return _Chars(members, _key(members))


@dataclass(frozen=True)
class _Ahead:
    chars: _Chars
    there: bool


@dataclass(frozen=True)
class _Run:
    parts: tuple[_Node, ...]


@dataclass(frozen=True)
class _Either:
    parts: tuple[_Node, ...]


@dataclass(frozen=True)
class _Repeat:
    part: _Node
    minimum: int
    maximum: int | None
    possessive: bool


_Node = _Chars | _Ahead | _Run | _Either | _Repeat


def compile_pattern(pattern: str, sets: Sets, where: str, start: int = 0) -> list[int]:
    """The program of a regular expression; it will stand at ``start``.

    Raises:
        BuildError: it has what programs cannot do, or matches nothing at all.
    """
    node = _Parser(pattern, where).whole()
    if _shortest(node) == 0:
        raise refusal(f"the pattern {pattern!r}", where=where, why="it matches the empty text")
    code = _Emitter(sets, where, start).program(node)
    if len(code) > _MAX_WORDS:
        raise refusal(f"a pattern of {len(pattern)} signs", where=where, why="its program is too long")
    return code


def literal_program(text: str, sets: Sets, where: str, start: int = 0) -> list[int]:
    """The program of a text that stands for itself."""
    node = _Run(tuple(_literal(char) for char in text))
    return _Emitter(sets, where, start).program(node)


def _literal(char: str) -> _Chars:
    members = np.zeros(CODES, dtype=bool)
    members[ord(char)] = True
    return _Chars.of(members)


def _shortest(node: _Node) -> int:
    match node:
        case _Chars():
            return 1
        case _Ahead():
            return 0
        case _Run(parts):
            return sum(map(_shortest, parts))
        case _Either(parts):
            return min(map(_shortest, parts))
        case _Repeat(part, minimum):
            return minimum * _shortest(part)


def _as_chars(node: _Node) -> _Chars | None:
    """A node that is one character of a set, however it is written."""
    match node:
        case _Chars():
            return node
        case _Run((part,)):
            return _as_chars(part)
        case _Either(parts):
            found = [_as_chars(part) for part in parts]
            arrays = [chars.members for chars in found if chars is not None]
            return _Chars.of(np.logical_or.reduce(arrays)) if len(arrays) == len(parts) else None
        case _:
            return None


class _Parser:
    def __init__(self, pattern: str, where: str) -> None:
        self.text, self.at, self.where = pattern, 0, where
        self.fold = False  # case does not count
        self.depth = 0

    def refuse(self, what: str, why: str | None = None) -> Exception:
        return refusal(f"{what} at {self.at + 1} of the pattern {self.text!r}", where=self.where, why=why)

    def whole(self) -> _Node:
        node = self.either()
        if self.at < len(self.text):
            raise self.refuse("a ) too many")
        return node

    def either(self) -> _Node:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.refuse(f"more than {_MAX_DEPTH} groups inside one another")
        parts = [self.run()]
        while self.peek("|"):
            self.at += 1
            parts.append(self.run())
        self.depth -= 1
        return parts[0] if len(parts) == 1 else _Either(tuple(parts))

    def peek(self, begin: str) -> bool:
        return self.text.startswith(begin, self.at)

    def run(self) -> _Node:
        parts: list[_Node] = []
        begin = self.at
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            parts.append(self.quantified(self.atom()))
        if self.fold and any(pair in self.text[begin : self.at].lower() for pair in _LIGATURES):
            raise self.refuse("letters that a ligature matches where case does not count")
        return parts[0] if len(parts) == 1 else _Run(tuple(parts))

    def quantified(self, node: _Node) -> _Node:
        found = _QUANTIFIER.match(self.text, self.at)
        if not found or (found[1] is None and not (found[3] or found[5])):
            return node
        if found[2] == "?" or found[6]:
            raise self.refuse(f"the quantifier {found[0]}")
        if isinstance(node, _Ahead):
            raise self.refuse("a quantifier of a look ahead")
        self.at = found.end()
        if found[1]:
            minimum, maximum = {"?": (0, 1), "*": (0, None), "+": (1, None)}[found[1]]
        else:
            minimum = int(found[3] or 0)
            maximum = (int(found[5]) if found[5] else None) if found[4] else minimum
        if _QUANTIFIER.match(self.text, self.at):
            raise self.refuse("two quantifiers in a row")
        if minimum > _MAX_LOOP or (maximum is not None and not minimum <= maximum <= _MAX_LOOP) or maximum == 0:
            raise self.refuse(f"the quantifier {found[0]}", f"at most {_MAX_LOOP} repetitions are counted")
        return self.repeat(node, minimum, maximum, found[2] == "+")

    def repeat(self, node: _Node, minimum: int, maximum: int | None, possessive: bool) -> _Node:
        chars = _as_chars(node)
        if chars is None and (maximum is None or maximum > _MAX_COPIES or possessive):
            why = f"groups are repeated at most {_MAX_COPIES} times, and give back what they took"
            raise self.refuse("a quantifier of a group", why)
        return _Repeat(chars or node, minimum, maximum, possessive)

    def atom(self) -> _Node:
        char = self.text[self.at]
        if char == "(":
            return self.group()
        if char == "[":
            return self.chars(self.bracket())
        if char == "\\":
            return self.escape()
        self.at += 1
        if char == ".":
            return self.chars(".")
        if char in "^$?*+":
            self.at -= 1
            raise self.refuse(f"a {char}")
        return self.literal(char)

    def literal(self, char: str) -> _Node:
        if not (self.fold and char.lower() != char.upper()):
            return _literal(char)
        if not char.isascii():
            raise self.refuse(f"the letter {char!r} where case does not count")
        return _Chars.of(case_variants(char))

    def group(self) -> _Node:
        found = re.compile(r"\((\?[:i]:?|\?[!=]|(?!\?))").match(self.text, self.at)
        if not found or found[1] == "?i":
            raise self.refuse("a group of an unknown kind")
        self.at = found.end()
        before, self.fold = self.fold, self.fold or found[1] == "?i:"
        node = self.either()
        self.fold = before
        if not self.peek(")"):
            raise self.refuse("a group without an end")
        self.at += 1
        if found[1] not in ("?!", "?="):
            return node
        chars = _as_chars(node)
        if chars is None:
            raise self.refuse("a look ahead by more than one character")
        return _Ahead(chars, found[1] == "?=")

    def bracket(self) -> str:
        begin, depth = self.at, 0
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 2 if char == "\\" else 1
            depth += (char == "[") - (char == "]")
            if depth == 0:
                return self.text[begin : self.at]
        raise self.refuse("a class without an end")

    def escape(self) -> _Node:
        rest = self.text[self.at :]
        found = re.match(r"\\(?:[pP]\{\^?\w+\}|[sSdDwWhH])", rest)
        if found:
            self.at += found.end()
            return self.chars(found[0])
        found = re.match(r"\\(?:x\{([0-9a-fA-F]{1,6})\}|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4}))", rest)
        if found:
            code = int(found[1] or found[2] or found[3], 16)
            if code >= CODES or 0xD800 <= code < 0xE000:
                raise self.refuse(f"{found[0]}, no character")
            self.at += found.end()
            return self.literal(chr(code))
        if len(rest) < 2 or (rest[1].isalnum() and rest[1] not in _ESCAPES) or not rest[1].isascii():
            raise self.refuse(f"{rest[:2]}")
        self.at += 2
        return self.literal(_ESCAPES.get(rest[1], rest[1]))

    def chars(self, pattern: str) -> _Chars:
        if self.fold and pattern[0] == "[":
            pattern = f"(?i:{pattern})"
        try:
            return _Chars.of(class_members(pattern))
        except ValueError as error:
            raise self.refuse(f"the class {pattern}", str(error)) from error


class _Emitter:
    def __init__(self, sets: Sets, where: str, start: int) -> None:
        self.sets, self.where, self.start = sets, where, start
        self.code: list[int] = []

    def program(self, node: _Node) -> list[int]:
        self.emit(node)
        return [*self.code, MATCH]

    def here(self) -> int:
        return self.start + len(self.code)

    def word(self, op: int, argument: int = 0) -> int:
        self.code.append(op | argument << 8)
        if len(self.code) > _MAX_WORDS:
            raise refusal("a pattern whose program is too long", where=self.where)
        return len(self.code) - 1

    def number(self, chars: _Chars) -> int:
        return self.sets.add(chars.members, self.where, chars.key)

    def patch(self, at: int) -> None:
        """Lets the jump at ``at`` lead to what comes next."""
        self.code[at] |= self.here() << 8

    def emit(self, node: _Node) -> None:
        match node:
            case _Chars():
                self.word(SET, self.number(node))
            case _Ahead(chars, there):
                self.word(IF if there else UNLESS, self.number(chars))
            case _Run(parts):
                for part in parts:
                    self.emit(part)
            case _Either(parts):
                self.alternatives(parts)
            case _Repeat(_Chars() as chars, minimum, maximum, possessive):
                self.word(TAKE if possessive else LOOP, self.number(chars))
                self.word(minimum, OPERAND)
                self.word(maximum or 0, OPERAND)
            case _Repeat(part, minimum, maximum, _):
                assert maximum is not None
                for _ in range(minimum):
                    self.emit(part)
                tries = []
                for _ in range(maximum - minimum):
                    tries.append(self.word(TRY))
                    self.emit(part)
                for at in tries:
                    self.patch(at)

    def alternatives(self, parts: tuple[_Node, ...]) -> None:
        ends = []
        for part in parts[:-1]:
            other = self.word(TRY)
            self.emit(part)
            ends.append(self.word(JUMP))
            self.patch(other)
        self.emit(parts[-1])
        for at in ends:
            self.patch(at)
