"""Programs written as files: the text of a module, ``NAME.ir``, and beside it ``NAME.npz`` with its large constants."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sdk.compiler.ir.module import Module
from sdk.compiler.ir.text import collect_blobs, print_module
from sdk.files import replacing

__all__ = ["save_program"]


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
