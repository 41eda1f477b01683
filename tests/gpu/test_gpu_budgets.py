"""What the runtime of GPUs and the making of kernels may take."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sdk.boards import load_board
from sdk.codegen_c.gpu.kernels import kernels
from sdk.codegen_c.gpu.steps import aligned_of, functions_of
from sdk.driver import BuildOptions
from sdk.driver.explain import stages

RUNTIME = Path(__file__).resolve().parents[2] / "c_runtime" / "gpu"
TEXT_BYTES = 40_000  # both interfaces together, with their constants, without tables for unwinding
SPIRV_S = 5.0  # of the processor


def test_the_runtime_of_both_interfaces_is_small(tmp_path: Path, need_tool: Callable[[str], str]) -> None:
    tool = need_tool("aarch64-linux-gnu-gcc")
    bare = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]  # which `size` counts as text
    line = [tool, *bare, "-std=c99", "-Os", "-c", f"-I{RUNTIME / 'include'}"]
    objects = []
    for source in sorted((RUNTIME / "src").glob("*.c")):
        objects.append(str(tmp_path / f"{source.stem}.o"))
        subprocess.run([*line, "-D_POSIX_C_SOURCE=200809L", str(source), "-o", objects[-1]], check=True)
    sizes = subprocess.run(["aarch64-linux-gnu-size", *objects], check=True, capture_output=True, text=True).stdout
    total = sum(int(row.split()[0]) for row in sizes.splitlines()[1:])
    assert len(objects) > 5
    assert 20_000 < total <= TEXT_BYTES


@pytest.mark.slow
def test_a_network_becomes_spirv_within_seconds() -> None:
    from zoo.export import path_of

    options = BuildOptions(gpu="vulkan")
    module = stages(path_of("mobilenetv2"), load_board("host"), options)["planned"]
    functions = functions_of(module)
    began = time.process_time()
    made = kernels(functions, "net", "vulkan", aligned_of(module))
    took = time.process_time() - began
    print(f"{len(made.codes)} kernels in {took:.1f} s", file=sys.stderr)
    assert len(made.of) > 30
    assert not made.missing
    assert took <= SPIRV_S
