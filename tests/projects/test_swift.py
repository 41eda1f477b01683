"""Packages of ``sdk new ios`` by a real Swift on Linux: built, tested, formatted, their demo run."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from sessions import two_entries
from swift_tools import swift
from test_kotlin import STREAM

from sdk.cli import run_command

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).with_name("swift")
DIGITS = ROOT / "examples" / "digits" / "digits_int8.tflite"
LIMIT = 300  # seconds that a first build may take


@pytest.mark.slow
def test_swift_takes_packages(tmp_path: Path) -> None:
    """An int8 model, a weights file with a size that is chosen, a state, and two entries called as words of Swift."""
    (tmp_path / "sum.ir").write_text(STREAM)
    batch = [str(DIGITS.with_name("digits.onnx")), "--dim", "batch=1:8"]
    packages = {
        "whole": [str(DIGITS)],
        "mapped": [*batch, "--weights", "file"],
        "state": [str(tmp_path / "sum.ir")],
        "words": two_entries(tmp_path),
    }
    for name, model in packages.items():
        package = tmp_path / name
        assert run_command(["new", "ios", *model, "--name", name, "-o", str(package)]) == 0
        assert swift(package, "format", "lint", "--strict", "--recursive", ".").strip() == ""
        for extra in SOURCES.glob("WeightsTests.swift" if name == "mapped" else "StreamTests.swift"):
            if name in ("mapped", "state"):
                text = extra.read_text().replace("NAME", name.title())
                (package / "Tests" / f"{name.title()}KitTests" / extra.name).write_text(text)
        start = time.monotonic()
        built = swift(package, "build")
        assert "Build complete!" in built
        assert time.monotonic() - start < LIMIT
        assert not re.search(r"\b(warning|error):", built)
        tested = swift(package, "test")
        assert re.search(rf"Executed {2 if name in ('mapped', 'state') else 1} tests?, with 0 failures", tested), tested
        ran = swift(package, "run", "Demo")
        assert re.search(r"\d+ runs: median [\d.]+ ms", ran)
