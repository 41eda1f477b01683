"""What some kinds of projects have beside C and templates: one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sdk.projects.apps import app_files
from sdk.projects.kinds import Kind
from sdk.projects.making import Added, Making
from sdk.projects.web import web_files

__all__ = ["Making", "maker_of"]

_MAKERS: Final[dict[str, Callable[[Making], Added]]] = {
    "": lambda _: Added(), "app": app_files, "web": web_files,
}  # fmt: skip


def maker_of(kind: Kind) -> Callable[[Making], Added]:
    """What makes the further files of a kind."""
    return _MAKERS[kind.adds]
