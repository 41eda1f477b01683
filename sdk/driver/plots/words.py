"""Numbers and names as plots write them: short, with units."""

from __future__ import annotations

import re

from sdk.compiler.sym import Dim
from sdk.compiler.sym.dim import show

__all__ = ["bytes_text", "dim_text", "ending", "macs_words", "short_number", "wrapped"]


def short_number(value: float) -> str:
    """``1234567`` as ``1.23M``: three digits, and a letter for thousands, millions, milliards."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            scaled = value / (1e3 if unit == "k" else limit)
            return f"{scaled:.{2 if abs(scaled) < 10 else 1 if abs(scaled) < 100 else 0}f}{unit}"
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:.3g}"


def macs_words(macs: int | None, text: str) -> str:
    """Multiply-accumulates: a number, with the sign of a bound where they follow from dims; how they do where nothing
    bounds those; ``-`` where nothing is known."""
    if macs is None:
        return text or "-"
    return f"{'≤ ' if text else ''}{short_number(macs)}"


def bytes_text(value: int) -> str:
    """``24576`` as ``24.6 kB``; whole bytes up to 9,999."""
    if value < 10_000:
        return f"{value:,} B"
    text = short_number(value)
    return f"{text[:-1]} {text[-1]}B"


def dim_text(dim: Dim) -> str:
    """A size as people write it: ``height//2``."""
    return re.sub(r"floordiv\((\w+), (\d+)\)", r"\1//\2", show(dim))


def ending(name: str, maximum: int) -> str:
    """The last ``maximum`` characters of a name that is longer: names of layers differ at their ends."""
    if len(name) <= maximum:
        return name
    cut = name[-maximum + 1 :]
    slash = cut.find("/")
    return "…" + (cut[slash:] if 0 <= slash < maximum // 2 else cut)


def wrapped(text: str, width: int, lines: int) -> list[str]:
    """Text in lines of at most ``width`` characters, the last of ``lines`` cut where there is more."""
    out = [""]
    for word in text.split():
        if out[-1] and len(out[-1]) + 1 + len(word) > width:
            out.append("")
        out[-1] = f"{out[-1]} {word}".strip()
    if len(out) > lines:
        out = [*out[: lines - 1], out[lines - 1] + " …"]
    return [line if len(line) <= width else line[: width - 1] + "…" for line in out]
