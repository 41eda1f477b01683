"""C of our own that runs in this process: compiled for this machine, loaded, and cached like every build."""

from __future__ import annotations

import ctypes
import tempfile
from pathlib import Path

from sdk.boards import load_board
from sdk.toolchains import CompileJob, LinkJob, SourceText, target_for, toolchain_for

__all__ = ["load_c", "shared_library"]


def shared_library(source: Path, out: Path, defines: tuple[str, ...] = ()) -> Path:
    """Writes the library of one C file to ``out``, and returns that.

    Raises:
        BuildError: the compiler rejects it.
        MissingToolError: no compiler for this machine is installed.
    """
    target = target_for(load_board("host"))
    tool = toolchain_for(target)
    unit = tool.compile(CompileJob(SourceText.read(source), target, pic=True, opt="3", defines=defines))
    return tool.link(LinkJob("shared", (unit,), target), out)


def load_c(source: Path, defines: tuple[str, ...] = ()) -> ctypes.CDLL:
    """A library of one C file.

    Raises:
        BuildError: the compiler rejects it.
        MissingToolError: no compiler for this machine is installed.
    """
    # a library that is loaded cannot be deleted everywhere
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        return ctypes.CDLL(str(shared_library(source, Path(folder) / f"{source.stem}.so", defines)))
