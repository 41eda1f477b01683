"""The text of ``sdk new web``: names of any length, and what the formatter of its languages says of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sdk.cli import run_command

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_int8.tflite"
PRETTIER = Path(sys.prefix) / "node_modules" / ".bin" / "prettier"  # `make soak` installs it
LONG = "a_rather_long_name_of_a_model_that_somebody_chose_for_a_reason_unknown"
ENTRIES = """module net imported

graph @an_entry_that_has_a_long_name<a_size_of_the_first in 1..70, other in 4..64>(
    %the_first_input: f32[a_size_of_the_first, 24], %second: i32[other, 3]) {
  %r = relu(%the_first_input) : f32[a_size_of_the_first, 24]
  %t = add(%second, %second) : i32[other, 3]
  return %r, %t
}
graph @b(%x: f32[3]) {
  %y = relu(%x) : f32[3]
  return %y
}
"""


def test_a_long_name(tmp_path: Path, need_tool) -> None:
    """An agent would cut it; a page has it whole."""
    need_tool("node")
    assert run_command(["new", "web", str(DIGITS), "--name", LONG, "-o", str(tmp_path / "p")]) == 0
    done = subprocess.run(["npm", "test"], cwd=tmp_path / "p", capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--gpu", "webgpu"], ["--threads", "4"]], ids=["plain", "gpu", "threads"])
@pytest.mark.parametrize("name", ["m", LONG], ids=["short", "long"])
@pytest.mark.parametrize("entries", [False, True], ids=["digits", "entries"])
def test_prettier_changes_nothing(entries: bool, name: str, more: list[str], tmp_path: Path) -> None:
    assert PRETTIER.exists(), "prettier is not installed: make soak does it"
    (tmp_path / "net.ir").write_text(ENTRIES)
    model = tmp_path / "net.ir" if entries else DIGITS
    assert run_command(["new", "web", str(model), "--name", name, "-o", str(tmp_path / "p"), *more]) == 0
    done = subprocess.run([PRETTIER, "--check", "."], cwd=tmp_path / "p", capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
