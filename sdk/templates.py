"""The jinja2 templates of generated C and linker scripts: fixed text of headers and what is around kernels, never an
expression."""

from __future__ import annotations

from functools import cache

import jinja2

from sdk.resources import data_dir

__all__ = ["render"]


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_dir("templates")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def render(name: str, **values: object) -> str:
    """The template ``name``, a path below ``templates`` without its suffix, filled in."""
    return _environment().get_template(f"{name}.j2").render(values)
