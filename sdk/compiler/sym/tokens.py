"""The tokens of the compiler's text form, the spelling of names in it, and a cursor that reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final, NoReturn, TypeVar

from sdk.budget import TEXT_NESTING
from sdk.source import ParseError, Source, Span

__all__ = ["Cursor", "bare_name", "sigil_name", "string"]

T = TypeVar("T")

_WORD: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_DOTTED: Final = r"[A-Za-z0-9_]+(?:[./][A-Za-z0-9_]+)*"
_STRING: Final = r'"(?:[^"\\\n]|\\.)*"'
_TOKENS: Final = re.compile(
    rf"""(?P<space>(?:[ \t\r\n]+|//[^\n]*)+)
    |(?P<name>{_WORD})
    |(?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
    |(?P<int>\d+)
    |(?P<sigil>[%@$](?:{_DOTTED}|{_STRING}))
    |(?P<symbol>\.\.|->|<<|>>|<=|>=|==|[{{}}()\[\]<>,:=+*&|^-])
    |(?P<string>{_STRING})
    |(?P<hash>\#[0-9a-f]+)""",
    re.VERBOSE,
)
_BARE: Final = re.compile(_WORD)
_SIGIL: Final = re.compile(_DOTTED)
_DIGITS: Final = 40  # of a whole number: 64 bits have 20
# Bare words that mean a number where a name could stand.
_RESERVED: Final = frozenset({"inf", "nan", "true", "false"})


def string(text: str) -> str:
    """``text`` quoted."""
    return json.dumps(text)


def bare_name(name: str) -> str:
    """A name as it stands where no sigil precedes it: as it is, or quoted."""
    return name if _BARE.fullmatch(name) and name not in _RESERVED else string(name)


def sigil_name(sigil: str, name: str) -> str:
    """``%name``, ``@name`` or ``$name``, quoted where the name needs it."""
    return sigil + (name if _SIGIL.fullmatch(name) else string(name))


class Cursor:
    """Tokens of a source and a place among them. ``text`` and ``kind`` are those of the token here."""

    __slots__ = ("_at", "_tokens", "kind", "source", "text")

    def __init__(self, source: Source) -> None:
        self.source = source
        self._tokens = _tokenize(source)
        self._at = 0
        self.kind, self.text, _ = self._tokens[0]

    def advance(self) -> str:
        """Goes one token on; the text of the one left behind."""
        text = self.text
        self._at += 1
        self.kind, self.text, _ = self._tokens[self._at]
        return text

    def peek(self) -> str:
        """The text of the token after this one; "" at the end."""
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)][1]

    def accept(self, text: str) -> bool:
        """Whether the token here is ``text``; takes it if so."""
        if self.text != text:
            return False
        self.advance()
        return True

    def expect(self, text: str) -> None:
        """Takes the token ``text``.

        Raises:
            ParseError: another token is here.
        """
        if self.text != text:
            self.fail(f"expected {text!r}, found {self.found()}")
        self.advance()

    def found(self) -> str:
        """The token here as an error names it."""
        return "the end" if self.kind == "end" else repr(self.text)

    def name(self, what: str = "a name") -> str:
        """Takes a bare or quoted name."""
        if self.kind == "name":
            return self.advance()
        if self.kind == "string":
            return self.string()
        self.fail(f"expected {what}, found {self.found()}")

    def string(self) -> str:
        """Takes a quoted string; its value."""
        if self.kind != "string":
            self.fail(f"expected a quoted string, found {self.found()}")
        value = self._unquote(self.text)
        self.advance()
        return value

    def sigil(self, sigil: str, what: str) -> str:
        """Takes ``%name`` (or ``@``, ``$``); the name."""
        if self.kind != "sigil" or self.text[0] != sigil:
            self.fail(f"expected {what}, found {self.found()}")
        body = self.text[1:]
        name = self._unquote(body) if body[0] == '"' else body
        self.advance()
        return name

    def integer(self) -> int:
        """Takes a whole number with an optional sign."""
        negative = self.accept("-")
        if self.kind != "int":
            self.fail(f"expected a whole number, found {self.found()}")
        value = int(self.advance())
        return -value if negative else value

    def many(self, read: Callable[[], T], close: str) -> tuple[T, ...]:
        """Items separated by commas up to and with ``close``; a comma may end them."""
        items: list[T] = []
        while not self.accept(close):
            items.append(read())
            if self.text != close and not self.accept(","):
                self.fail(f"expected ',' or {close!r}, found {self.found()}")
        return tuple(items)

    @property
    def mark(self) -> int:
        """The place of the token here, for ``fail``."""
        return self._at

    def span(self, first: int, last: int | None = None) -> Span:
        """From the token at mark ``first`` to the one before mark ``last`` (default: that token alone)."""
        stop = self._tokens[first if last is None else max(first, last - 1)]
        return Span(self.source, self._tokens[first][2], stop[2] + max(1, len(stop[1])))

    def fail(
        self, message: str, first: int | None = None, last: int | None = None, hint: str | None = None
    ) -> NoReturn:
        """Raises a ParseError at the token here, or at the given marks."""
        raise ParseError(message, self.span(self._at if first is None else first, last), hint=hint)

    def too_deep(self) -> NoReturn:
        """Raises the ParseError for what nests deeper at the token here than any program does."""
        raise _too_deep(self.source, self._tokens[self._at][2])

    def _unquote(self, text: str) -> str:
        try:
            return str(json.loads(text))
        except ValueError:
            self.fail("bad escape in string", hint=r"escapes are those of JSON: \" \\ \n \t \u0041")


def _too_deep(source: Source, at: int) -> ParseError:
    message = f"more than {TEXT_NESTING.maximum} {TEXT_NESTING.unit}"
    return ParseError(message, Span(source, at, at + 1), hint=TEXT_NESTING.hint)


def _tokenize(source: Source) -> list[tuple[str, str, int]]:
    text, at, depth = source.text, 0, 0
    out: list[tuple[str, str, int]] = []
    for match in _TOKENS.finditer(text):
        if match.start() != at:
            break
        at = match.end()
        if match.lastgroup == "space":
            continue
        out.append((str(match.lastgroup), match[0], match.start()))
        if match.lastgroup == "int" and len(match[0]) > _DIGITS:
            raise ParseError(f"a number of {len(match[0])} digits", Span(source, match.start(), at))
        # what reads the text recurses as deep as brackets stand inside one another
        depth += (match[0] in ("(", "[", "{")) - (match[0] in (")", "]", "}"))
        if depth > TEXT_NESTING.maximum:
            raise _too_deep(source, match.start())
    if at != len(text):
        what = "unterminated string" if text[at] == '"' else f"unexpected character {text[at]!r}"
        raise ParseError(what, Span(source, at, at + 1))
    out.append(("end", "", len(text)))
    return out
