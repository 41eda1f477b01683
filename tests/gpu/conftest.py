"""Programs for GPUs run in processes of their own: drivers are chosen by their environment, once."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.work import called

VENDORS = "/etc/OpenCL/vendors"
LOADER = "libOpenCL.so.1"


def _process(environment: dict[str, str]) -> ProcessPoolExecutor:
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        pool.submit(os.getpid).result()
    finally:
        os.environ.clear()
        os.environ.update(before)
    return pool


def _in(pool: ProcessPoolExecutor, function: Callable[..., Any], *given: Any) -> Any:
    fine, value = pool.submit(called, function, *given).result()
    assert fine, value
    return value


@pytest.fixture(scope="session")
def pocl() -> Iterator[Callable[..., Any]]:
    """Calls a function in a process where OpenCL is PoCL."""
    assert Path(VENDORS, "pocl.icd").is_file(), "PoCL is missing: install the Debian package pocl-opencl-icd"
    with _process({"OCL_ICD_VENDORS": VENDORS}) as pool:
        yield lambda function, *given: _in(pool, function, *given)


@pytest.fixture(scope="session")
def lying(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """``lying(lie, function, ...)``: the same where the OpenCL library lies; "" is the truth, "none": there is none."""
    folder, empty = tmp_path_factory.mktemp("lying"), tmp_path_factory.mktemp("empty")
    for name in (LOADER, "libOpenCL.so"):
        (empty / name).write_text("no library")
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler, "gcc is missing"
    source = Path(__file__).parent / "lying_opencl.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(folder / LOADER), str(source), "-ldl"], check=True)
    real = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    found = [line.split()[-1] for line in real.splitlines() if LOADER in line]
    assert found, f"{LOADER} is missing: install the Debian package ocl-icd-libopencl1"

    def call(lie: str, function: Callable[..., Any], *given: Any) -> Any:
        path = empty if lie == "none" else folder
        vendors = str(empty) if lie == "nothing" else VENDORS
        told = {"LD_LIBRARY_PATH": str(path), "REAL_OPENCL": found[0], "LIE": lie, "OCL_ICD_VENDORS": vendors}
        with _process(told) as pool:
            return _in(pool, function, *given)

    return call
