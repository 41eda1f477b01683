"""Files read and written with care: only regular ones, only below their folder, and never left half written."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["NotRegularError", "below", "open_regular", "read_regular", "replacing", "size_of"]

# A pipe opened for reading waits for its writer, which may never come.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


class NotRegularError(OSError):
    """What has the name of a file is a folder, a pipe, a device or a socket."""

    def __init__(self, name: object) -> None:
        super().__init__(errno.EINVAL, "it is no regular file", str(name))


def open_regular(path: Path) -> int:
    """A descriptor of a regular file, opened for reading without waiting for anyone.

    Raises:
        NotRegularError: it is a pipe, a device, a folder or a socket.
        OSError: it cannot be opened.
    """
    return _checked(os.open(path, _FLAGS), path)


def _checked(file: int, name: object) -> int:
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise NotRegularError(name)
    return file


def read_regular(path: Path, maximum: int | None = None) -> bytes:
    """The contents of a regular file of at most ``maximum`` bytes, as it was when it was opened.

    Raises:
        NotRegularError: it is a pipe, a device, a folder or a socket.
        OSError: it cannot be read, or is larger (EFBIG); nothing of it was read then.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        if maximum is not None and size_of(file.fileno()) > maximum:
            raise OSError(errno.EFBIG, f"it has more than {maximum} bytes", str(path))
        return file.read()


def size_of(file: int) -> int:
    """Bytes of an open file."""
    return os.fstat(file).st_size


def below(root: Path, location: str) -> int | None:
    """A descriptor of the regular file ``location`` below the folder ``root``; None where that leads out of the folder.

    Links are followed as long as they stay below. Each folder on the way is then opened by its descriptor and not by
    its path, so that none can be exchanged for a link meanwhile.

    Raises:
        NotRegularError: it is a pipe, a device, a folder or a socket.
        OSError: it cannot be opened.
    """
    root = Path(os.path.realpath(root))
    path = Path(os.path.realpath(os.path.normpath(root / location)))
    if not path.is_relative_to(root) or path == root:
        return None
    *folders, name = path.relative_to(root).parts
    at = os.open(root, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        for folder in folders:
            inner = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = inner
        return _checked(os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=at), path)
    finally:
        os.close(at)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes the place of ``path`` when the block ends well; until then what was there stays whole.

    A link stays one, and the file that it names is replaced; a pipe or a device is written to as it is.

    Raises:
        OSError: the file or its folder takes nothing; nothing is left of what was written.
    """
    if _is_stream(path):
        with path.open("wb") as stream:
            yield stream
        return
    place = Path(os.path.realpath(path))
    beside = place.with_name(f".{place.name[:100]}.{secrets.token_hex(6)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    handle = os.open(beside, flags, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            if place.exists():
                os.fchmod(handle, place.stat().st_mode & 0o777)
            yield file
        os.replace(beside, place)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def _is_stream(path: Path) -> bool:
    """Whether ``path`` is something that has no place to be taken: a pipe, a device, or a descriptor's name."""
    folder = os.path.realpath(path.parent)
    return path.exists() and (not path.is_file() or folder == "/dev" or folder.startswith("/proc/"))
