"""Random programs through the four printers, C, OpenCL C, SPIR-V and WGSL: all do what the interpreter does."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdk.codegen_c.gpu.kernels import kernels
from sdk.codegen_c.spirv.kernel import make_kernel as make_spirv
from sdk.codegen_c.wgsl.kernel import make_kernel as make_wgsl
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.loops import Alloc, For, Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import DType
from sdk.compiler.ir.walk import walk
from sdk.compiler.passes.map_grid import MapGrid
from sdk.compiler.sym import evaluate
from sdk.errors import BuildError
from tests.c.c_harness import build as build_c
from tests.gpu import vulkan, webgpu
from tests.gpu.kernels import Device, launch, library
from tests.gpu.test_spirv import same
from tests.schedules.test_random_schedules import nest, scheduled

# Why a printer has no form of a program, which is no fault of its: what a kernel may not be, and lanes in OpenCL C.
REFUSED = (
    "lanes", "a work item has", "no upper bound", "push constants", "library", "bytes, WGSL promises",
    "64 bits", "WebGPU promises", "axes of a GPU", "memory of its own", "numbers, at most", "buffers, at most",
    "no intrinsic of OpenCL C", "no arithmetic in OpenCL C", "no data type", "of a group among items",
)  # fmt: skip
Program = tuple[Loops, dict[str, np.ndarray], list[str]]


def programs(seed: int, count: int) -> list[Program]:
    rng = random.Random(seed)
    out: list[Program] = []
    while len(out) < count:
        loops, data, _ = nest(rng)
        loops, steps = scheduled(rng, loops, data)
        if not any(isinstance(n, For) and n.kind == "bind" for n in walk(loops.body)):
            out.append((replace(loops, name=f"f{len(out)}"), data, steps))
    return out


def lanes_of(loops: Loops) -> set[int]:
    """The lanes of the values of a program."""
    return {n.dtype.lanes for n in walk(loops.body) if isinstance(getattr(n, "dtype", None), DType)}


def attempt(make: Any, refused: list[str]) -> Any:
    """What is made, or None where there is a reason not to."""
    try:
        return make()
    except BuildError as error:
        if not any(reason in error.message for reason in REFUSED):
            raise
        refused.append(error.message)
        return None


def with_opencl(folder: Path, seed: int, count: int) -> list[list[np.ndarray] | str]:
    """The arrays of each program after it ran on PoCL, or why it did not."""
    device = Device(library(folder))
    out: list[list[np.ndarray] | str] = []
    for loops, data, _ in programs(seed, count):
        if any(isinstance(n, Alloc) and n.buffer.space == "local" for n in walk(loops.body)):
            out.append("an array of a group among items that are of none")
            continue
        made = kernels({"f": loops}, "net", "opencl")
        if made.missing:
            out.append(made.missing["f"])
            continue
        arrays = [data[p.buffer.name] for p in loops.params]
        own = made.of["f"]
        numbers, groups = launch(loops, [one.groups for one in own], {})
        status, got, _ = device.run([made.codes[one.kernel] for one in own], own, arrays, numbers, groups)
        assert status == 0, (loops.name, device.message)
        out.append(got)
    return out


def check(folder: Path, pocl: Any, webgpu_process: Any, seed: int, count: int) -> None:
    drawn = programs(seed, count)
    found: dict[str, dict[int, list[np.ndarray]]] = {"c": {}, "opencl": {}, "spirv": {}, "wgsl": {}}
    refused: list[str] = []

    # a vector in C has a power of two of lanes, as machines do, and random steps make others
    for_c = [k for k, (loops, _, _) in enumerate(drawn) if all(n & (n - 1) == 0 for n in lanes_of(loops))]
    made_c = build_c([drawn[k][0] for k in for_c], folder)
    spirv_jobs, wgsl_jobs = {}, {}
    wanted = []
    for k, (loops, data, _) in enumerate(drawn):
        arrays = [data[p.buffer.name] for p in loops.params]
        want = {p.buffer.name: a.copy() for p, a in zip(loops.params, arrays, strict=True)}
        run_loops(loops, want)
        wanted.append(list(want.values()))
        if k in for_c:
            found["c"][k] = [np.array(a, order="C") for a in arrays]
            made_c.call(loops.name, found["c"][k], (), (0, evaluate(loops.rows.extent, {})) if loops.rows else None)
        grid = MapGrid().run(Module("m", loops={"f": loops})).loops["f"]
        if len(loops.params) <= 12 and (spirv := attempt(lambda grid=grid: make_spirv(grid), refused)):
            spirv_jobs[k] = vulkan.job_of(grid, spirv, arrays, {})
        if wgsl := attempt(lambda grid=grid: make_wgsl(grid), refused):
            wgsl_jobs[k] = webgpu.job_of(grid, wgsl, arrays, {})
    results, _ = vulkan.run_jobs(vulkan.build_runner(folder), list(spirv_jobs.values()))
    assert [r.status for r in results] == [0] * len(results)
    found["spirv"] = {k: list(r.arrays) for k, r in zip(spirv_jobs, results, strict=True)}
    found["wgsl"] = dict(zip(wgsl_jobs, webgpu_process(webgpu.run_jobs, list(wgsl_jobs.values())), strict=True))
    for k, result in enumerate(pocl(with_opencl, folder, seed, count)):
        if isinstance(result, str):
            assert any(reason in result for reason in REFUSED), result
        else:
            found["opencl"][k] = result
    for name, by_program in found.items():
        assert len(by_program) > count // 2, (name, refused)
        for k, got in by_program.items():
            assert not isinstance(got, str), (name, got)
            for a, b in zip(got, wanted[k], strict=True):
                same(a, b, f"{name} of program {k} of {seed}: {drawn[k][2]}")


def test_random_programs(tmp_path: Path, pocl: Any, webgpu: Any) -> None:
    check(tmp_path, pocl, webgpu, 7, 10)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_many_random_programs(tmp_path: Path, pocl: Any, webgpu: Any, seed: int) -> None:
    check(tmp_path, pocl, webgpu, 3000 + seed, 50)
