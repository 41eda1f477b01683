"""What a kind of project makes its further files of, and what these are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sdk.boards import Board
from sdk.driver.built import Built
from sdk.driver.options import BuildOptions
from sdk.frontends.base import ModelFile
from sdk.projects.interface import Entry
from sdk.projects.kinds import Kind
from sdk.toolchains import Blob

__all__ = ["Added", "Making"]


@dataclass(frozen=True)
class Making:
    """A project that is being made: its kind, the model's file, board and options, the build, its entries, and what the
    user set. ``gpu`` is the interface by which a GPU runs the model where there is one; "": none does."""

    kind: Kind
    file: ModelFile
    board: Board
    options: BuildOptions
    built: Built
    entries: Sequence[Entry]
    settings: Mapping[str, str]
    gpu: str = ""


@dataclass(frozen=True)
class Added:
    """Files by name, and what the templates of the kind may name beside what all may."""

    files: Mapping[str, str | Blob] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
