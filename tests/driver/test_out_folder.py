"""The folder that a build writes into: whole at every moment, the user's own files untouched."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from sdk import driver
from sdk.boards import load_board
from sdk.driver import out_folder
from sdk.driver.built import load_built
from sdk.driver.options import BuildOptions
from sdk.driver.out_folder import MANIFEST, contents_of, file_digest, finish_interrupted, replace_build
from sdk.errors import UsageError
from sdk.report import BuildReport

HOST = load_board("host")
DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.tflite"
# what the steps of a replacement are made of
STEPS = ("rename", "replace", "unlink", "rmdir", "mkdir")
KILLED = -signal.SIGKILL


def generation(folder: Path, which: str) -> None:
    """Writes a build into a folder: two files that go together, one that only this build has, and the manifest."""
    (folder / "agent").mkdir(exist_ok=True)
    for name in ("m.c", "m.h", "agent/m_glue.c", f"only_{which}.c"):
        (folder / name).write_text(which)
    names = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]
    manifest = {"which": which, "contents": {name: file_digest(folder / name) for name in names}}
    (folder / MANIFEST).write_text(json.dumps(manifest))


def listing(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): p.read_text() for p in folder.rglob("*") if p.is_file()}


def state(which: str) -> dict[str, str]:
    found = {name: which for name in ("m.c", "m.h", "agent/m_glue.c", f"only_{which}.c")}
    return {**found, "mine.c": "mine", "agent/mine.txt": "mine"}


def build(out: Path, emit: str = "c", **options: object) -> BuildReport:
    return driver.build(DIGITS, HOST, BuildOptions(**options), emit=emit, out=out)  # type: ignore[arg-type]


def user_files(folder: Path) -> None:
    (folder / "agent").mkdir(parents=True, exist_ok=True)
    (folder / "mine.c").write_text("mine")
    (folder / "agent" / "mine.txt").write_text("mine")


def read(folder: Path) -> dict[str, str]:
    """The files of a folder without its manifest, which must tell them."""
    found = listing(folder)
    which = json.loads(found.pop(MANIFEST))["which"]
    assert found["m.c"] == which
    return found


def forked(work: Callable[[], None]) -> int:
    """How a process of its own ends that does some work: 0, or minus the signal that killed it."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_at(step: int) -> None:
    """Kills this process before the step with that number."""
    left = [step]
    for name in STEPS:
        real = getattr(os, name)

        def counting(*arguments: object, _real: Callable[..., object] = real, **more: object) -> object:
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return _real(*arguments, **more)

        setattr(os, name, counting)


def test_killed_at_any_step(tmp_path: Path) -> None:
    ends = set()
    for step in range(100):
        folder = tmp_path / str(step)
        user_files(folder)
        replace_build(folder, lambda at: generation(at, "old"))

        def rebuild(folder: Path = folder, step: int = step) -> None:
            kill_at(step)
            replace_build(folder, lambda at: generation(at, "new"))

        end = forked(rebuild)
        raw = {n: t for n, t in listing(folder).items() if not n.startswith(".sdk-")}
        compiles = {raw[name] for name in ("m.c", "m.h", "agent/m_glue.c") if name in raw}
        assert "m.h" not in raw or len(compiles) == 1, "files of two builds that compile together"
        again = tmp_path / "again"
        shutil.copytree(folder, again)
        finish_interrupted(folder)
        found = read(folder)
        found = {name: text for name, text in found.items() if not name.startswith(".sdk-new-")}
        assert found in (state("old"), state("new"))
        ends.add(found["m.c"])
        replace_build(again, lambda at: generation(at, "third"))
        assert read(again) == state("third")
        assert not list(again.glob(".sdk-*"))
        shutil.rmtree(again)
        if end == 0:
            break
        assert end == KILLED
    else:
        pytest.fail("it has more steps than were tried")
    assert ends == {"old", "new"}
    assert step > 10


@pytest.mark.parametrize("room", [0, 2, 40])
def test_a_full_disk_leaves_the_old_build(tmp_path: Path, room: int) -> None:
    folder = tmp_path / "out"
    user_files(folder)
    replace_build(folder, lambda at: generation(at, "old"))

    def rebuild() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        try:
            replace_build(folder, lambda at: generation(at, "new"))
        except OSError as error:
            os._exit(0 if error.errno == errno.EFBIG else 2)

    assert forked(rebuild) == 0
    assert read(folder) == state("old")
    assert not list(folder.glob(".sdk-*"))


def test_changed_files_of_an_old_build_stay(tmp_path: Path) -> None:
    user_files(tmp_path)
    replace_build(tmp_path, lambda at: generation(at, "old"))
    (tmp_path / "only_old.c").write_text("changed by hand")
    replace_build(tmp_path, lambda at: generation(at, "new"))
    assert read(tmp_path) == {**state("new"), "only_old.c": "changed by hand"}


def test_a_manifest_cannot_have_other_files_removed(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    user_files(folder)
    (tmp_path / "precious").write_text("x")
    digest = file_digest(tmp_path / "precious")
    names = ("../precious", str(tmp_path / "precious"), "agent/../../precious", "..")
    (folder / MANIFEST).write_text(json.dumps({"contents": dict.fromkeys(names, digest)}))
    assert contents_of(folder) == {}
    replace_build(folder, lambda at: generation(at, "new"))
    assert (tmp_path / "precious").read_text() == "x"
    for damaged in ("", "[]", "{}", '{"contents": 3}', '{"contents": [1]}'):
        (folder / MANIFEST).write_text(damaged)
        assert contents_of(folder) == {}


@pytest.mark.parametrize("clash", ["m.c", "agent"])
def test_something_else_in_the_place_of_a_file(tmp_path: Path, clash: str) -> None:
    if clash == "agent":
        (tmp_path / "agent").write_text("mine")
    else:
        (tmp_path / clash).mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_build(tmp_path, lambda at: generation(at, "new"))
    assert [p.name for p in tmp_path.iterdir()] == [clash]


def test_a_file_in_the_place_of_a_folder_of_folders(tmp_path: Path) -> None:
    """Nothing was moved when that is found, so the folder is as before, and takes a build that has no such folder."""

    def deep(at: Path) -> None:
        generation(at, "new")
        (at / "aside" / "model").mkdir(parents=True)
        (at / "aside" / "model" / "m.c").write_text("edited")

    replace_build(tmp_path, lambda at: generation(at, "old"))
    (tmp_path / "aside").write_text("mine")
    before = listing(tmp_path)
    with pytest.raises(NotADirectoryError):
        replace_build(tmp_path, deep)
    assert listing(tmp_path) == before
    replace_build(tmp_path, lambda at: generation(at, "new"))
    assert listing(tmp_path)["aside"] == "mine"


def test_a_link_to_nothing_is_not_overwritten(tmp_path: Path) -> None:
    """Such as to a file on a disk that is not there now."""
    replace_build(tmp_path, lambda at: generation(at, "old"))
    (tmp_path / "m.c").unlink()
    (tmp_path / "m.c").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match=r"m\.c is not a file that sdk build made"):
        replace_build(tmp_path, lambda at: generation(at, "new"))
    assert (tmp_path / "m.c").is_symlink()
    replace_build(tmp_path, lambda at: generation(at, "new"), force=True)
    assert (tmp_path / "m.c").read_text() == "new"


def test_two_builds_at_once_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_build(tmp_path, lambda at: generation(at, "old"))
    handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    monkeypatch.setattr(out_folder, "_WAIT_S", 0.05)
    with pytest.raises(UsageError, match="another build is being written"):
        replace_build(tmp_path, lambda at: generation(at, "new"))
    os.close(handle)
    replace_build(tmp_path, lambda at: generation(at, "new"))


def test_a_folder_that_cannot_be_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_build(tmp_path, lambda at: generation(at, "old"))
    (tmp_path / ".sdk-ready").mkdir()
    generation(tmp_path / ".sdk-ready", "new")

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", "m.c")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(UsageError, match="was not written to its end") as caught:
        load_built(tmp_path)
    assert "make it again" in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["../secret.c", "/etc/passwd", ".sdk-ready/m.c", "agent/../m.c", "a\\b", ""])
def test_a_manifest_that_names_files_of_others(tmp_path: Path, name: str) -> None:
    build(tmp_path)
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    manifest["model_files"].append(name)
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(UsageError, match="is not a folder that sdk build made") as caught:
        load_built(tmp_path)
    assert repr(name) in (caught.value.why or "")


def test_a_pipe_among_the_files_of_a_build(tmp_path: Path) -> None:
    build(tmp_path)
    (tmp_path / "digits_int8.c").unlink()
    os.mkfifo(tmp_path / "digits_int8.c")
    with pytest.raises(UsageError, match="is not a folder that sdk build made"):
        load_built(tmp_path)


def test_what_was_not_generated_is_not_overwritten(tmp_path: Path) -> None:
    build(tmp_path, name="net")
    for name, text in (("net.c", "int mine;\n"), ("manifest.json", '{"name": "an app"}')):
        kept = (tmp_path / name).read_text()
        (tmp_path / name).write_text(text)
        before = listing(tmp_path)
        with pytest.raises(UsageError, match="is not a file that sdk build made") as caught:
            build(tmp_path, name="net", isa="scalar")
        assert "--force" in (caught.value.hint or "")
        assert listing(tmp_path) == before
        (tmp_path / name).write_text(kept)
    (tmp_path / "net.h").write_text((tmp_path / "net.h").read_text() + "\n")  # still says who made it
    build(tmp_path, name="net", isa="scalar")
    (tmp_path / "net.c").write_text("int mine;\n")
    driver.build(DIGITS, HOST, BuildOptions(name="net"), emit="c", out=tmp_path, force=True)
    assert "Generated by" in (tmp_path / "net.c").read_text()


def test_libraries_of_the_user_are_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "mine.h").write_text("#define MINE 1\n")
    build(tmp_path, externs=(tmp_path / "mine.h",))  # what the build would write is there already
    (tmp_path / "mine.h").write_text("#define MINE 2\n")
    build(tmp_path, externs=(tmp_path / "mine.h",))
    other = tmp_path / "inner" / "mine.h"
    other.parent.mkdir()
    other.write_text("#define MINE 3\n")
    build(tmp_path, externs=(other,))  # a copy that the last build wrote
    assert (tmp_path / "mine.h").read_text() == "#define MINE 3\n"
    (tmp_path / "mine.h").write_text("#define MINE 4\n")
    with pytest.raises(UsageError, match=r"mine\.h is not a file that sdk build made"):
        build(tmp_path, externs=(other,))


# --- the same from end to end -----------------------------------------------------------------------------


def test_builds_into_one_folder(tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    build(tmp_path, "lib")
    with_library = {p.name for p in tmp_path.iterdir()}
    build(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == with_library, "the sources are the same: the library is theirs"
    build(tmp_path, name="other", isa="scalar")
    names = {p.name for p in tmp_path.iterdir()}
    assert {"main.c", "other.c", "other.h"} <= names
    assert not any("digits" in name for name in names), "what is left of another build gets compiled with this one"
    assert load_built(tmp_path).sources.prefix == "other"


def test_a_build_that_fails_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path / "warm", name="other")  # so that the cache has it
    build(tmp_path / "out")
    before = listing(tmp_path / "out")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "x")

    monkeypatch.setattr("sdk.driver.built.write_files", full)
    with pytest.raises(UsageError, match="cannot write x"):
        build(tmp_path / "out", name="other")
    assert listing(tmp_path / "out") == before
