"""The files that a build is made of, read once: the model with what lies beside it, and the user's libraries."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sdk.errors import UsageError
from sdk.files import NotRegularError, read_regular
from sdk.frontends import claimed, readable, recognise, suffixes
from sdk.frontends.base import Custom, Frontend, ModelFile
from sdk.frontends.kinds import foreign, no_model, refuse_folder
from sdk.frontends.tensors import Tensors

__all__ = ["Library", "read_libraries", "read_model_file"]

MAX_MODEL_BYTES: Final = (1 << 31) - 1  # of a model file: as much as generated code can index
_LIBRARIES: Final = (".ir", ".c", ".h")


def read_model_file(
    given: Path | ModelFile, custom: Custom | None = None, tensors: Tensors | None = None
) -> ModelFile:
    """The file of a model, of the format that its contents are, with the importers of the user's custom operators and
    the tensors that the user names beside it; one that was read already as it is.

    Raises:
        UsageError: it cannot be read, or is of another kind; the hint says what to do with that.
    """
    if tensors is not None:
        file = read_model_file(given, custom)
        return file if file.tensors is not None else file.with_tensors(tensors)
    if custom is not None:
        file = read_model_file(given)
        return file if file.custom is not None else file.with_custom(custom)
    if isinstance(given, ModelFile):
        return given
    if given.is_dir():
        raise refuse_folder(given, suffixes(), readable())
    try:
        data = read_regular(given, MAX_MODEL_BYTES)
    except OSError as err:
        small = "give a smaller model" if err.errno == errno.EFBIG else "give the path of a model file"
        hint = "write it to a file first" if isinstance(err, NotRegularError) else small
        raise UsageError(f"cannot read {given}", why=err.strerror or str(err), hint=hint) from None
    frontend = _frontend(given, data)
    return ModelFile(given, data, frontend, frontend.beside(given, data))


def _frontend(path: Path, data: bytes) -> Frontend:
    """What reads a file: the frontend that knows its contents. For contents that none knows, and that are nothing else
    that we know, the one whose files are so called: it will say what is wrong with this one."""
    known = recognise(data, path.suffix)
    if known is not None:
        return known
    named, other = claimed(path.suffix), foreign(path, data, suffixes())
    if named is None or other is not None:
        raise no_model(path, other, readable())
    return named


@dataclass(frozen=True)
class Library:
    """A file of the user's libraries as it was when it was read."""

    path: Path
    text: str = field(repr=False)

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.name

    @property
    def is_code(self) -> bool:
        """Whether it is C to compile with the model, and not a text of patterns."""
        return self.path.suffix != ".ir"


def read_libraries(given: Sequence[Path | Library]) -> tuple[Library, ...]:
    """The files of libraries; those that were read already as they are.

    Raises:
        UsageError: one cannot be read, or is none of the kinds that libraries have.
    """
    return tuple(one if isinstance(one, Library) else _library(one) for one in given)


def _library(path: Path) -> Library:
    if path.suffix not in _LIBRARIES:
        raise UsageError(f"{path.name} is no library file", hint="give .ir files of patterns, and .c and .h files")
    try:
        return Library(path, read_regular(path, MAX_MODEL_BYTES).decode())
    except (OSError, UnicodeDecodeError) as err:
        why = err.strerror if isinstance(err, OSError) else "it is no text in UTF-8"
        raise UsageError(f"cannot read {path}", why=why, hint="check the path after --extern") from None
