"""The GPUs of this machine, as the runtime sees them: what ``sdk doctor`` lists."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sdk.boards import load_board
from sdk.driver.built import Built
from sdk.driver.options import GPUS
from sdk.errors import SdkError
from sdk.resources import data_dir
from sdk.toolchains import CompileJob, LinkJob, SourceText, target_for, toolchain_for
from sdk.toolchains.cache import CACHE_VARIABLE, cache_root, digest, private_folder

__all__ = ["gpus", "interface_of", "kept_kernels"]

KEEP: Final = "SDK_GPU_CACHE"  # agents keep in that folder what drivers have compiled for them

TIMEOUT_S: Final = 20


def interface_of(built: Built) -> str | None:
    """The interface of GPUs that a build is for; None of one for the processor."""
    return next((name for name in GPUS if f"sdk_rt_gpu_{name}.c" in built.sources.model), None)


def kept_kernels(built: Built) -> Mapping[str, str]:
    """The variable that tells an agent of a build where it may keep kernels; none of a build for the processor."""
    if built.sources.backend != "gpu" or KEEP in os.environ:
        return {}
    return {KEEP: str(private_folder(cache_root() / "gpu", CACHE_VARIABLE))}


def gpus(interface: str) -> tuple[str, ...]:
    """A line for each device of "opencl" or "vulkan": its name, driver and limits.

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
    return lines


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
