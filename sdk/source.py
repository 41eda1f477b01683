"""Source text: where a piece of it is, and how an error points at it."""

from __future__ import annotations

from dataclasses import dataclass

from sdk.errors import SdkError
from sdk.text import printable

__all__ = ["ParseError", "Source", "Span"]


@dataclass(frozen=True, slots=True)
class Source:
    """A text with the name (of a file, usually) it is reported under."""

    text: str
    name: str = "<text>"

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character offset, both from 1."""
        start = self.text.rfind("\n", 0, offset) + 1
        return self.text.count("\n", 0, offset) + 1, offset - start + 1

    def line(self, number: int) -> str:
        """The text of line ``number`` (from 1) without its end; "" past the last."""
        lines = self.text.split("\n")
        return lines[number - 1].rstrip("\r") if number <= len(lines) else ""


@dataclass(frozen=True, slots=True)
class Span:
    """Characters ``start..end`` (end exclusive) of a source."""

    source: Source
    start: int
    end: int

    @property
    def line(self) -> int:
        """Line of the first character, from 1."""
        return self.source.position(self.start)[0]

    @property
    def column(self) -> int:
        """Column of the first character, from 1."""
        return self.source.position(self.start)[1]

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"

    def render(self) -> str:
        """The line with carets under the span (its first line, where it has several)."""
        text = self.source.line(self.line)
        before = "".join("\t" if c == "\t" else " " for c in text[: self.column - 1])
        width = max(1, min(self.end - self.start, len(text) - self.column + 1))
        return f"  | {text}\n  | {before}{'^' * width}"


class ParseError(SdkError):
    """A text does not follow its grammar or contradicts itself; ``span`` says where."""

    advice = "SPEC.md describes the text; sdk inspect MODEL --stage imported prints an example"

    def __init__(self, message: str, span: Span, *, hint: str | None = None) -> None:
        super().__init__(message, where=str(span), hint=hint)
        self.span = span

    @property
    def line(self) -> int:
        """Line of the error, from 1."""
        return self.span.line

    @property
    def column(self) -> int:
        """Column of the error, from 1."""
        return self.span.column

    def __str__(self) -> str:
        text = f"{self.span}: {self.message}\n{self.span.render()}"
        return printable(f"{text}\n  hint: {self.hint}" if self.hint else text, "\n\t")
