"""The agent's folder: programs by the hash of their contents, uploads that were begun, a folder for each run."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

from sdk.devices.channel import Failure, RefusedError
from sdk.errors import UsageError

__all__ = ["Store", "Upload"]

_HASH = re.compile(r"[0-9a-f]{64}(\.part)?")
_BLOCK = 1 << 20


class Upload:
    """A program that is being sent: takes bytes in order until ``size`` are there and have the hash of its name."""

    def __init__(self, store: Store, digest: bytes, size: int) -> None:
        self.size = size
        self._store = store
        self._digest = digest
        self._name = digest.hex()
        self._hash = hashlib.sha256()
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(f"{self._name}.part", flags, 0o600, dir_fd=store.fd)
        self.offset = self._resume()

    def _resume(self) -> int:
        """How much is there of an upload that broke off."""
        found = os.fstat(self._fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > self.size:
            os.ftruncate(self._fd, 0)
            return 0
        while block := os.read(self._fd, _BLOCK):
            self._hash.update(block)
        return found.st_size

    def add(self, data: bytes) -> None:
        """Take the next bytes. Raises RefusedError when they are too many or the disk is full."""
        if len(data) > self.size - self.offset:
            raise RefusedError(Failure.REQUEST, "more bytes came than were announced")
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            raise RefusedError(Failure.ROOM, f"the agent cannot keep it: {error.strerror}") from None
        self._hash.update(data)
        self.offset += len(data)

    def finish(self) -> None:
        """Make a program of what has come. Raises RefusedError when it is not what was announced."""
        part = f"{self._name}.part"
        if self._hash.digest() != self._digest:
            with contextlib.suppress(OSError):
                os.unlink(part, dir_fd=self._store.fd)
            raise RefusedError(Failure.DAMAGED, "what came has another hash than was announced")
        os.fchmod(self._fd, 0o500)
        os.close(self._fd)  # a program that is open for writing cannot be run
        self._fd = -1
        os.rename(part, self._name, src_dir_fd=self._store.fd, dst_dir_fd=self._store.fd)

    def close(self) -> None:
        """Keep what has come, for a next time."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Store:
    """Programs below ``root``, at most ``quota`` bytes with what is begun; the ones used longest ago go first."""

    def __init__(self, root: Path, quota: int) -> None:
        self.root = root
        self.quota = quota
        self._lock = threading.Lock()
        self._busy: dict[str, int] = {}
        for folder in (root, root / "programs", root / "runs"):
            _private(folder)
        self.fd = os.open(root / "programs", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        for entry in os.scandir(root / "runs"):  # of an agent that was killed
            shutil.rmtree(entry.path, ignore_errors=True)

    @contextlib.contextmanager
    def upload(self, digest: bytes, size: int) -> Iterator[Upload | None]:
        """Take a program of ``size`` bytes, None where it is there; raise RefusedError when there is no room for it or
        it is on its way already."""
        name = digest.hex()
        with self._lock:
            if self._has(name, size):
                os.utime(name, dir_fd=self.fd)
                there = True
            else:
                there = False
                if name in self._busy:
                    raise RefusedError(Failure.BUSY, "somebody else is sending the same program")
                self._make_room(size, name)
                self._busy[name] = size
        if there:
            yield None
            return
        try:
            try:
                upload = Upload(self, digest, size)
            except OSError as error:
                raise RefusedError(Failure.ROOM, f"the agent cannot keep it: {error.strerror}") from None
            try:
                yield upload
            finally:
                upload.close()
        finally:
            with self._lock:
                del self._busy[name]

    @contextlib.contextmanager
    def used(self, digest: bytes) -> Iterator[Path]:
        """The path of a program, which stays as long as the block runs. Raises RefusedError where it is not there."""
        name = digest.hex()
        with self._lock:
            if not self._has(name, None):
                raise RefusedError(Failure.UNKNOWN, "the program is not there")
            self._busy[name] = self._busy.get(name, 0) + 1
        try:
            yield self.root / "programs" / name
        finally:
            with self._lock:
                self._busy[name] -= 1
                if not self._busy[name]:
                    del self._busy[name]

    def new_folder(self) -> Path:
        """A new folder for a run."""
        folder = self.root / "runs" / secrets.token_hex(16)
        folder.mkdir(mode=0o700)
        return folder

    def close(self) -> None:
        """Let go of the folder; programs stay, runs do not."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        for entry in os.scandir(self.root / "runs"):
            shutil.rmtree(entry.path, ignore_errors=True)

    def _has(self, name: str, size: int | None) -> bool:
        try:
            found = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        if stat.S_ISREG(found.st_mode) and size in (None, found.st_size):
            return True
        raise RefusedError(Failure.REQUEST, "a program of this hash has another size")

    def _make_room(self, size: int, wanted: str) -> None:
        """Delete what was used longest ago until ``size`` bytes more are within the quota, and fit on the disk."""
        found, held, there = [], 0, 0
        for name in os.listdir(self.fd):
            state = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
            if name == f"{wanted}.part":
                there = min(size, state.st_size)
            if name.removesuffix(".part") in (wanted, *self._busy) and _HASH.fullmatch(name):
                continue  # counted by what it will be, or in use
            if not _HASH.fullmatch(name) or not stat.S_ISREG(state.st_mode):
                raise RefusedError(Failure.PLACE, "the agent's folder has something in it that is not the agent's")
            found.append((state.st_mtime, name, state.st_size))
            held += state.st_size
        held += sum(self._held(name, value) for name, value in self._busy.items())
        for _, name, old in sorted(found):
            if held + size <= self.quota and self._free() >= size - there:
                break
            os.unlink(name, dir_fd=self.fd)
            held -= old
        if held + size > self.quota:
            raise RefusedError(Failure.ROOM, f"the agent keeps at most {self.quota} bytes, and {held} are in use")
        if (free := self._free()) < size - there:
            raise RefusedError(Failure.ROOM, f"its disk has {free} bytes free, and {size - there} are to come")

    def _free(self) -> int:
        """Bytes that the disk still takes."""
        disk = os.fstatvfs(self.fd)
        return disk.f_bavail * disk.f_frsize

    def _held(self, name: str, announced: int) -> int:
        """Bytes of what must stay: a program that runs, or an upload under way."""
        with contextlib.suppress(FileNotFoundError):
            return os.stat(name, dir_fd=self.fd, follow_symlinks=False).st_size
        return announced


def _private(folder: Path) -> None:
    """Make a folder for this user alone; raise UsageError where it is somebody else's, open to others, or a link."""
    hint = "name another with --folder DIR"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
    except OSError as error:
        raise UsageError(f"cannot make the agent's folder {folder}", why=error.strerror, hint=hint) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise UsageError(
            f"the agent's folder {folder} is not safe",
            why="it must be a folder of yours, no link, that nobody else may enter",
            hint=hint,
        )
