"""The files that a build is made of, read once: the model with what lies beside it, and the user's libraries."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sdk.errors import UsageError
from sdk.files import NotRegularError, read_regular
from sdk.frontends.kinds import refuse_folder, refuse_others

if TYPE_CHECKING:
    from sdk.frontends.onnx.externals import Externals

__all__ = ["Library", "ModelFile", "read_libraries", "read_model_file", "unreadable_constants"]

MOST_BYTES: Final = (1 << 31) - 1  # of a model file: neither kind of model can be larger
_LIBRARIES: Final = (".ir", ".c", ".h")


@dataclass(frozen=True)
class ModelFile:
    """A model as it was when it was read: all that a build, an import, a reference or a report takes of it comes from
    here, so that a file that changes meanwhile changes nothing. ``externals`` is what an ONNX model has in files beside
    it, None where it has none."""

    path: Path
    data: bytes = field(repr=False)
    externals: Externals | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.name

    @property
    def kind(self) -> str:
        """".tflite", ".onnx" or ".ir"."""
        return self.path.suffix.lower()

    @cached_property
    def digest(self) -> str:
        """Hex SHA-256 of the file; where data lies beside it, of that too."""
        own = hashlib.sha256(self.data).hexdigest()
        beside = self.externals.digest if self.externals is not None else ""
        return hashlib.sha256(f"{own}\n{beside}".encode()).hexdigest() if beside else own

    @cached_property
    def constants(self) -> bytes | None:
        """The file of large constants beside a program; None where there is none.

        A program names its constants by their digests, so that they need no part in ``digest``.

        Raises:
            UsageError: it cannot be read.
        """
        path = self.path.with_suffix(".npz")
        try:
            return read_regular(path)
        except FileNotFoundError:
            return None
        except OSError as err:
            raise unreadable_constants(path, err.strerror or str(err)) from None


def unreadable_constants(path: Path, why: str) -> UsageError:
    """The error for a file of constants that is not as it was written."""
    return UsageError(f"cannot read {path}", why=why, hint="it holds the constants: keep it as it was written")


def read_model_file(given: Path | ModelFile) -> ModelFile:
    """The file of a model; one that was read already as it is.

    Raises:
        UsageError: it cannot be read, or is of another kind; the hint says what to do with that.
    """
    if isinstance(given, ModelFile):
        return given
    if given.is_dir():
        raise refuse_folder(given)
    try:
        data = read_regular(given, MOST_BYTES)
    except OSError as err:
        small = "give a smaller model" if err.errno == errno.EFBIG else "give the path of a .tflite, .onnx or .ir file"
        hint = "write it to a file first" if isinstance(err, NotRegularError) else small
        raise UsageError(f"cannot read {given}", why=err.strerror or str(err), hint=hint) from None
    refuse_others(given, data)
    return ModelFile(given, data, _externals(given, data))


def _externals(path: Path, data: bytes) -> Externals | None:
    if path.suffix.lower() != ".onnx" or b"location" not in data:
        return None
    # the onnx package takes long to import, so only such a model loads it
    externals: Externals | None = import_module("sdk.frontends.onnx.reader").externals_of(data, path.parent)
    return externals


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
        return Library(path, read_regular(path, MOST_BYTES).decode())
    except (OSError, UnicodeDecodeError) as err:
        raise UsageError(f"cannot read {path}", why=str(err), hint="check the path after --extern") from None
