"""Programs as files: the text of a module, ``NAME.ir``, and beside it ``NAME.npz`` with its large constants."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Collection
from hashlib import sha256
from pathlib import Path

import numpy as np

from sdk.compiler import ops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.text import collect_blobs, parse_module, print_module
from sdk.compiler.ir.verify import check
from sdk.driver.files import ModelFile, unreadable_constants
from sdk.errors import BuildError, UsageError
from sdk.files import replacing
from sdk.source import Source

__all__ = ["read_program", "save_program"]


def save_program(module: Module, path: Path) -> None:
    """Writes a module as ``path`` (``NAME.ir``) and, where it has large constants, ``NAME.npz``: what every command
    reads in place of a model file."""
    blobs = collect_blobs(module)
    if blobs:
        arrays = {digest: np.frombuffer(data, dtype=np.uint8) for digest, data in blobs.items()}
        with replacing(path.with_suffix(".npz")) as file:
            np.savez(file, allow_pickle=False, **arrays)
    with replacing(path) as file:
        file.write(print_module(module).encode())


def read_program(file: ModelFile, dims: Collection[str] = ()) -> Module:
    """The module whose text a file is, with the constants that lie beside it, verified.

    Raises:
        ParseError: the text is no program, or a constant that it names is not there.
        BuildError: the verifier finds something, or it has plans already.
        UsageError: the constants cannot be read, or ``dims`` are given: a program states its own bounds.
    """
    if dims:
        raise UsageError(
            f"{file.name} states the bounds of its dimensions itself", hint="leave --dim away, or change the program"
        )
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
    data = file.constants
    if data is None:
        return {}
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            found = [arrays[name].tobytes() for name in arrays.files]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as err:
        raise unreadable_constants(file.path.with_suffix(".npz"), str(err)) from None
    return {sha256(data).hexdigest(): data for data in found}
