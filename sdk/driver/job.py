"""What is built: a model's file for a board, as the options say, all of it read and checked before anything is made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sdk.boards import Board
from sdk.codegen_c.base import Backend
from sdk.driver.backends import backend_for
from sdk.driver.files import read_model_file
from sdk.driver.gpus import row_for
from sdk.driver.options import BuildOptions
from sdk.driver.prefix import prefix_of
from sdk.frontends.base import ModelFile

__all__ = ["Job", "job_of"]

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
