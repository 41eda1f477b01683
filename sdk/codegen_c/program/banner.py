"""Comments of generated files: the one at the top of each, and text of a model made safe inside one."""

from __future__ import annotations

from sdk.codegen_c.base import EmitOptions
from sdk.text import GENERATED, printable
from sdk.version import VERSION

__all__ = ["banner", "comment"]


def banner(options: EmitOptions, what: str) -> str:
    """The comment at the top of a generated file. It has no date: builds are reproducible."""
    source = f" from {options.source}" if options.source else ""
    board = f" for {options.board}" if options.board else ""
    return (
        f"/* {comment(what)}\n   {GENERATED} {VERSION}{comment(source + board)}. Do not edit. */"
    )


def comment(text: str) -> str:
    """``text`` made safe inside a C comment."""
    shown = printable(text.replace("\n", " "))
    for pair in ("*/", "/*", "??"):  # the ends of comments, and trigraphs: one of them stands for a backslash
        while pair in shown:
            shown = shown.replace(pair, f"{pair[0]} {pair[1]}")
    return f"{shown}." if shown.endswith("\\") else shown  # which at the end of a line joins the next one
