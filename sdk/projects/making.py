"""What a kind of project makes its further files of, and what these are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sdk.boards import Board, Setting
from sdk.boards.table import suggest
from sdk.driver.built import Built
from sdk.driver.options import BuildOptions
from sdk.errors import UsageError
from sdk.frontends.base import ModelFile
from sdk.projects.interface import Entry
from sdk.projects.kinds import Kind
from sdk.toolchains import Blob

__all__ = ["Added", "Making", "settings_of"]


@dataclass(frozen=True)
class Making:
    """A project that is being made: its kind, the model's file, board and options, the build, its entries, and what the
    user set."""

    kind: Kind
    file: ModelFile
    board: Board
    options: BuildOptions
    built: Built
    entries: Sequence[Entry]
    settings: Mapping[str, str]


@dataclass(frozen=True)
class Added:
    """Files by name, and what the templates of the kind may name beside what all may."""

    files: Mapping[str, str | Blob] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)


def settings_of(making: Making) -> dict[str, Setting]:
    """The settings of a project: those of its kind, as the user changed them.

    Raises:
        UsageError: there is none of a name, or a value is not what it has to look like.
    """
    kind = making.kind
    for name in making.settings:
        if name not in kind.defaults:
            near = suggest(name, kind.defaults) or f"it has {', '.join(kind.defaults)}"
            raise UsageError(f"no setting is called {name!r}", where="--set", hint=near)
    own = making.built.sources.prefix.lower()
    found = {name: text.replace("NAME", own) for name, text in kind.defaults.items()} | dict(making.settings)
    for name, pattern in kind.patterns.items():
        if not re.fullmatch(pattern, found[name], re.ASCII):
            hint = f"--set {name}={kind.defaults[name].replace('NAME', 'model')}"
            raise UsageError(f"not a {name}: {found[name]!r}", where="--set", hint=hint)
    return {**found}
