"""The parts of JSON as grammars, and texts in JSON's quotes."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any, Final

from sdk.llm.grammar.gbnf import parse_grammar
from sdk.llm.grammar.nodes import Call, Chars, Either, Node, Ranges, Repeat, Run, text, without

__all__ = [
    "BASICS",
    "FORMATS",
    "SPACE",
    "STRING_CHAR",
    "any_but",
    "decimals",
    "literal",
    "quoted",
    "quoted_chars",
    "whole_bounds",
    "whole_numbers",
]

DIGITS: Final = 15  # of a number, so that floats and integers of 64 bits hold it
# Spaces are bounded, so that no answer is spaces without end; escapes are of whole characters, never of half a pair.
BASICS: Final = dict(
    parse_grammar(r"""
root ::= value
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" space (string ":" space value ("," space string ":" space value)*)? space "}"
array ::= "[" space (value ("," space value)*)? space "]"
space ::= (" " | "\n" [ \t]{0,20})?
string ::= "\"" char* "\""
char ::= [^"\\\x00-\x1f] | "\\" (["\\/bfnrt] | "u" ([0-9a-cA-CefEF] hex hex hex | [dD] [0-7] hex hex))
hex ::= [0-9a-fA-F]
integer ::= "-"? ("0" | [1-9] [0-9]{0,14})
number ::= integer ("." [0-9]{1,15})? ([eE] [+-]? [0-9]{1,2})?
date ::= [1-9] [0-9]{3} "-" (day28 | ("0" [13-9] | "1" [0-2]) "-" ("29" | "30") | ("0" [13578] | "1" [02]) "-31")
day28 ::= ("0" [1-9] | "1" [0-2]) "-" ("0" [1-9] | "1" [0-9] | "2" [0-8])
clock ::= ([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9]
time ::= clock ":" [0-5] [0-9] ("." [0-9]{1,6})? ("Z" | [+-] clock)
date-time ::= date "T" time
byte ::= "25" [0-5] | "2" [0-4] [0-9] | "1" [0-9] [0-9] | [1-9]? [0-9]
ipv4 ::= byte "." byte "." byte "." byte
uuid ::= hex{8} "-" hex{4} "-" hex{4} "-" hex{4} "-" hex{12}
""").rules
)
SPACE: Final = Call("space")
STRING_CHAR: Final = Call("char")
FORMATS: Final = ("date", "time", "date-time", "ipv4", "uuid")
_ESCAPED: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def literal(value: Any) -> Node:
    """A value of JSON as it is written."""
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text(written if written.isprintable() or written.isascii() else json.dumps(value, separators=(",", ":")))


def quoted(node: Node) -> Node:
    """A string with a content that is written already."""
    return Run((text('"'), node, text('"')))


def quoted_chars(ranges: Ranges) -> Node:
    """A character of a set as a string has it."""
    raw = without([(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C), *_gaps(ranges)])
    escaped = [code for low, high in ranges for code in (*range(low, min(high, 0x1F) + 1),)]
    escaped += [code for low, high in ranges for code in (0x22, 0x5C) if low <= code <= high]
    written = [text(_ESCAPED.get(chr(code), f"\\u{code:04x}")) for code in sorted(set(escaped))]
    return Either((raw, *written)) if raw.ranges else Either(tuple(written))


def _gaps(ranges: Ranges) -> Ranges:
    return without(ranges).ranges


def whole_numbers(low: int | None, high: int | None) -> Node:
    """The whole numbers from ``low`` to ``high``, of at most 15 digits; None is no bound."""
    maximum = 10**DIGITS - 1
    low, high = max(-maximum, -maximum if low is None else low), min(maximum, maximum if high is None else high)
    parts: list[Node] = []
    if low < 0 and low <= high:
        parts.append(Run((text("-"), _natural(max(1, -high), -low))))
    if high >= 0 and low <= high:
        parts.append(_natural(max(low, 0), high))
    return Either(tuple(parts))


def _natural(low: int, high: int) -> Node:
    """Numbers from ``low`` to ``high``, neither below 0, without zeros before them."""
    parts = []
    for length in range(len(str(low)), len(str(high)) + 1):
        first = max(low, 10 ** (length - 1) if length > 1 else 0)
        last = min(high, 10**length - 1)
        parts.append(_digits(str(first), str(last)))
    return Either(tuple(parts))


def _digits(low: str, high: str) -> Node:
    """Digits from ``low`` to ``high``, of the same length."""
    if not low:
        return Run(())
    rest = len(low) - 1
    if low[1:] == "0" * rest and high[1:] == "9" * rest:
        return Run((_digit(int(low[0]), int(high[0])), Repeat(_digit(0, 9), rest, rest)))
    if low[0] == high[0]:
        return Run((text(low[0]), _digits(low[1:], high[1:])))
    parts = [Run((text(low[0]), _digits(low[1:], "9" * rest))), Run((text(high[0]), _digits("0" * rest, high[1:])))]
    if int(high[0]) - int(low[0]) > 1:
        parts.append(Run((_digit(int(low[0]) + 1, int(high[0]) - 1), Repeat(_digit(0, 9), rest, rest))))
    return Either(tuple(parts))


def _digit(low: int, high: int) -> Chars:
    return Chars(((0x30 + low, 0x30 + high),))


def decimals(low: Fraction | None, high: Fraction | None, *, above: bool, below: bool) -> Node:
    """Numbers from ``low`` to ``high`` (``above`` and ``below``: without these), where None is no bound: whole ones,
    and those of which all fractions of their whole part lie between."""
    if low is None and high is None:
        return Call("number")
    whole = whole_numbers(*whole_bounds(low, high, above=above, below=below))
    fraction = Run((text("."), Repeat(_digit(0, 9), 1, DIGITS)))
    parts: list[Node] = [whole]
    up = (low, high, above, below)
    down = (None if high is None else -high, None if low is None else -low, below, above)
    for sign, (near, far, without_near, without_far) in (("", up), ("-", down)):
        whole_parts = whole_bounds(
            max(near or Fraction(0), Fraction(0)), None if far is None else far - 1,
            above=without_near and near is not None and near >= 0, below=without_far,
        )  # fmt: skip
        if whole_parts[1] is None or whole_parts[1] >= (whole_parts[0] or 0):
            parts.append(Run((text(sign), whole_numbers(*whole_parts), fraction)))
    return Either(tuple(parts))


def whole_bounds(
    low: Fraction | None, high: Fraction | None, *, above: bool, below: bool
) -> tuple[int | None, int | None]:
    """The least and the largest whole number between bounds."""
    minimum = None if low is None else math.floor(low) + 1 if above else math.ceil(low)
    maximum = None if high is None else math.ceil(high) - 1 if below else math.floor(high)
    return minimum, maximum


def any_but(names: list[str], rules: dict[str, Node], key: str) -> Node:
    """A string that is none of ``names``, written without escapes; rules for it are added under names with ``key``."""
    plain = ((0, 0x1F), (0x22, 0x22), (0x5C, 0x5C))
    free = Run((Repeat(without(plain)), text('"')))
    after: dict[str, set[str]] = {"": set()}
    for name in names:
        for n in range(len(name) + 1):
            after.setdefault(name[:n], set()).update(name[n : n + 1])
    for prefix, letters in after.items():
        following = sorted(letters)
        parts: list[Node] = [Run((without((*plain, *((ord(char), ord(char)) for char in following))), free))]
        parts += [Run((quoted_raw(char), Call(f"{key} {prefix + char}"))) for char in following]
        parts += [] if prefix in names else [text('"')]
        rules[f"{key} {prefix}"] = Either(tuple(parts))
    return Run((text('"'), Call(f"{key} ")))


def quoted_raw(char: str) -> Node:
    """A character that needs no escape; of others there is no text."""
    return Chars(()) if char in '"\\' or char < " " else text(char)
