"""The build cache: entries are used as they were made or not at all, in folders that nobody else writes to."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sdk import driver
from sdk.boards import load_board
from sdk.boards.files import search_path
from sdk.driver.artifact import build_sources
from sdk.driver.options import BuildOptions
from sdk.errors import UsageError
from sdk.toolchains import BuildCache, get_toolchain, zig
from sdk.toolchains import cache as caches
from sdk.toolchains.cache import cache_root, digest, private_folder

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.tflite"
KEY = digest("key")


def make(folder: Path) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "data").write_text("data")
    (folder / "agent").write_text("#!/bin/sh\n")
    (folder / "agent").chmod(0o755)


def never(folder: Path) -> None:
    pytest.fail("it is made again")


def damages() -> dict[str, Callable[[Path], object]]:
    return {
        "truncated": lambda at: os.truncate(at / "inner" / "data", 2),
        "edited": lambda at: (at / "inner" / "data").write_text("DATA"),
        "missing": lambda at: (at / "agent").unlink(),
        "more": lambda at: (at / "inner" / "more").touch(),
        "renamed": lambda at: (at / "agent").rename(at / "agent2"),
        "no program": lambda at: (at / "agent").chmod(0o644),
        "a pipe": lambda at: ((at / "agent").unlink(), os.mkfifo(at / "agent")),
        "no sum": lambda at: (at / ".sum").unlink(),
        "empty sum": lambda at: os.truncate(at / ".sum", 0),
        "garbage": lambda at: (at / ".sum").write_bytes(b"\xff"),
        "empty": lambda at: (shutil.rmtree(at), at.mkdir()),
        "a file": lambda at: (shutil.rmtree(at), at.write_text("x")),
    }


@pytest.mark.parametrize("damage", damages())
def test_a_damaged_entry_is_made_again(tmp_path: Path, damage: str) -> None:
    cache = BuildCache(tmp_path / "cache")
    folder = cache.entry(KEY, make)
    assert cache.entry(KEY, never) == folder
    damages()[damage](folder)
    assert cache.entry(KEY, make) == folder
    assert (folder / "inner" / "data").read_text() == "data"
    assert os.access(folder / "agent", os.X_OK)
    assert cache.entry(KEY, never) == folder
    assert not list(cache.root.glob(".new-*"))


def test_a_damaged_build_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSLEVEL_CACHE", str(tmp_path / "cache"))
    host = load_board("host")
    built = build_sources(DIGITS, host, BuildOptions())
    for file in (tmp_path / "cache" / "builds").rglob("*"):
        if file.is_file():
            os.truncate(file, file.stat().st_size // 2)
    assert build_sources(DIGITS, host, BuildOptions()) == built
    assert driver.verify(DIGITS, host, None, BuildOptions(), "interp", 1).passed


def test_whoever_comes_second_keeps_the_first(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path / "cache")

    def slower(folder: Path) -> None:
        cache.entry(KEY, make)
        (folder / "agent").write_text("second")

    assert (cache.entry(KEY, slower) / "agent").read_text() == "#!/bin/sh\n"


def test_a_check_takes_little(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path / "cache")

    def large(folder: Path) -> None:
        for k in range(8):
            (folder / str(k)).write_bytes(bytes(1 << 16))

    times = []
    for _ in range(10):
        begin = time.process_time()
        cache.entry(KEY, large)
        times.append(time.process_time() - begin)
    assert min(times) < 0.02


# --- folders ----------------------------------------------------------------------------------------------


def test_the_folders_are_the_users_own(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        cache = BuildCache(tmp_path / "deep" / "cache")
        folder = cache.entry(KEY, make)
    finally:
        os.umask(before)
    for path in (tmp_path / "deep" / "cache", cache.root, folder.parent, folder):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700, path


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777, 0o722])
@pytest.mark.parametrize("inner", ["", "builds", f"builds/{KEY[:2]}"])
def test_a_folder_that_others_may_write_to(tmp_path: Path, mode: int, inner: str) -> None:
    cache = BuildCache(tmp_path / "cache")
    cache.entry(KEY, make)
    (tmp_path / "cache" / inner).chmod(mode)
    with pytest.raises(UsageError, match="is not safe") as caught:
        cache.entry(KEY, never)
    assert "others may write to it" in (caught.value.why or "")
    assert ("chmod go-w" in (caught.value.hint or "")) == (mode != 0o1777)
    (tmp_path / "cache" / inner).chmod(0o755)  # one that others may read serves
    cache.entry(KEY, never)


def test_a_folder_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = BuildCache(tmp_path / "cache")
    cache.entry(KEY, make)
    own = (tmp_path / "cache").stat().st_uid
    monkeypatch.setattr(caches, "_ROOT", own + 1)
    monkeypatch.setattr(os, "geteuid", lambda: own + 2)
    with pytest.raises(UsageError, match="is not safe") as caught:
        cache.entry(KEY, never)
    assert f"it belongs to user {own}" in (caught.value.why or "")
    monkeypatch.setattr(caches, "_ROOT", own)  # what the system's administrator has put there
    cache.entry(KEY, never)


def test_the_compilers_cache_is_looked_at_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolchain = get_toolchain("zig")
    monkeypatch.delenv("ZIG_GLOBAL_CACHE_DIR")
    monkeypatch.setenv("CROSSLEVEL_CACHE", str(tmp_path / "cache"))
    environment = toolchain.environment()
    assert environment is not None
    for name in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"):
        assert environment[name] == str(tmp_path / "cache" / "zig")
    assert stat.S_IMODE((tmp_path / "cache" / "zig").stat().st_mode) == 0o700
    (tmp_path / "cache").chmod(0o777)
    with pytest.raises(UsageError, match="is not safe"):
        toolchain.environment()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(tmp_path / "open"))
    with pytest.raises(UsageError, match="is not safe"):
        toolchain.environment()


def test_no_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CROSSLEVEL_CACHE")
    monkeypatch.delenv("ZIG_GLOBAL_CACHE_DIR")
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda _: "~/.cache/crosslevel")
    for ask in (cache_root, zig.cache_folder):
        with pytest.raises(UsageError, match="no home folder") as caught:
            ask()
        assert caught.value.hint == 'export CROSSLEVEL_CACHE="$(mktemp -d)"'


@pytest.mark.parametrize("home", ["/proc/none", "/dev/null", "/dev/full/x"])
def test_a_home_that_takes_nothing_is_said_at_once(home: str, tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("CROSSLEVEL", "ZIG", "XDG"))}
    line = [sys.executable, "-m", "sdk", "build", str(DIGITS), "--board", "host", "-o", str(tmp_path / "out")]
    done = subprocess.run(
        line, env={**environment, "HOME": home}, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: cannot write the cache folder {home}/.cache/crosslevel")
    assert "/tmp" not in done.stderr


def test_a_compilers_cache_that_takes_nothing_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSLEVEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", "/proc/none")
    with pytest.raises(UsageError, match="cannot write the C compiler's cache folder /proc/none") as caught:
        build_sources(DIGITS, load_board("host"), BuildOptions())
    assert 'export ZIG_GLOBAL_CACHE_DIR="$(mktemp -d)"' in (caught.value.hint or "")


def test_a_folder_is_made_by_whoever_is_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.mkdir

    def late(path: Path, *arguments: object, **more: object) -> None:
        if path.name == "cache" and not path.exists():
            os.mkdir(path, 0o700)
        real(path, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "mkdir", late)
    assert private_folder(tmp_path / "cache", "X") == tmp_path / "cache"


def test_a_home_that_may_not_be_looked_into_has_no_boards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CROSSLEVEL_BOARDS", raising=False)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert len(search_path()) == 1
