"""The templates of pages and plots, with the filters that they use."""

from __future__ import annotations

from functools import cache
from typing import Any

import jinja2

from sdk.driver.plots.drawing import DrawnNode
from sdk.driver.plots.memory_plot import describe, how_kept
from sdk.driver.plots.words import bytes_text, short_number
from sdk.resources import data_dir
from sdk.text import printable
from sdk.version import VERSION

__all__ = ["render"]


def render(template: str, **values: Any) -> str:
    """The text of a template of ``templates/report``."""
    return _environment().get_template(template).render(version=VERSION, **values)


@cache
def _environment() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_dir("templates") / "report"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,
        finalize=_printable,
    )
    found.filters |= {
        "thousands": lambda n: f"{n:,}", "describe": describe, "kept": how_kept, "tip": _tip,
        "short": short_number, "size": bytes_text,
    }  # fmt: skip
    return found


def _printable(value: object) -> object:
    """A value without what XML allows not even escaped and what turns text around: a model file may name its tensors by
    any bytes. What a template made has none."""
    return printable(value, "\n\t") if isinstance(value, str) and not hasattr(value, "__html__") else value


def _tip(node: DrawnNode) -> str:
    """All that is known of a node, line by line."""
    facts = [f"{node.kind} {node.name}".strip()]
    facts += [f"{side} {t.name}: {t}" for side, found in (("in", node.inputs), ("out", node.outputs)) for t in found]
    if node.macs:
        facts.append(f"{node.macs:,} multiply-accumulates" + (f" at most: {node.macs_text}" if node.macs_text else ""))
    if node.weights:
        facts.append(f"{node.weights:,} bytes of weights")
    if node.states:
        facts.append(f"state {', '.join(node.states)}")
    if node.ops:
        facts.append(f"becomes {', '.join(node.ops)}")
    facts += node.attributes
    return "\n".join([*facts, *filter(None, (node.why, node.hint)), *([] if node.checked else ["not checked"])])
