"""Files are written whole or not at all, wherever they go."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sdk.files import NotRegularError, read_regular, replacing


def write(path: Path, text: str = "new") -> None:
    with replacing(path) as file:
        file.write(text.encode())


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write(tmp_path / "file")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["file"]


def test_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "file").chmod(0o751)
    write(tmp_path / "file")
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o751


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_one(tmp_path: Path, error: BaseException) -> None:
    (tmp_path / "file").write_text("old")

    def fail() -> None:
        with replacing(tmp_path / "file") as file:
            file.write(b"ne")
            file.flush()
            raise error

    with pytest.raises(type(error)):
        fail()
    assert (tmp_path / "file").read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_links_stay(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "link").symlink_to("inner/file")
    for text in ("one", "two"):
        write(tmp_path / "link", text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "inner" / "file").read_text() == text


def test_devices_pipes_and_descriptors_are_written_to(tmp_path: Path) -> None:
    write(Path("/dev/null"))
    with pytest.raises(OSError, match="No space left"):
        write(Path("/dev/full"))
    reader, writer = os.pipe()
    write(Path(f"/dev/fd/{writer}"), "pipe")
    assert os.read(reader, 9) == b"pipe"
    os.close(reader)
    os.close(writer)
    with (tmp_path / "file").open("wb") as file:
        write(Path(f"/proc/self/fd/{file.fileno()}"), "direct")
        assert os.fstat(file.fileno()).st_ino == (tmp_path / "file").stat().st_ino
    assert (tmp_path / "file").read_text() == "direct"


def test_places_that_take_nothing(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none" / "file", tmp_path / ("n" * 300)):
        with pytest.raises(OSError, match=r"."):
            write(path)
    assert os.listdir(tmp_path) == []


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(bytes(9))
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(NotRegularError):
            read_regular(path)
    assert read_regular(tmp_path / "file", 9) == bytes(9)
    with pytest.raises(OSError, match="more than 8 bytes"):
        read_regular(tmp_path / "file", 8)
