"""What is built: a model's file for a board, as the options say, all of it read and checked before anything is made."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from sdk.boards import Board
from sdk.codegen_c.base import Backend
from sdk.driver.backends import backend_for
from sdk.driver.files import read_model_file
from sdk.driver.gpus import row_for
from sdk.driver.options import BuildOptions
from sdk.errors import UsageError
from sdk.frontends.base import ModelFile

__all__ = ["Job", "job_of", "prefix_of"]

RUNTIME_PREFIX = "sdk_rt"


@dataclass(frozen=True)
class Job:
    """A build: ``prefix`` starts the names in its code, which ``backend`` prints. Capabilities of the board ``beyond``
    those that compilers are told of the code turns on itself. ``gpu_row`` is the row of ``machines.gpus`` that its
    kernels are made by ("": it has none)."""

    file: ModelFile
    board: Board
    options: BuildOptions
    prefix: str
    backend: Backend
    beyond: frozenset[str] = frozenset()
    gpu_row: str = ""


def job_of(model: ModelFile | Path, board: Board, options: BuildOptions) -> Job:
    """The build of a model with the files of libraries read.

    Raises:
        UsageError: a file cannot be read, a name is no C identifier, or the backend does not suit board and options.
    """
    options = options.read()
    file = read_model_file(model, options.importers, options.tensors)
    backend = backend_for(board, options)
    row = row_for(board, options.gpu) if options.gpu else ""
    return Job(file, board, options, prefix_of(file, options), backend, gpu_row=row)


def prefix_of(model: ModelFile | Path, options: BuildOptions) -> str:
    """The C prefix: the option's, or the file's name made an identifier.

    Raises:
        UsageError: the given name is no C identifier.
    """
    if options.name is not None:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", options.name):
            raise UsageError(f"{options.name!r} is not a C identifier", hint="letters, digits and _, a letter first")
        if options.name.lower().startswith(RUNTIME_PREFIX):
            raise UsageError(f"{options.name!r} begins like the runtime's own names", hint="choose another --name")
        return options.name
    stem = model.stem if isinstance(model, Path) else model.path.stem
    name = re.sub(r"[^A-Za-z0-9_]+", "_", stem).strip("_")
    return name if name[:1].isalpha() and not name.lower().startswith(RUNTIME_PREFIX) else f"m_{name}"
