"""The jinja2 templates around a language model's entries."""

from __future__ import annotations

from functools import cache

import jinja2

from sdk.resources import data_dir

__all__ = ["render"]


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_dir("templates") / "llm"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def render(name: str, **values: object) -> str:
    """The template ``name`` filled in."""
    return _environment().get_template(f"{name}.j2").render(values)
