"""The folder that a build writes into: its files change together, and what is not of a build stays as it is."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from sdk.errors import UsageError
from sdk.files import open_regular
from sdk.text import GENERATED

__all__ = ["MANIFEST", "contents_of", "file_digest", "finish_interrupted", "is_own_name", "replace_build"]

MANIFEST: Final = "manifest.json"
# A build is written whole into a folder of the first name, which then gets the second: from then on it is the one that
# counts, and whoever comes next ends what was interrupted. Both are in the folder itself, on the same disk.
_STAGE: Final = ".sdk-new-"
_READY: Final = ".sdk-ready"
_OURS: Final = re.compile(r"([^./\\\0][^/\\\0]*/){0,8}[^./\\\0][^/\\\0]*")
_WAIT_S: Final = 30.0
_HEAD_BYTES: Final = 4096  # of a text, where the line stands that says who made it


def replace_build(folder: Path, make: Callable[[Path], Collection[str] | None], *, force: bool = False) -> None:
    """Puts what ``make(scratch)`` writes, the manifest included, in the place of the build in ``folder``.

    Up to the end of ``make`` the old build stays whole. Files that no manifest lists are left alone; where the new
    build has one of that name, that takes its place with ``force`` only, or where the old one is generated too. Of
    those that the manifest lists it takes the place of edited ones that ``make`` names: it has put them aside.

    Raises:
        OSError: the folder takes nothing, or is full.
        UsageError: another build is being written there and does not end, or a file there is not ours to overwrite.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        _finish(folder)
        for left in folder.glob(f"{_STAGE}*"):
            shutil.rmtree(left)
        scratch = Path(tempfile.mkdtemp(prefix=_STAGE, dir=folder))
        try:
            aside = make(scratch) or ()
            _check_places(folder, scratch)
            if not force:
                _check_owner(folder, scratch, aside)
            os.rename(scratch, folder / _READY)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        _finish(folder)


def finish_interrupted(folder: Path) -> None:
    """Ends the replacement of a build that was interrupted, where there is one.

    Raises:
        UsageError: that cannot be done.
    """
    if not (folder / _READY).is_dir():
        return
    try:
        with _alone(folder):
            _finish(folder)
    except OSError as error:
        raise UsageError(
            f"the build in {folder} was not written to its end",
            why=f"cannot write {error.filename or folder}: {error.strerror}",
            hint="make it again: sdk build MODEL --board B -o FOLDER",
        ) from None


def contents_of(folder: Path) -> dict[str, str]:
    """Digests of the files of a build in ``folder`` by name, as its manifest has them; empty where it has none."""
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["contents"]
        return {str(name): str(value) for name, value in found.items() if is_own_name(name)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def is_own_name(name: str) -> bool:
    """Whether a build may have a file of that name: a manifest may have been written by anybody."""
    return _OURS.fullmatch(name) is not None


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keeps other builds from writing into the folder meanwhile; what they left there then is of dead processes."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        end = time.monotonic() + _WAIT_S
        while not _locked(handle):
            if time.monotonic() > end:
                hint = "name another folder with -o FOLDER"
                raise UsageError(f"another build is being written to {folder}", hint=hint)
            time.sleep(0.02)
        yield
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EINTR):
            return False
        # a file system without locks: builds that run one after the other are as safe as with them
    return True


def _names(scratch: Path) -> list[str]:
    """Files below a folder; what a C compiler would miss, and then the manifest, come last."""
    found = [path.relative_to(scratch).as_posix() for path in scratch.rglob("*") if path.is_file()]
    return sorted(found, key=lambda name: (name == MANIFEST, name.endswith(".h"), name))


def _check_places(folder: Path, scratch: Path) -> None:
    """Refuses before anything is moved what could not be moved: a folder in the place of a file, or the reverse."""
    for name in _names(scratch):
        place = folder / name
        if place.is_dir() and not place.is_symlink():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(place))
        for above in Path(name).parents:
            if os.path.lexists(folder / above) and not (folder / above).is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder / above))


def _check_owner(folder: Path, scratch: Path, aside: Collection[str]) -> None:
    """Refuses to overwrite what somebody else has written, before anything is moved; what is ``aside`` is not lost.

    Raises:
        UsageError: names the first such file.
    """
    ours = contents_of(folder)
    for name in _names(scratch):
        place = folder / name
        absent = not os.path.lexists(place)  # a link to what is not there now is somebody's
        if absent or _is_generated(place, ours.get(name)) or (name in ours and name in aside):
            continue
        if file_digest(scratch / name) != file_digest(place):
            raise UsageError(
                f"{place} is not a file that sdk build made",
                why="it is neither generated nor as the manifest beside it says, and the build has a file of that name",
                hint="name another folder with -o FOLDER, or overwrite it with --force",
            )


def _is_generated(path: Path, digest: str | None) -> bool:
    """Whether a file was made here: as the manifest tells its contents (``digest``), with the line that all generated
    texts begin with, or the manifest itself."""
    if digest is not None and file_digest(path) == digest:
        return True
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            head = file.read(_HEAD_BYTES)
        if path.name == MANIFEST:
            return isinstance(json.loads(path.read_text(encoding="utf-8"))["contents"], dict)
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return GENERATED.encode() in head


def _finish(folder: Path) -> None:
    """Moves a build that is ready into place; every step may be the last before the process is killed.

    The headers go first and come last but for the manifest: meanwhile nothing compiles, rather than files of two builds
    together.
    """
    ready = folder / _READY
    if not ready.is_dir():
        return
    if (ready / MANIFEST).is_file():
        names = _names(ready)
        for name in names:
            if name.endswith(".h"):
                (folder / name).unlink(missing_ok=True)
        for name in _stale(contents_of(folder), contents_of(ready), folder):
            (folder / name).unlink(missing_ok=True)
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(ready / name, folder / name)
    shutil.rmtree(ready)


def _stale(old: Mapping[str, str], new: Mapping[str, str], folder: Path) -> list[str]:
    """Files of the old build that the new one lacks, and that nobody has changed since."""
    return [name for name, digest in old.items() if name not in new and file_digest(folder / name) == digest]


def file_digest(path: Path) -> str | None:
    """Hex SHA-256 of a file; None where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
