"""Kernels in which a group of work items computes a row together, forced on every driver, over rows and widths."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdk.codegen_c.gpu.grid import Grid, parts_of, work_items
from sdk.codegen_c.gpu.kernels import kernels
from sdk.codegen_c.gpu.steps import all_rows
from sdk.codegen_c.spirv.kernel import make_kernel as make_spirv
from sdk.codegen_c.wgsl.kernel import make_kernel as make_wgsl
from sdk.compiler.analysis.pattern import classify
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.loops import Alloc, Barrier, Loops
from sdk.compiler.ir.types import F16, F32, I8, I32, DType, TensorType
from sdk.compiler.ir.walk import walk
from sdk.compiler.machines.gpus.gpu import Gpu
from sdk.compiler.machines.gpus.lookup import gpu_for, row_of
from sdk.compiler.ops import Sample
from sdk.compiler.schedules.gpu.cooperative import Team
from sdk.compiler.schedules.gpu.rules import Teams
from sdk.compiler.sym import Dim, Var, max_value
from tests.gpu import vulkan, webgpu
from tests.gpu.kernels import SAMPLES, Device, given, launch, library, plain
from tests.gpu.test_gpu_schedules import by_rule, check, near, nest
from tests.gpu.work import compare, model
from tests.ops.op_samples import environments

R, W = Var("r", 1, 4097).expr, Var("w", 2, 4097).expr
SIZES = (1, 7, 31, 64, 255, 1000, 4097)
Case = tuple[str, Sample]


def case(name: str, *inputs: tuple[DType, tuple[Dim, ...]], **attrs: Any) -> Case:
    return name, Sample(tuple(TensorType(kind, shape) for kind, shape in inputs), tuple(sorted(attrs.items())))


def cases(r: Dim, w: Dim) -> list[Case]:
    """What is computed of r rows of w elements."""
    x = (F32, (r, w))
    return [
        case("softmax", x), case("log_softmax", x), case("hardmax", x),
        case("layer_norm", x, (F32, (w,)), (F32, (w,)), epsilon=1e-5), case("rms_norm", x, (F32, (w,)), epsilon=1e-5),
        *(case(f"reduce_{how}", x, axes=(axis,)) for how in ("sum", "mean", "max", "min") for axis in (0, 1)),
        *(case("reduce_sum", (kind, (r, w)), axes=(1,)) for kind in (F16, I32)),
        case("reduce_sum", (I8, (1, w, 5, r)), axes=(1, 2), x_offset=128),
        *(case(f"arg{how}", (kind, (r, w)), axis=axis, last=last)
          for how in ("max", "min") for kind in (F32, I8) for axis in (0, 1) for last in (False, True)),
        case("softmax_q", (I8, (r, w)), (I32, (256,))),
        case("l2_normalize_q", (I8, (r, w)), zero=-5, early=False),
        case("matmul", (F32, (1, w)), (F32, (w, r))), case("matmul", (F16, (1, w)), (F16, (w, r))),
        case("dense", (I8, (1, w)), (I8, (r, w)), (I32, (r,)), x_offset=128, w_offset=0),
    ]  # fmt: skip


def drawn(seed: int, count: int, small: bool = True) -> list[tuple[Case, dict[str, int]]]:
    """Cases at sizes: half of them known when kernels are made, half of them only in the run."""
    rng = np.random.default_rng(seed)
    out: list[tuple[Case, dict[str, int]]] = []
    maximum = len(cases(1, 2))
    for k in range(count):
        r, w = (int(rng.choice(SIZES)) for _ in range(2))
        while small and r * w > 300_000:
            r, w = (int(rng.choice(SIZES)) for _ in range(2))
        w = max(w, 2)
        fixed = bool(rng.integers(0, 2))
        one = cases(r, w)[k % maximum] if fixed else cases(R, W)[k % maximum]
        out.append((one, {} if fixed else {"r": r, "w": w}))
    return out


def grid_of(loops: Loops, interface: str) -> Grid:
    """The kernel by the row that has groups."""
    (part,) = parts_of(all_rows(loops))
    found = by_rule(part, gpu_for(row_of(interface, "")))
    return found or work_items(part)


def arrays_of(one: Case, loops: Loops, dims: dict[str, int]) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """Arguments of a call, and what they are after it."""
    by_var = {v: dims[v.name] for v in loops.dims}
    before = given(*one, loops, by_var)
    after = {n: a.copy() for n, a in before.items()}
    run_loops(loops, after, dims)
    return before, list(after.values())


def with_opencl(folder: Path, seed: int, count: int) -> list[list[np.ndarray]]:
    device = Device(library(folder))
    out = []
    for one, dims in drawn(seed, count):
        loops = nest(*one)
        before, _ = arrays_of(one, loops, dims)
        made = kernels({"f": all_rows(loops)}, "net", "opencl-groups")
        own = made.of["f"]
        numbers, groups = launch(all_rows(loops), [g.groups for g in own], dims)
        numbers += [0, 0] if loops.rows is not None else []
        codes = [made.codes[g.kernel] for g in own]
        status, got, _ = device.run(codes, own, list(before.values()), numbers[: codes[0].numbers], groups)
        assert status == 0, (one, dims, device.message)
        out.append(got)
    return out


def sweep(folder: Path, pocl: Any, webgpu_process: Any, seed: int, count: int) -> int:
    """How many kernels have items that work together; all give what the interpreter makes of the plain nest."""
    told, teams = drawn(seed, count), 0
    wanted, spirv_jobs, wgsl_jobs = [], [], []
    for one, dims in told:
        loops = nest(*one)
        before, after = arrays_of(one, loops, dims)
        wanted.append(after)
        names = [p.buffer.name for p in loops.params]
        for interface, jobs in (("vulkan", spirv_jobs), ("webgpu", wgsl_jobs)):
            grid = grid_of(loops, interface)
            assert len(grid.loops.params) == len(names) + len(grid.scratch)
            whole = replace(grid.loops, rows=None)
            teams += any(isinstance(n, Barrier) for n in walk(whole))
            room = [np.zeros(n, np.uint8) for n in grid.scratch]
            arrays = [*(before[names[k]] for k in grid.operands), *room]
            if interface == "vulkan":
                jobs.append(vulkan.job_of(whole, make_spirv(whole), arrays, dims))
            else:
                jobs.append(webgpu.job_of(whole, make_wgsl(whole, None, grid.local), arrays, dims))
    results, said = vulkan.run_jobs(vulkan.build_runner(folder), spirv_jobs)
    assert [r.status for r in results] == [0] * len(results), said
    found = {
        "spirv": [r.arrays for r in results],
        "wgsl": webgpu_process(webgpu.run_jobs, wgsl_jobs),
        "opencl": pocl(with_opencl, folder, seed, count),
    }
    for name, every in found.items():
        for (one, dims), got, want in zip(told, every, wanted, strict=True):
            assert not isinstance(got, str), (name, got)
            for a, b in zip(got, want, strict=False):
                assert near_sum(a, b), (name, one, dims)
    return teams


def near_sum(got: np.ndarray, want: np.ndarray) -> bool:
    """As far apart as the two are that sum up 4097 numbers in orders of their own."""
    if got.dtype.itemsize < 4 or got.dtype.kind != "f":
        return near(got, want)
    return np.allclose(got, want, rtol=0, atol=1e-4 * max(1.0, float(np.abs(want).max(initial=0))), equal_nan=True)


MODEL = """module net imported

graph @main<n in 1..5000>(%x: f32[n, 96], %v: f32[1, 300], %w: f32[300, 40], %s: f32[40], %b: f32[40]) {
  %p = softmax(%x) : f32[n, 96]
  %t = transpose(%p) {perm = (1, 0)} : f32[96, n]
  %q = softmax(%t) : f32[96, n]
  %y = matmul(%v, %w) : f32[1, 40]
  %z = layer_norm(%y, %s, %b) {epsilon = 1e-05} : f32[1, 40]
  %m = argmax(%x) {axis = 1, last = false} : i64[n, 1]
  return %q, %z, %m
}
"""


@pytest.mark.parametrize("gpu", ["opencl", "vulkan"])
def test_a_model_whose_groups_work_together(pocl: Any, gpu: str, tmp_path: Path) -> None:
    """Of 5000 the rows have no room in what a group shares: they are memory beside the arena."""
    dims = [{"n": n} for n in (1, 33, 64, 4999)]
    options = {"gpu": gpu, "groups": True}
    status, told, apart, (recorded, again) = pocl(compare, model(MODEL, tmp_path), tmp_path, dims, options)
    assert (status, told) == (0, "")
    assert max(max(one) for one in apart) <= 1e-4
    assert min(min(one) for one in apart) >= 0
    assert recorded == again == 4


def test_rows_and_widths_on_every_driver(tmp_path: Path, pocl: Any, webgpu: Any) -> None:
    assert sweep(tmp_path, pocl, webgpu, 5, 10) > 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_more_rows_and_widths(tmp_path: Path, pocl: Any, webgpu: Any, seed: int) -> None:
    assert sweep(tmp_path, pocl, webgpu, 100 + seed, 102) > 100


def forced(items: int, columns: int) -> Gpu:
    return Gpu("any", (Teams(Team(items, columns), minimum=2, rows=64),))


def samples(step: int, items: int, columns: int) -> int:
    """How many samples of operators groups compute, all with what the plain nest gives."""
    count = 0
    for o, sample, number in SAMPLES[2::step]:
        loops = plain(o.name, sample)
        if classify(loops).kind in ("reduction", "contraction"):
            some = environments(sample)
            count += check(o.name, sample, loops, some[number % len(some)], forced(items, columns))
    return count


def test_samples_of_operators_by_groups() -> None:
    assert samples(9, 16, 4) > 15


@pytest.mark.slow
@pytest.mark.parametrize(("items", "columns"), [(2, 1), (8, 8), (16, 1), (64, 16), (256, 32)])
def test_all_samples_of_operators_by_groups(items: int, columns: int) -> None:
    assert samples(1, items, columns) > 150


@pytest.mark.parametrize("interface", ["opencl", "vulkan", "webgpu"])
def test_what_groups_share_fits_every_device(interface: str) -> None:
    for k, one in enumerate(cases(R, W) + cases(4097, 4097)):
        grid = grid_of(nest(*one), interface)
        assert int(np.prod(grid.local)) <= 256
        shared = [n.buffer for n in walk(grid.loops.body) if isinstance(n, Alloc) and n.buffer.space == "local"]
        assert sum(max_value(b.type.size) * max(b.dtype.nbytes, 4) for b in shared) <= 16384, (k, one)
