"""C of our own that runs in this process: compiled for this machine, loaded, and cached like every build."""

from __future__ import annotations

import ctypes
import tempfile
from pathlib import Path

from sdk.boards import load_board
from sdk.toolchains import CompileJob, LinkJob, SourceText, target_for, toolchain_for
from sdk.toolchains.cache import digest

__all__ = ["kept_library", "load_c", "shared_library"]


def shared_library(source: Path, out: Path, defines: tuple[str, ...] = ()) -> Path:
    """Writes the library of one C file, which may include headers beside it, to ``out``, and returns that.

    Raises:
        BuildError: the compiler rejects it.
        MissingToolError: no compiler for this machine is installed.
    """
    target = target_for(load_board("host"))
    tool = toolchain_for(target)
    job = CompileJob(
        SourceText.read(source), target, pic=True, opt="3", defines=defines, include_dirs=(source.parent,)
    )
    return tool.link(LinkJob("shared", (tool.compile(job),), target), out)


def kept_library(source: Path) -> Path:
    """The library of one C file, from the cache or made.

    Raises:
        BuildError: the compiler rejects it.
        MissingToolError: no compiler for this machine is installed.
    """
    target = target_for(load_board("host"))
    tool = toolchain_for(target)
    texts = [path.read_text(encoding="utf-8") for path in (source, *sorted(source.parent.glob("*.h")))]
    key = digest("library", tool.version(), source.name, repr(target), texts)

    def make(folder: Path) -> None:
        shared_library(source, folder / f"{source.stem}.so")

    return tool.cache.entry(key, make) / f"{source.stem}.so"


def load_c(source: Path, defines: tuple[str, ...] = ()) -> ctypes.CDLL:
    """A library of one C file.

    Raises:
        BuildError: the compiler rejects it.
        MissingToolError: no compiler for this machine is installed.
    """
    # a library that is loaded cannot be deleted everywhere
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        return ctypes.CDLL(str(shared_library(source, Path(folder) / f"{source.stem}.so", defines)))
