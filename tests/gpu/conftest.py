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
DRIVERS = ":".join(map(str, Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json")))


def process(environment: dict[str, str]) -> ProcessPoolExecutor:
    """A process with more in its environment."""
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        pool.submit(os.getpid).result()
    finally:
        os.environ.clear()
        os.environ.update(before)
    return pool


def in_process(pool: ProcessPoolExecutor, function: Callable[..., Any], *given: Any) -> Any:
    """What a function returns there."""
    fine, value = pool.submit(called, function, *given).result()
    assert fine, value
    return value


def shim(folders: pytest.TempPathFactory, source: str, loader: str) -> tuple[Path, str]:
    """A library that stands before the real ``loader``: the folder it lies in, and where the real one is."""
    folder = folders.mktemp("lying")
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler, "gcc is missing"
    here = Path(__file__).parent
    line = [compiler, "-shared", "-fPIC", f"-I{here.parents[1] / 'c_runtime/gpu/src'}", "-o", str(folder / loader)]
    subprocess.run([*line, str(here / source), "-ldl"], check=True)
    real = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    found = [line.split()[-1] for line in real.splitlines() if loader in line]
    assert found, f"{loader} is missing: install the Debian package ocl-icd-libopencl1 or libvulkan1"
    return folder, found[0]


@pytest.fixture(scope="session")
def pocl() -> Iterator[Callable[..., Any]]:
    """Calls a function in a process where OpenCL is PoCL."""
    assert Path(VENDORS, "pocl.icd").is_file(), "PoCL is missing: install the Debian package pocl-opencl-icd"
    with process({"OCL_ICD_VENDORS": VENDORS}) as pool:
        yield lambda function, *given: in_process(pool, function, *given)


@pytest.fixture(scope="session")
def webgpu() -> Iterator[Callable[..., Any]]:
    """Calls a function in a process where `wgpu` finds lavapipe."""
    drivers = ":".join(map(str, Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json")))
    assert drivers, "lavapipe is missing: install the Debian package mesa-vulkan-drivers"
    with process({"VK_ICD_FILENAMES": drivers}) as pool:
        yield lambda function, *given: in_process(pool, function, *given)


@pytest.fixture(scope="session")
def lying(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """``lying(lie, function, ...)``: the same where the OpenCL library lies; "" is the truth, "none": there is none."""
    folder, real = shim(tmp_path_factory, "lying_opencl.c", LOADER)
    empty = tmp_path_factory.mktemp("empty")
    for name in (LOADER, "libOpenCL.so"):
        (empty / name).write_text("no library")

    def call(lie: str, function: Callable[..., Any], *given: Any) -> Any:
        path = empty if lie == "none" else folder
        vendors = str(empty) if lie == "nothing" else VENDORS
        told = {"LD_LIBRARY_PATH": str(path), "REAL_OPENCL": real, "LIE": lie, "OCL_ICD_VENDORS": vendors}
        with process(told) as pool:
            return in_process(pool, function, *given)

    return call


@pytest.fixture(scope="session")
def lavapipe() -> Iterator[Callable[..., Any]]:
    """Calls a function in a process where Vulkan is lavapipe."""
    assert DRIVERS, "lavapipe is missing: install the Debian package mesa-vulkan-drivers"
    with process({"VK_ICD_FILENAMES": DRIVERS}) as pool:
        yield lambda function, *given: in_process(pool, function, *given)


@pytest.fixture(scope="session")
def lying_vulkan(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """``lying_vulkan(lie, function, ...)``: the same where the Vulkan library lies; "none": there is none, "nothing":
    there is no device."""
    folder, real = shim(tmp_path_factory, "lying_vulkan.c", "libvulkan.so.1")
    empty = tmp_path_factory.mktemp("empty")
    for name in ("libvulkan.so.1", "libvulkan.so"):
        (empty / name).write_text("no library")

    def call(lie: str, function: Callable[..., Any], *given: Any) -> Any:
        path, drivers = (empty if lie == "none" else folder), (str(empty) if lie == "nothing" else DRIVERS)
        told = {"LD_LIBRARY_PATH": str(path), "REAL_VULKAN": real, "LIE": lie, "VK_ICD_FILENAMES": drivers}
        with process(told) as pool:
            return in_process(pool, function, *given)

    return call
