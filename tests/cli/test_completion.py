"""Completion: what shells are offered at each place, and that bash asks and gets it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete, get_completion_class

from sdk.boards import board_names
from sdk.cli import VERBS, cli


def offered(line: str) -> dict[str, str | None]:
    """Words offered for the last of a command line, with what is said of each."""
    *words, begin = line.split(" ")[1:]
    found = ShellComplete(cli, {}, "sdk", "_SDK_COMPLETE").get_completions(words, begin)
    return {item.value: item.help for item in found}


def test_verbs() -> None:
    assert list(offered("sdk ")) == list(VERBS)
    assert list(offered("sdk ver")) == ["verify"]
    assert "show" in offered("sdk boards ")


def test_options() -> None:
    assert {"--board", "--arena-limit", "--opt"} <= set(offered("sdk build model.tflite --"))
    assert set(offered("sdk build model.tflite --emit ")) == {"c", "lib", "firmware"}


@pytest.mark.parametrize("line", ["sdk build m.tflite --board ", "sdk run --board ", "sdk boards show "])
def test_boards(line: str) -> None:
    found = offered(line)
    assert set(found) == set(board_names())
    assert found["microbit"]
    assert set(offered(f"{line}micro")) == {"microbit"}


def test_a_board_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSLEVEL_BOARDS", str(tmp_path))
    (tmp_path / "mine.toml").write_text('schema = 1\nextends = "microbit"\n[board]\ntitle = "Mine"\n')
    assert offered("sdk build m.tflite --board min") == {"mine": "Mine"}
    (tmp_path / "mine.toml").write_text("[")
    assert offered("sdk build m.tflite --board min") == {}  # no message into the middle of a command line


def test_what_depends_on_the_board() -> None:
    assert offered("sdk build m.tflite --board microbit --region ") == {"ram=": "16,384 bytes"}
    assert offered("sdk build m.tflite --region ") == {}
    assert "dsp" in offered("sdk build m.tflite --board nucleo_l4r5zi --isa ")
    assert "dsp" not in offered("sdk build m.tflite --board microbit --isa ")
    assert offered("sdk build m.tflite --board hots --isa ") == {}


def test_stages() -> None:
    found = set(offered("sdk inspect model.tflite --stage "))
    assert {"imported", "typed", "scheduled", "planned", "fold", "plan-memory"} <= found
    assert set(offered("sdk inspect m.tflite --stage pla")) == {"planned", "plan-memory"}


def test_entries(desk: Path, works: Callable[[str], str]) -> None:
    (desk / "two.ir").write_text(
        "module two imported\n\n"
        "graph @add(%x: f32[4]) {\n  %y = add(%x, %x) : f32[4]\n  return %y\n}\n\n"
        "graph @neg(%x: f32[4]) {\n  %y = neg(%x) : f32[4]\n  return %y\n}\n"
    )
    assert list(offered("sdk run two.ir --entry ")) == ["add", "neg"]
    works("sdk build two.ir --board host -o made")
    assert list(offered("sdk bench made --board host --entry ")) == ["add", "neg"]
    assert offered("sdk run none.ir --entry ") == {}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(works: Callable[[str], str], shell: str) -> None:
    script = works(f"sdk completion {shell}")
    kind = get_completion_class(shell)
    assert kind is not None
    assert f"_SDK_COMPLETE={shell}_complete" in script


def test_bash_asks_and_gets(tmp_path: Path) -> None:
    program = tmp_path / "sdk"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sdk "$@"\n')
    program.chmod(0o755)
    script = 'eval "$(sdk completion bash)"; COMP_WORDS=(sdk build m --board micro); COMP_CWORD=4; '
    script += '_sdk_completion sdk; echo "${COMPREPLY[@]}"'
    environment: dict[str, Any] = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=False, timeout=60, env=environment
    )
    assert (done.stdout, done.stderr) == ("microbit\n", "")
