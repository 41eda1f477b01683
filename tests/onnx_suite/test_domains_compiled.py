"""Operators of other domains as compiled C: the cases of their own tests, which run the interpreter, in one build."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from suite_batch import outcomes
from suite_cases import Case

FRONTEND = Path(__file__).resolve().parents[1] / "frontends" / "onnx"
TOGETHER = 120  # models of one agent


def recorded(folder: Path, pattern: str) -> dict[str, Case]:
    """The cases that these tests compare, by the names of the tests."""
    files = sorted(map(str, FRONTEND.glob(pattern)))
    assert files
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, env={**os.environ, "CASES": str(folder)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    found = {}
    for k, file in enumerate(sorted(folder.glob("*.pickle"))):
        test, data, inputs, wanted, tolerance = pickle.loads(file.read_bytes())
        model = onnx.load_model_from_string(data)
        name = f"{k} {test}"
        found[name] = Case(name, model, ((inputs, wanted),), tolerance, tolerance)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("pattern", "minimum"), [("test_microsoft_*.py", 100), ("test_ml_*.py", 40)])
def test_as_compiled_c(pattern: str, minimum: int, tmp_path: Path) -> None:
    cases = recorded(tmp_path, pattern)
    assert len(cases) >= minimum
    names = list(cases)
    for begin in range(0, len(names), TOGETHER):
        found = outcomes(names[begin : begin + TOGETHER], cases.__getitem__, tmp_path)
        assert {name: why for name, why in found.items() if why} == {}
