"""The module that the text of a program and its file of constants are."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Collection
from hashlib import sha256

import numpy as np

from sdk.compiler import ops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.text import parse_module
from sdk.compiler.verify.module import check
from sdk.errors import BuildError, UsageError
from sdk.frontends.base import ModelFile, UnknownDimsError
from sdk.frontends.program.constants import Constants, unreadable
from sdk.source import Source

__all__ = ["read_program"]


def read_program(file: ModelFile, dims: Collection[str] = ()) -> Module:
    """The module whose text a file is, with the constants that lie beside it, verified.

    Raises:
        ParseError: the text is no program, or a constant that it names is not there.
        BuildError: the verifier finds something, or it has plans already.
        UsageError: the constants cannot be read, or ``dims`` are given: a program states its own bounds.
    """
    if dims:
        message = f"{file.name} states the bounds of its dimensions itself"
        raise UnknownDimsError(tuple(dims), "leave --dim away, or change the program", message)
    try:
        text = file.data.decode()
    except UnicodeDecodeError:
        raise UsageError(f"{file.name} is not text", hint="a program is UTF-8, as sdk inspect prints it") from None
    module = parse_module(Source(text, str(file.path)), _blobs(file), ops)
    if module.stage == "planned":
        raise BuildError(f"the program {module.name} is planned already", hint="give one of an earlier stage")
    check(module, ops)
    return module


def _blobs(file: ModelFile) -> dict[str, bytes]:
    """The constants by their digests, which are computed again: a file may have been changed."""
    constants = file.beside
    if not isinstance(constants, Constants) or constants.data is None:
        return {}
    try:
        with np.load(io.BytesIO(constants.data), allow_pickle=False) as arrays:
            found = [arrays[name].tobytes() for name in arrays.files]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as err:
        raise unreadable(constants.path, str(err)) from None
    return {sha256(data).hexdigest(): data for data in found}
