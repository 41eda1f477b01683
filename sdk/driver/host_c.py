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
    return _link((source,), out, defines)


def _link(sources: tuple[Path, ...], out: Path, defines: tuple[str, ...] = ()) -> Path:
    target = target_for(load_board("host"))
    tool = toolchain_for(target)
    jobs = [
        CompileJob(SourceText.read(one), target, pic=True, opt="3", defines=defines, include_dirs=(one.parent,))
        for one in sources
    ]
    return tool.link(LinkJob("shared", tuple(map(tool.compile, jobs)), target), out)


def kept_library(*sources: Path) -> Path:
    """The library of C files, which may include headers beside the first, from the cache or made.

    Raises:
        BuildError: the compiler rejects it.
        MissingToolError: no compiler for this machine is installed.
    """
    target = target_for(load_board("host"))
    tool = toolchain_for(target)
    source = sources[0]
    texts = [path.read_text(encoding="utf-8") for path in (*sources, *sorted(source.parent.glob("*.h")))]
    key = digest("library", tool.version(), source.name, repr(target), texts)

    def make(folder: Path) -> None:
        _link(sources, folder / f"{source.stem}.so")

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
