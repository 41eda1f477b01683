"""The Swift of ``sdk new ios`` around a language model, by a real Swift on Linux: built, tested, formatted, run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from swift_tools import swift

from sdk.cli import run_command


@pytest.mark.slow
def test_swift_talks(chat_model: Path, tmp_path: Path) -> None:
    package = tmp_path / "p"
    line = ["new", "ios", str(chat_model.parent / "hf"), "--name", "tiny", "--context", "192"]
    assert run_command([*line, "-o", str(package)]) == 0
    assert swift(package, "format", "lint", "--strict", "--recursive", ".").strip() == ""
    built = swift(package, "build")
    assert "Build complete!" in built
    assert not re.search(r"\b(warning|error):", built)
    tested = swift(package, "test")
    assert re.search(r"Executed 3 tests, with 0 failures", tested), tested
    assert len(swift(package, "run", "Demo", "Hello")) > 64
