"""The GPUs of this machine, as the runtime sees them: what ``sdk doctor`` lists."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from sdk.boards import Board, load_board
from sdk.compiler.machines.gpus.lookup import row_of
from sdk.driver.built import Built
from sdk.driver.conditions import runs_here
from sdk.driver.options import GPUS
from sdk.errors import SdkError
from sdk.resources import data_dir
from sdk.toolchains import CompileJob, LinkJob, SourceText, target_for, toolchain_for
from sdk.toolchains.cache import CACHE_VARIABLE, cache_root, digest, private_folder

__all__ = ["Device", "gpus", "interface_of", "kept_kernels", "row_for"]

KEEP: Final = "SDK_GPU_CACHE"  # agents keep in that folder what drivers have compiled for them

DEVICE: Final = "SDK_GPU_DEVICE"  # the number of the device that programs open

TIMEOUT_S: Final = 20


@dataclass(frozen=True)
class Device:
    """A device as its driver tells it; sizes in MiB, but of what a group shares in KiB. ``software``: the processor."""

    name: str
    driver: str
    software: bool
    memory: int
    buffer: int
    group: int
    local: int
    shared: bool
    interface: str

    @property
    def row(self) -> str:
        """The row of ``machines.gpus`` that kernels for it are made by."""
        return row_of(self.interface, None if self.software else self.name)

    def __str__(self) -> str:
        where = "; on the processor" if self.software else "; its memory is the processor's" if self.shared else ""
        return (
            f"{self.name} ({self.driver}{where}): {self.memory} MiB, buffers of {self.buffer} MiB, "
            f"groups of {self.group} sharing {self.local} KiB; kernels of {self.row}"
        )


def interface_of(built: Built) -> str | None:
    """The interface of GPUs that a build is for; None of one for the processor."""
    return next((name for name in GPUS if f"sdk_rt_gpu_{name}.c" in built.sources.model), None)


def kept_kernels(built: Built) -> Mapping[str, str]:
    """The variable that tells an agent of a build where it may keep kernels; none of a build for the processor."""
    if built.sources.backend != "gpu" or KEEP in os.environ:
        return {}
    return {KEEP: str(private_folder(cache_root() / "gpu", CACHE_VARIABLE))}


def row_for(board: Board, interface: str) -> str:
    """The row of ``machines.gpus`` that kernels of a build for a board are made by: that of the GPU that its file
    names, or of the device of this machine that programs open there."""
    if board.gpu is not None:
        return row_of(interface, board.gpu.name)
    return _row_here(interface, os.environ.get(DEVICE)) if interface in GPUS and runs_here(None, board) else interface


@cache
def _row_here(interface: str, number: str | None) -> str:
    try:
        found = gpus(interface)
    except SdkError:
        return interface
    if number is not None and number.isdecimal():
        found = found[int(number) : int(number) + 1]
    return next((one.row for one in found if not one.software), interface)


def gpus(interface: str) -> tuple[Device, ...]:
    """The devices of "opencl" or "vulkan" in the order of their numbers.

    Raises:
        SdkError: there is no library of the interface, or it fails; no compiler for this machine is installed.
    """
    try:
        done = subprocess.run([_program(interface)], capture_output=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise SdkError(f"the driver gave no answer within {TIMEOUT_S} s") from None
    lines = tuple(done.stdout.decode("utf-8", "replace").splitlines())
    if done.returncode != 0:
        raise SdkError(lines[-1] if done.returncode == 1 and lines else f"the driver crashed: status {done.returncode}")
    return tuple(_device(line.split("\t"), interface) for line in lines)


def _device(told: list[str], interface: str) -> Device:
    name, driver, software, memory, buffer, group, local, shared = told
    sizes = (int(memory), int(buffer), int(group), int(local))
    return Device(name, driver, software == "1", *sizes, shared == "1", interface)


def _program(interface: str) -> Path:
    """The program that lists them, from the cache or made of the runtime's driver."""
    root = data_dir("c_runtime") / "gpu"
    target = target_for(load_board("host"))
    tool = toolchain_for(target)
    main = Path(__file__).with_suffix(".c")
    sources = [main, root / "src" / "gpu.c", *sorted((root / "src").glob(f"gpu_{interface}*.c"))]
    defines = (f"SDK_LIST=sdk_gpu_list_{interface}",)
    folders = (root / "include", root / "src")
    jobs = [CompileJob(SourceText.read(one), target, include_dirs=folders, defines=defines) for one in sources]
    objects = tuple(tool.compile_all(jobs))
    key = digest("gpus", interface, tool.version(), [unit.key for unit in objects])

    def make(folder: Path) -> None:
        tool.link(LinkJob("executable", objects, target, libs=("dl",)), folder / "gpus")

    return tool.cache.entry(key, make) / "gpus"
