"""Regular expressions of JSON schemas, as ECMAScript writes them, as grammars of the strings that match."""

from __future__ import annotations

import re
from typing import Final

from sdk.errors import UsageError
from sdk.llm.grammar.basics import STRING_CHAR, quoted_chars
from sdk.llm.grammar.nodes import Either, Node, Ranges, Repeat, Run, refuse, without

__all__ = ["pattern_node"]

_MAX_TEXT: Final = 10_000
_MAX_DEPTH: Final = 30
_MAX_COUNT: Final = 10_000
_DIGIT: Final[Ranges] = ((0x30, 0x39),)
_WORD: Final[Ranges] = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACE: Final[Ranges] = ((0x09, 0x0D), (0x20, 0x20))
_ENDS: Final[Ranges] = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))  # what a . is not
_CLASSES: Final = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_LETTERS: Final = {"n": 10, "r": 13, "t": 9, "f": 12, "v": 11, "0": 0}
_COUNT: Final = re.compile(r"\{(\d{1,6})(,?)(\d{0,6})\}")
_HEX: Final = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}")


def pattern_node(pattern: str, where: str) -> Node:
    """The content of the strings in which a pattern is found: what JSON writes between the quotes.

    Raises:
        UsageError: the pattern has what grammars cannot follow.
    """
    return _Parser(pattern, where).whole()


class _Parser:
    def __init__(self, pattern: str, where: str) -> None:
        self.text, self.at, self.depth, self.where = pattern, 0, 0, where
        if len(pattern) > _MAX_TEXT:
            raise refuse(f"a pattern of {len(pattern):,} signs", where=where, hint="write a shorter one")

    def wrong(self, what: str) -> UsageError:
        return refuse(f"the pattern {self.text[:100]!r} has {what} at {self.at + 1}", where=self.where)

    def peek(self, begin: str) -> bool:
        return self.text.startswith(begin, self.at)

    def whole(self) -> Node:
        parts = [self.anchored()]
        while self.peek("|"):
            self.at += 1
            parts.append(self.anchored())
        if self.at < len(self.text):
            raise self.wrong("a ) too many")
        return Either(tuple(parts))

    def anchored(self) -> Node:
        """An alternative of the whole pattern; without ^ and $ anything may stand around it."""
        anything = Repeat(STRING_CHAR)
        begins = self.peek("^")
        self.at += begins
        node = self.run()
        ends = self.peek("$")
        self.at += ends
        if self.at < len(self.text) and not self.peek("|") and not self.peek(")"):
            raise self.wrong("something after $")
        return Run((*([] if begins else [anything]), node, *([] if ends else [anything])))

    def either(self) -> Node:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.wrong(f"more than {_MAX_DEPTH} groups inside one another")
        parts = [self.run()]
        while self.peek("|"):
            self.at += 1
            parts.append(self.run())
        self.depth -= 1
        return Either(tuple(parts))

    def run(self) -> Node:
        parts: list[Node] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)$":
            parts.append(self.repeated(self.atom()))
        return Run(tuple(parts))

    def repeated(self, node: Node) -> Node:
        sign = self.text[self.at : self.at + 1]
        found = _COUNT.match(self.text, self.at)
        if found:
            minimum = int(found[1])
            maximum = (int(found[3]) if found[3] else None) if found[2] else minimum
            if max(minimum, maximum or 0) > _MAX_COUNT or (maximum is not None and maximum < minimum):
                raise self.wrong(f"{found[0]}, where up to {_MAX_COUNT:,} times are counted,")
            self.at = found.end()
            node = Repeat(node, minimum, maximum)
        elif sign and sign in "*+?":
            self.at += 1
            node = Repeat(node, int(sign == "+"), 1 if sign == "?" else None)
        else:
            return node
        self.at += self.peek("?")  # lazy or not, the strings are the same
        if self.text[self.at : self.at + 1] in ("*", "+", "?") or _COUNT.match(self.text, self.at):
            raise self.wrong("two quantifiers in a row")
        return node

    def atom(self) -> Node:
        char = self.text[self.at]
        if char == "(":
            return self.group()
        if char == "[":
            return quoted_chars(self.bracket())
        if char == "\\":
            return quoted_chars(self.escape())
        if char in "^*+?{":
            raise self.wrong(f"a {char}")
        self.at += 1
        return quoted_chars(without(_ENDS).ranges if char == "." else ((ord(char), ord(char)),))

    def group(self) -> Node:
        found = re.compile(r"\((\?:|\?<[A-Za-z_]\w*>|(?!\?))").match(self.text, self.at)
        if not found:
            raise self.wrong("a group of a kind that grammars cannot follow")
        self.at = found.end()
        node = self.either()
        if not self.peek(")"):
            raise self.wrong("a group without an end, or a $ within one")
        self.at += 1
        return node

    def escape(self) -> Ranges:
        """The characters that an escape stands for."""
        self.at += 1
        sign = self.text[self.at : self.at + 1]
        found = _HEX.match(self.text, self.at)
        if found:
            self.at = found.end()
            return self.one(int(found[1] or found[2] or found[3], 16))
        if not sign or (sign.isalnum() and sign.lower() not in _CLASSES and sign not in _LETTERS):
            raise self.wrong(f"\\{sign}")
        self.at += 1
        if sign.lower() in _CLASSES:
            members = _CLASSES[sign.lower()]
            return members if sign.islower() else without(members).ranges
        return self.one(_LETTERS.get(sign, ord(sign)))

    def one(self, code: int) -> Ranges:
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise self.wrong("a number of no character")
        return ((code, code),)

    def bracket(self) -> Ranges:
        self.at += 1
        inverted = self.peek("^")
        self.at += inverted
        found: list[tuple[int, int]] = []
        while not self.peek("]"):
            low = self.member()
            if self.peek("-") and not self.text.startswith("]", self.at + 1):
                self.at += 1
                high = self.member()
                if len(low) != 1 or len(high) != 1 or low[0][0] != low[0][1] or high[0][1] < low[0][0]:
                    raise self.wrong("a range of characters that is none")
                low = ((low[0][0], high[0][1]),)
            found += low
        self.at += 1
        return without(found).ranges if inverted else tuple(sorted(found))

    def member(self) -> Ranges:
        if self.at >= len(self.text):
            raise self.wrong("a class without an end")
        if self.peek("\\b"):
            self.at += 2
            return ((8, 8),)
        if self.peek("\\-"):
            self.at += 2
            return ((0x2D, 0x2D),)
        if self.peek("\\"):
            return self.escape()
        self.at += 1
        return self.one(ord(self.text[self.at - 1]))
