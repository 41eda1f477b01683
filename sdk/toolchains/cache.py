"""The build cache: folders keyed by the content that made them, written once and whole, checked at every use."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shlex
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Final

import platformdirs

from sdk.errors import UsageError
from sdk.files import open_regular

CACHE_VARIABLE = "CROSSLEVEL_CACHE"
SUM = ".sum"  # the digest of the rest of an entry
_LIMIT_BYTES = 1 << 30
_LARGE_BYTES = 1 << 26  # of an entry: room is made at once, and not only once a day
_PRUNE_EVERY_S = 24 * 3600
_IN_USE_S = 3600  # since an entry was asked for: somebody may still read it
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_ROOT: Final = 0


def digest(*parts: object) -> str:
    """Return a hex key of JSON-ready ``parts``; different parts never share a text form."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def cache_root() -> Path:
    """Where cached builds live: CROSSLEVEL_CACHE, or the user's cache folder.

    Raises:
        UsageError: the user has no home folder.
    """
    given = os.environ.get(CACHE_VARIABLE)
    root = Path(given) if given else Path(platformdirs.user_cache_dir("crosslevel"))
    if not given and not root.is_absolute():
        raise UsageError("there is no home folder to keep builds in", hint=elsewhere(CACHE_VARIABLE))
    return root


def elsewhere(variable: str) -> str:
    """The command that makes a cache folder which is nobody else's; no name that others can foresee."""
    return f'export {variable}="$(mktemp -d)"'


def private_folder(folder: Path, variable: str) -> Path:
    """Make ``folder``, which ``variable`` names, for this user alone where it is not there, and return it.

    Programs in it are run: one that somebody else owns or may write to is no place for them.

    Raises:
        UsageError: it is such a folder.
        OSError: it cannot be made.
    """
    try:
        found = folder.stat()
    except FileNotFoundError:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.stat()
    if found.st_uid not in (os.geteuid(), _ROOT):
        why, hint = f"it belongs to user {found.st_uid}, who may put programs into it", elsewhere(variable)
    elif found.st_mode & _OTHERS and stat.S_ISDIR(found.st_mode):
        why = f"others may write to it (its mode is {stat.S_IMODE(found.st_mode):o}), and what is in it is run"
        hint = elsewhere(variable)
        if not found.st_mode & stat.S_ISVTX:  # those are shared on purpose
            hint = f"chmod go-w {shlex.quote(str(folder))}, if nobody else has used it, or {hint}"
    else:
        return folder
    raise UsageError(f"the cache folder {folder} is not safe", why=why, hint=hint)


class BuildCache:
    """A folder of finished builds that several processes of one user may share."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = (root or cache_root()) / "builds"

    def entry(self, key: str, make: Callable[[Path], None]) -> Path:
        """Return the folder of ``key``, made by ``make(folder)`` when absent or no longer as it was made.

        ``make`` works in a folder of its own that is renamed into place when it returns, so that a reader
        never sees half an entry; whoever comes second with the same key keeps the first one's result.

        Raises:
            UsageError: the cache folder cannot be written, is full, or may be written by others.
        """
        folder = self.root / key[:2] / key
        try:
            for place in (self.root.parent, self.root, folder.parent):
                private_folder(place, CACHE_VARIABLE)
            if _is_whole(folder):
                with contextlib.suppress(OSError):  # a cache that only others may write serves all the same
                    os.utime(folder)
                return folder
            scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=self.root))
        except OSError as error:
            raise self._unusable(error) from error
        try:
            make(scratch)
            self._keep(scratch, folder)
        except OSError as error:
            if error.errno in _FULL:
                raise self._unusable(error) from error
            raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        self._prune_after(folder)
        return folder

    @staticmethod
    def _keep(scratch: Path, folder: Path) -> None:
        (scratch / SUM).write_text(_sum(scratch), encoding="ascii")
        try:
            scratch.rename(folder)
        except OSError:
            if not folder.exists():
                raise
            if not _is_whole(folder):
                damaged = Path(tempfile.mkdtemp(prefix=".new-", dir=scratch.parent))
                with contextlib.suppress(FileNotFoundError):  # whoever else found it damaged was faster
                    folder.rename(damaged / "damaged")
                shutil.rmtree(damaged, ignore_errors=True)
                with contextlib.suppress(OSError):
                    scratch.rename(folder)
                if not _is_whole(folder):
                    raise

    def _unusable(self, error: OSError) -> UsageError:
        return UsageError(
            f"cannot write the cache folder {self.root.parent}",
            why=error.strerror,
            hint=f"make room there, or name another folder: {CACHE_VARIABLE}=FOLDER sdk ...",
        )

    def _prune_after(self, made: Path) -> None:
        stamp = self.root / ".pruned"
        recent = stamp.exists() and time.time() - stamp.stat().st_mtime < _PRUNE_EVERY_S
        if recent and _bytes(made) < _LARGE_BYTES:
            return
        stamp.touch()
        self.prune(_LIMIT_BYTES)

    def prune(self, limit_bytes: int) -> None:
        """Drop scratch folders of dead processes, and the longest unused entries above ``limit_bytes``, but for those
        of the last hour: one that was just made may be larger than the limit."""
        now = time.time()
        for scratch, used in _used(self.root.glob(".new-*")):
            if used < now - _PRUNE_EVERY_S:
                shutil.rmtree(scratch, ignore_errors=True)
        held = 0
        for entry, used in sorted(_used(self.root.glob("??/*")), key=itemgetter(1), reverse=True):
            held += _bytes(entry)
            if held > limit_bytes and used < now - _IN_USE_S:
                shutil.rmtree(entry, ignore_errors=True)


def _used(folders: Iterable[Path]) -> Iterator[tuple[Path, float]]:
    """Folders and when they were last used; other processes prune too, so some may be gone."""
    for folder in folders:
        with contextlib.suppress(FileNotFoundError):
            yield folder, folder.stat().st_mtime


def _bytes(folder: Path) -> int:
    total = 0
    for at, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.stat(os.path.join(at, name)).st_size
    return total


def _sum(folder: Path) -> str:
    """The digest of all files below a folder: names, permissions and contents."""
    whole = hashlib.sha256()
    found = sorted((Path(at, name) for at, _, names in os.walk(folder) for name in names), key=str)
    for path in found:
        if path != folder / SUM:
            with os.fdopen(open_regular(path), "rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            runs = bool(path.stat().st_mode & stat.S_IXUSR)
            whole.update(f"{path.relative_to(folder).as_posix()!r} {runs} {content}\n".encode())
    return whole.hexdigest()


def _is_whole(folder: Path) -> bool:
    """Whether an entry is there and as it was made: disks fill, programs are killed, people look into folders."""
    try:
        return (folder / SUM).read_text(encoding="ascii") == _sum(folder)
    except (OSError, ValueError):
        return False
