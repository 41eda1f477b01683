"""Every kernel runs on Oclgrind, which also reports accesses outside of buffers and races between work items."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

# Read when the first kernel is compiled or run. PoCL is no choice: its code generator stops at processors that are
# newer than itself.
os.environ.update(OCLGRIND_DATA_RACES="1", OCLGRIND_MAX_ERRORS="10")


@pytest.fixture(scope="session", autouse=True)
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes Oclgrind the one driver that the OpenCL loader finds; the file it writes its reports to."""
    program = shutil.which("oclgrind")
    assert program, "oclgrind is missing: install the Debian package oclgrind"
    driver = Path(program).resolve().parents[1] / "lib" / "oclgrind" / "liboclgrind-rt-icd.so"
    folder = tmp_path_factory.mktemp("vendors")
    (folder / "oclgrind.icd").write_text(f"{driver}\n")
    reports = tmp_path_factory.mktemp("oclgrind") / "reports.txt"
    os.environ.update(OCL_ICD_VENDORS=str(folder), OCLGRIND_LOG=str(reports))
    return reports


@pytest.fixture
def reports(simulator: Path) -> Path:
    """The file of reports, emptied."""
    if simulator.exists():
        os.truncate(simulator, 0)
    return simulator


@pytest.fixture(autouse=True)
def no_reports(reports: Path) -> Iterator[None]:
    """Fails a test whose kernels the simulator reported."""
    yield
    text = reports.read_text() if reports.exists() else ""
    assert not text.strip(), text
