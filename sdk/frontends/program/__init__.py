"""The frontend of programs: the text of a module, ``NAME.ir``, and beside it ``NAME.npz`` with its large constants."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sdk.frontends.base import Beside, Frontend, ModelFile

if TYPE_CHECKING:
    from sdk.compiler.ir.module import Module
    from sdk.frontends.outline import Refusal

__all__ = ["FRONTEND"]

# What a module begins with; possessive, so that no text makes the search long.
_SPACE: Final = rb"(?:[ \t\r\n]|//[^\n]*+)"
_NAME: Final = rb'(?:[A-Za-z_]\w*+|"(?:[^"\\\n]|\\.)*+")'
_BEGINS: Final = re.compile(
    rb"%b*+module%b++%b%b++(?:imported|typed|scheduled|planned)\b" % (_SPACE, _SPACE, _NAME, _SPACE)
)


def _is_program(data: bytes) -> bool:
    return _BEGINS.match(data) is not None


def _load(file: ModelFile, name: str, dims: Mapping[str, tuple[int, ...]], refusals: list[Refusal]) -> Module:
    from sdk.frontends.program.reader import read_program

    return read_program(file, dims)


def _beside(path: Path, data: bytes) -> Beside | None:
    from sdk.frontends.program.constants import Constants

    return Constants(path.with_suffix(".npz"))


FRONTEND = Frontend(
    name="program", title="program", suffixes=(".ir",), sniff=_is_program, load=_load, beside=_beside
)
