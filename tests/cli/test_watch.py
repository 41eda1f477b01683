"""``sdk build --watch``: it builds again when a file has changed and settled, and survives a damaged one."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from sdk.cli import run_command, watch
from tests.cli.conftest import Mistake


class Clock:
    """Stands for sleep: each call makes the next of some changes, the last of which is the user's Ctrl-C."""

    def __init__(self, *events) -> None:
        self.events = list(events)

    def __call__(self, seconds: float) -> None:
        assert seconds == watch.INTERVAL_S
        if not self.events:
            raise KeyboardInterrupt
        event = self.events.pop(0)
        if event is not None:
            event()


def writes(path: Path, text: str, at: int):
    """Writes a text, as of a time of its own: files of one tick of the system's clock look alike."""

    def write() -> None:
        path.write_text(text)
        os.utime(path, ns=(at, at))

    return write


def test_a_change_counts_when_it_has_settled(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for path in (one, two):
        writes(path, "a", 1)()
    settle = [None, None]
    clock = Clock(
        None, None,  # nothing happens
        writes(one, "half", 2), writes(one, "half, whole", 3), *settle,  # one change, in two pieces
        two.unlink, *settle, writes(two, "b", 4), *settle,  # replaced
        writes(one, "half, whole", 5), *settle,  # touched
    )  # fmt: skip
    seen = []
    with pytest.raises(KeyboardInterrupt):
        seen.extend(seen.append((one.read_text(), two.exists())) for _ in watch.changes([one, two], clock))
    assert [s for s in seen if s] == [
        ("a", True), ("half, whole", True), ("half, whole", True), ("half, whole", True),
    ]  # fmt: skip


def test_the_command(desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    model = desk / "model.tflite"
    good = model.read_bytes()
    settle = [None, None]
    clock = Clock(lambda: model.write_bytes(b"damaged"), *settle, lambda: model.write_bytes(good), *settle)
    monkeypatch.setattr(watch.watch, "__defaults__", (clock,))
    assert run_command(shlex.split("build model.tflite --board host -o out --watch")) == 130
    said = capsys.readouterr()
    assert said.out.count("model.tflite for host") == 2
    assert said.err.count("watching model.tflite; Ctrl-C ends") == 3
    assert said.err.count("error: ") == 1
    assert (desk / "out" / "model.h").is_file()


def test_mistakes(mistake: Mistake, capsys: pytest.CaptureFixture[str]) -> None:
    assert mistake("sdk build modl.tflite --board host --watch").hint == "did you mean model.tflite?"
    assert run_command(shlex.split("build model.tflite --board host --watch --json")) == 2
    said = capsys.readouterr().err
    assert "--watch has no one object to print" in said
    assert "leave out --json or --watch" in said
