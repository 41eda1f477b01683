"""What some kinds of projects have beside C and templates: one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from sdk.projects.apps import app_files
from sdk.projects.kinds import Kind
from sdk.projects.making import Added, Making
from sdk.projects.web import web_files
from sdk.projects.web_gpu import gpu_files

__all__ = ["Making", "maker_of"]


def _web(making: Making) -> Added:
    found = web_files(making)
    return replace(found, files={**found.files, **gpu_files(making)}) if making.gpu else found


_MAKERS: Final[dict[str, Callable[[Making], Added]]] = {
    "": lambda _: Added(), "app": app_files, "web": _web,
}  # fmt: skip


def maker_of(kind: Kind) -> Callable[[Making], Added]:
    """What makes the further files of a kind."""
    return _MAKERS[kind.adds]
