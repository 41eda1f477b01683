"""The build cache: folders keyed by the content that made them, written once and whole."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import platformdirs

from sdk.errors import UsageError

CACHE_VARIABLE = "CROSSLEVEL_CACHE"
_LIMIT_BYTES = 1 << 30
_PRUNE_EVERY_S = 24 * 3600
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}


def digest(*parts: object) -> str:
    """Return a hex key of JSON-ready ``parts``; different parts never share a text form."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def cache_root() -> Path:
    """Where cached builds live: CROSSLEVEL_CACHE, or the user's cache folder."""
    given = os.environ.get(CACHE_VARIABLE)
    return Path(given) if given else Path(platformdirs.user_cache_dir("crosslevel"))


class BuildCache:
    """A folder of finished builds that several processes may share."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = (root or cache_root()) / "builds"

    def entry(self, key: str, make: Callable[[Path], None]) -> Path:
        """Return the folder of ``key``, made by ``make(folder)`` when absent.

        ``make`` works in a folder of its own that is renamed into place when it returns, so that a reader
        never sees half an entry; whoever comes second with the same key keeps the first one's result.

        Raises:
            UsageError: the cache folder cannot be written, or is full.
        """
        folder = self.root / key[:2] / key
        if folder.is_dir():
            with contextlib.suppress(OSError):  # a cache that only others may write serves all the same
                os.utime(folder)
            return folder
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
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
        self._prune_sometimes()
        return folder

    @staticmethod
    def _keep(scratch: Path, folder: Path) -> None:
        scratch.chmod(0o755)
        try:
            scratch.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise

    def _unusable(self, error: OSError) -> UsageError:
        return UsageError(
            f"cannot write the cache folder {self.root.parent}",
            why=error.strerror,
            hint=f"make room there, or name another folder: {CACHE_VARIABLE}=FOLDER sdk ...",
        )

    def _prune_sometimes(self) -> None:
        stamp = self.root / ".pruned"
        if stamp.exists() and time.time() - stamp.stat().st_mtime < _PRUNE_EVERY_S:
            return
        stamp.touch()
        self.prune(_LIMIT_BYTES)

    def prune(self, limit_bytes: int) -> None:
        """Drop scratch folders of dead processes, and the longest unused entries above ``limit_bytes``."""
        day_ago = time.time() - _PRUNE_EVERY_S
        for scratch in self.root.glob(".new-*"):
            if scratch.stat().st_mtime < day_ago:
                shutil.rmtree(scratch, ignore_errors=True)
        entries = sorted(self.root.glob("??/*"), key=lambda path: path.stat().st_mtime, reverse=True)
        held = 0
        for entry in entries:
            held += sum(path.stat().st_size for path in entry.rglob("*"))
            if held > limit_bytes:
                shutil.rmtree(entry, ignore_errors=True)
