"""Grammars as llama.cpp writes them: rules of texts, classes of characters, groups and repetition."""

from __future__ import annotations

import re
from typing import Final

from sdk.errors import UsageError
from sdk.llm.grammar.nodes import ANY, Call, Chars, Either, Node, Repeat, Rules, Run, refuse, without

__all__ = ["parse_grammar"]

_MAX_TEXT: Final = 1 << 20
_MAX_DEPTH: Final = 60
_MAX_REPEATED: Final = 8
_MAX_COUNT: Final = 100_000
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([nrt\\\"\[\]^-]))")
_COUNT: Final = re.compile(r"\{ *(\d{1,9}) *(,?) *(\d{0,9}) *\}")
_LETTERS: Final = {"n": "\n", "r": "\r", "t": "\t"}


def parse_grammar(source: str) -> Rules:
    """The rules of a grammar such as ``root ::= "yes" | "no"``.

    Raises:
        UsageError: it is none; the line is named.
    """
    if len(source) > _MAX_TEXT:
        raise refuse("the grammar has more than a megabyte", where="grammar", hint="write a shorter one")
    rules = _Parser(source).rules()
    for name, called in _calls(rules):
        if called not in rules:
            raise refuse(f"the rule {called} is not there", where=f"rule {name}", hint=f"write {called} ::= ...")
    if "root" not in rules:
        raise refuse("the grammar has no rule root", where="grammar", hint="the rule root says what a text is")
    return Rules(rules)


def _calls(rules: dict[str, Node]) -> list[tuple[str, str]]:
    found = []
    for name, node in rules.items():
        left = [node]
        while left:
            match left.pop():
                case Call(called):
                    found.append((name, called))
                case Run(parts) | Either(parts):
                    left += parts
                case Repeat(part):
                    left.append(part)
    return found


class _Parser:
    def __init__(self, source: str) -> None:
        self.source, self.at, self.depth = source, 0, 0

    def wrong(self, what: str) -> UsageError:
        return refuse(f"a grammar has {what}", where=f"line {self.source.count(chr(10), 0, self.at) + 1}")

    def skip(self, *, lines: bool) -> None:
        """Passes over spaces and remarks, and over ends of lines where they count as spaces."""
        found = re.compile(r"(?:[ \t]|#[^\r\n]*|[\r\n])*" if lines else r"(?:[ \t]|#[^\r\n]*)*").match(
            self.source, self.at
        )
        self.at = found.end() if found else self.at

    def peek(self, begin: str) -> bool:
        return self.source.startswith(begin, self.at)

    def rules(self) -> dict[str, Node]:
        found: dict[str, Node] = {}
        self.skip(lines=True)
        while self.at < len(self.source):
            name = _NAME.match(self.source, self.at)
            if not name:
                raise self.wrong(f"{self.source[self.at : self.at + 10]!r} where a rule begins")
            if name[0] in found:
                raise self.wrong(f"the rule {name[0]} twice")
            self.at = name.end()
            self.skip(lines=False)
            if not self.peek("::="):
                raise self.wrong(f"no ::= after {name[0]}")
            self.at += 3
            self.skip(lines=True)
            found[name[0]] = self.either(nested=False)
            self.skip(lines=False)
            if self.at < len(self.source) and self.source[self.at] not in "\r\n":
                raise self.wrong(f"{self.source[self.at : self.at + 10]!r} within the rule {name[0]}")
            self.skip(lines=True)
        return found

    def either(self, *, nested: bool) -> Node:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.wrong(f"more than {_MAX_DEPTH} groups inside one another")
        parts = [self.run(nested=nested)]
        while self.peek("|"):
            self.at += 1
            self.skip(lines=True)
            parts.append(self.run(nested=nested))
        self.depth -= 1
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def run(self, *, nested: bool) -> Node:
        parts: list[Node] = []
        while self.at < len(self.source) and self.source[self.at] not in "|)\r\n":
            part = self.repeated(self.atom())
            parts.append(part)
            self.skip(lines=nested)
        return Run(tuple(parts))

    def atom(self) -> Node:
        char = self.source[self.at]
        if char == '"':
            return self.literal()
        if char == "[":
            return self.chars()
        if char == ".":
            self.at += 1
            return ANY
        if char == "(":
            self.at += 1
            self.skip(lines=True)
            node = self.either(nested=True)
            self.skip(lines=True)
            if not self.peek(")"):
                raise self.wrong("a group without an end")
            self.at += 1
            return node
        name = _NAME.match(self.source, self.at)
        if not name:
            raise self.wrong(f"{self.source[self.at : self.at + 10]!r}, which is no part of a rule")
        self.at = name.end()
        return Call(name[0])

    def repeated(self, node: Node) -> Node:
        for _ in range(_MAX_REPEATED):
            self.skip(lines=False)
            sign = self.source[self.at : self.at + 1]
            if sign and sign in "*+?":
                self.at += 1
                node = Repeat(node, int(sign == "+"), 1 if sign == "?" else None)
            elif sign == "{":
                node = self.counted(node)
            else:
                return node
        raise self.wrong(f"more than {_MAX_REPEATED} repetitions of repetitions")

    def counted(self, node: Node) -> Node:
        found = _COUNT.match(self.source, self.at)
        if not found:
            raise self.wrong("a { that says no number of times")
        minimum = int(found[1])
        maximum = (int(found[3]) if found[3] else None) if found[2] else minimum
        if max(minimum, maximum or 0) > _MAX_COUNT or (maximum is not None and maximum < minimum):
            raise self.wrong(f"{found[0]}: times from a smaller to a larger number up to {_MAX_COUNT:,} are counted")
        self.at = found.end()
        return Repeat(node, minimum, maximum)

    def char(self) -> int:
        """The character here, which may be written as an escape."""
        if self.at >= len(self.source) or self.source[self.at] in "\r\n":
            raise self.wrong("a text or class without an end")
        if not self.peek("\\"):
            self.at += 1
            code = ord(self.source[self.at - 1])
        else:
            found = _ESCAPE.match(self.source, self.at)
            if not found:
                raise self.wrong(f"the escape {self.source[self.at : self.at + 2]}")
            self.at = found.end()
            number = found[1] or found[2] or found[3]
            code = int(number, 16) if number else ord(_LETTERS.get(found[4], found[4]))
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise self.wrong(f"U+{code:04X}, which is no character")
        return code

    def literal(self) -> Node:
        self.at += 1
        codes = []
        while not self.peek('"'):
            codes.append(self.char())
        self.at += 1
        return Run(tuple(Chars(((code, code),)) for code in codes))

    def chars(self) -> Node:
        self.at += 1
        inverted = self.peek("^")
        self.at += inverted
        ranges = []
        while not self.peek("]"):
            low = high = self.char()
            if self.peek("-") and not self.source.startswith("]", self.at + 1):
                self.at += 1
                high = self.char()
            if high < low:
                raise self.wrong("a range of characters that falls")
            ranges.append((low, high))
        self.at += 1
        return without(ranges) if inverted else Chars(tuple(sorted(ranges)))
