"""Products with weights in groups on every driver: tiles of tokens and panels, and groups that divide a row."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdk.codegen_c.gpu.grid import Grid, parts_of, work_items
from sdk.codegen_c.gpu.kernels import kernels
from sdk.codegen_c.gpu.steps import all_rows
from sdk.codegen_c.spirv.kernel import make_kernel as make_spirv
from sdk.codegen_c.wgsl.kernel import make_kernel as make_wgsl
from sdk.compiler.analysis.row_calls import drop_single_trips
from sdk.compiler.ir.loops import Barrier, Loops
from sdk.compiler.ir.packing import pack_array
from sdk.compiler.ir.types import F32, I8, I32, U8, TensorType
from sdk.compiler.ir.walk import walk
from sdk.compiler.machines.gpus.lookup import gpu_for
from sdk.compiler.ops import OPS
from sdk.compiler.ops.group_formats import FORMATS, GROUP
from sdk.compiler.ops.group_products import blocks_of, products_loops
from sdk.compiler.schedules.group_words import group_words
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.sym import Dim, Var
from sdk.compiler.verify.loops import verify_loops
from tests.gpu import vulkan, webgpu
from tests.gpu.kernels import Device, launch, library

BOUND = 1e-5  # of the largest: groups are summed in f32, in another order than the reference's in f64


@dataclass(frozen=True)
class Case:
    """Products of ``m`` rows, a number that only the run knows where ``any`` says so, by ``n`` rows of weights."""

    format: str
    m: int
    n: int
    blocks: int
    any: bool = False

    @property
    def columns(self) -> int:
        return self.blocks * FORMATS[self.format].size

    def nest(self) -> Loops:
        """The nest as plans for GPUs have it."""
        form, rows = FORMATS[self.format], self.rows
        sums = TensorType(I32 if form.zero else F32, (rows, self.columns // form.run))
        types = (TensorType(I8, (rows, self.columns)), TensorType(F32, (rows, self.columns // GROUP)), sums,
                 TensorType(U8, (self.n, self.blocks * form.nbytes)))  # fmt: skip
        plain = products_loops("f", types, [TensorType(F32, (rows, self.n))], {"format": self.format})
        return group_words(drop_single_trips(plain))

    @property
    def rows(self) -> Dim:
        return Var("m", 0, 64).expr if self.any else self.m

    @property
    def dims(self) -> dict[str, int]:
        return {"m": self.m} if self.any else {}

    def arrays(self, loops: Loops) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Arguments, and the result by the reference."""
        form, rng = FORMATS[self.format], np.random.default_rng(self.n + self.m)
        x = rng.integers(-127, 128, (self.m, self.columns)).astype(np.int8)
        scale = (rng.random((self.m, self.columns // GROUP)) / 64).astype(np.float32)
        sums = x.reshape(self.m, -1, form.run).astype(np.int32).sum(axis=2, dtype=np.int32)
        scaled = sums.astype(np.float32) * np.repeat(scale, GROUP // form.run, axis=1)
        given = -form.zero * sums if form.zero else scaled
        w = blocks_of(self.format, self.n, self.columns)(rng)
        want = np.asarray(OPS["dense_groups"].reference(x, scale, given, w, format=self.format))
        out = np.full((self.m, self.n), 85, np.float32)
        return {"x": x, "scale": scale, "sums": given, "w": pack_array(w, loops.param("w").layout), "o": out}, want


def drawn(seed: int, count: int) -> list[Case]:
    """Cases of all formats in turn."""
    rng = np.random.default_rng(seed)
    out = []
    for k in range(count):
        name = list(FORMATS)[k % len(FORMATS)]
        any_ = bool(rng.integers(0, 2))
        m = int(rng.choice([1, 2, 3, 4, 5, 9, 17])) if any_ else int(rng.choice([1, 1, 4, 7]))
        maximum = 12 if FORMATS[name].groups == 1 else 4
        out.append(Case(name, m, int(rng.choice([1, 5, 16, 17, 48, 61])), int(rng.integers(1, maximum)), any_))
    return out


def grid_of(loops: Loops, row: str) -> Grid:
    (part,) = parts_of(all_rows(loops))
    return work_items(part, gpu_for(row), frozenset(p.buffer.name for p in part.params))


def with_opencl(folder: Path, row: str, cases: list[Case]) -> list[np.ndarray]:
    device = Device(library(folder))
    out = []
    for one in cases:
        loops = all_rows(one.nest())
        arrays, _ = one.arrays(loops)
        made = kernels({"f": loops}, "net", row, {"f": frozenset(arrays)})
        own = made.of["f"]
        numbers, groups = launch(loops, [g.groups for g in own], one.dims)
        codes = [made.codes[g.kernel] for g in own]
        status, got, _ = device.run(codes, own, list(arrays.values()), numbers, groups)
        assert status == 0, (one, device.message)
        out.append(got[-1])
    return out


def sweep(folder: Path, pocl: Any, webgpu_process: Any, cases: list[Case], suffix: str) -> int:
    """How many kernels are by groups; all give what the reference does."""
    wanted, spirv_jobs, wgsl_jobs, teams = [], [], [], 0
    for one in cases:
        loops = one.nest()
        arrays, want = one.arrays(loops)
        wanted.append(want)
        grid = grid_of(loops, f"vulkan{suffix}")
        teams += any(isinstance(n, Barrier) for n in walk(grid.loops))
        given = [arrays[p.buffer.name] for p in grid.loops.params]
        all_of = frozenset(arrays)
        spirv_jobs.append(vulkan.job_of(grid.loops, make_spirv(grid.loops, aligned=all_of), given, one.dims, True))
        text = make_wgsl(grid.loops, None, grid.local, all_of)
        wgsl_jobs.append(webgpu.job_of(grid.loops, text, given, one.dims))
    results, said = vulkan.run_jobs(vulkan.build_runner(folder), spirv_jobs)
    assert [r.status for r in results] == [0] * len(results), said
    found = {
        "spirv": [r.arrays[-1] for r in results],
        "wgsl": [a if isinstance(a, str) else a[-1] for a in webgpu_process(webgpu.run_jobs, wgsl_jobs)],
        "opencl": pocl(with_opencl, folder, f"opencl{suffix}", cases),
    }
    for name, every in found.items():
        for one, got, want in zip(cases, every, wanted, strict=True):
            assert not isinstance(got, str), (name, got)
            apart = np.abs(got.reshape(want.shape) - want).max() / max(1.0, np.abs(want).max())
            assert apart <= BOUND, (name, one, apart)
    return teams


@pytest.mark.some(1)
@pytest.mark.parametrize(("suffix", "teams"), [("", 0), ("-groups", 2)])
def test_every_format_on_every_driver(tmp_path: Path, pocl: Any, webgpu: Any, suffix: str, teams: int) -> None:
    cases = [Case("Q4_0", 1, 37, 6), Case("Q8_0", 5, 33, 3, any=True), Case("Q6_K", 1, 17, 3), Case("Q4_K", 3, 16, 1)]
    assert sweep(tmp_path, pocl, webgpu, cases, suffix) == teams


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["", "-groups"])
@pytest.mark.parametrize("seed", range(2))
def test_more_products(tmp_path: Path, pocl: Any, webgpu: Any, suffix: str, seed: int) -> None:
    sweep(tmp_path, pocl, webgpu, drawn(30 + seed, 21), suffix)


def test_nests_hold() -> None:
    for name in FORMATS:
        for one in (Case(name, 1, 37, 2), Case(name, 4, 16, 3, any=True)):
            found: list[str] = []
            verify_loops(one.nest(), lambda _, text, found=found: found.append(text))
            assert found == []


def test_other_nests_are_left_alone() -> None:
    made = Case("Q4_0", 2, 16, 2).nest()
    with pytest.raises(ScheduleError, match="is no product with weights in groups"):
        group_words(made)
