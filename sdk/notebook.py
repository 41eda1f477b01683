"""What notebooks show of reports and models: small tables in the colours of the notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape as escape_html

from sdk.text import printable

__all__ = ["pairs", "section", "show", "stripes", "table"]

_COLORS = ("#4269d0", "#d98a1f", "#d0495e", "#3f9e8f", "#5b9e3a", "#b8559e")


def escape(text: str) -> str:
    """A text as it stands in a page."""
    return escape_html(printable(text))


def show(value: object) -> str:
    """A value as people read it: thousands apart, "-" for None."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def section(title: str, *parts: str) -> str:
    """A heading and what is below it."""
    return f'<div style="max-width:48em"><b>{escape(title)}</b>{"".join(parts)}</div>'


def pairs(rows: Mapping[str, object]) -> str:
    """Names and values in two columns."""
    return table((), [(name, value) for name, value in rows.items()])


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; numbers stand on the right."""
    head = "".join(f'<th style="text-align:left">{escape(c)}</th>' for c in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table>{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    side = "right" if isinstance(value, (int, float)) and not isinstance(value, bool) else "left"
    return f'<td style="text-align:{side}">{escape(show(value))}</td>'


def stripes(parts: Mapping[str, int]) -> str:
    """Sizes as one bar of several colours, with its legend."""
    total = sum(parts.values()) or 1
    held = [(name, size, _COLORS[k % len(_COLORS)]) for k, (name, size) in enumerate(parts.items()) if size]
    bar = "".join(
        f'<i style="width:{100 * size / total:.2f}%;background:{color}" title="{escape(name)}: {size:,}"></i>'
        for name, size, color in held
    )
    legend = " ".join(f'<span style="color:{color}">■</span> {escape(name)} {size:,}' for name, size, color in held)
    return f'<div style="display:flex;height:.9em;margin:.3em 0">{bar}</div><div>{legend}</div>'
