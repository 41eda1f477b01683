"""PyTorch's own samples of all of its operators, as a user would export them: their results equal PyTorch's, or the
operator is refused; never another result, and never an error of the importer itself."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SEED = int(os.environ.get("CROSSLEVEL_FUZZ_SEED", datetime.datetime.now(datetime.UTC).strftime("%Y%m%d")))
SOME = 15  # operators in a run
PARTS = 12  # of all in the long tests
SCRIPT = Path(__file__).with_name("torch_samples.py")
ROOT = Path(__file__).resolve().parents[3]


def run(seed: int, count: int, *how: str) -> dict[str, Any]:
    command = [sys.executable, str(SCRIPT), str(seed), str(count), *how]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"seed {seed}: {found['found']}")
    return found


def test_some_operators() -> None:
    found = run(1, 1, "--some", str(SOME))
    assert found["faults"] == []
    assert found["found"]["equal"] > SOME // 2


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_all_operators(part: int) -> None:
    found = run(SEED, 3, "--part", f"{part}/{PARTS}")
    assert found["faults"] == []
    assert found["found"]["equal"] > found["found"]["refused"]


def test_a_wrong_result_is_seen() -> None:
    found = run(1, 1, "--planted")
    assert found["faults"]
    assert all("wrong" in fault for fault in found["faults"])
