"""Products whose tiles lie in memory that a group shares, forced on every driver, over sizes, types and windows."""

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
from sdk.compiler.ir.loops import Alloc, Barrier
from sdk.compiler.ir.types import F16, F32, I8, I32, DType, TensorType
from sdk.compiler.ir.walk import walk
from sdk.compiler.machines.gpus.gpu import Gpu
from sdk.compiler.machines.gpus.lookup import gpu_for, row_of
from sdk.compiler.ops import Sample
from sdk.compiler.schedules.gpu.rules import SharedProducts
from sdk.compiler.schedules.gpu.shared import SharedTile
from sdk.compiler.sym import Dim, Var, max_value
from tests.gpu import vulkan, webgpu
from tests.gpu.kernels import SAMPLES, Device, launch, library, plain
from tests.gpu.test_gpu_schedules import by_rule, check, convolution, near, nest
from tests.gpu.test_gpu_teams import arrays_of
from tests.ops.op_samples import environments

SIZES = (1, 2, 3, 4, 7, 12, 16, 17, 31, 32, 33, 48, 64, 67, 97, 128, 199)
TILES = ((2, 4, 2, 2, 4, 2), (4, 16, 8, 4, 16, 2), (1, 8, 3, 1, 8, 1), (8, 8, 4, 8, 8, 1), (3, 5, 2, 3, 16, 4))
Case = tuple[str, Sample]


def forced(items: int, across: int, rows: int, columns: int, depth: int, steps: int) -> Gpu:
    return Gpu("any", (SharedProducts(SharedTile((items, across), rows, columns, depth, steps), rows=1),))


def product(rng: np.random.Generator, maximum: int) -> tuple[Case, dict[str, int]]:
    """A product of matrices at sizes of which some are known when kernels are made, others only in the run."""
    dims: dict[str, int] = {}

    def size(name: str) -> Dim:
        count = int(rng.choice([s for s in SIZES if s <= maximum]))
        if rng.random() < 0.6:
            return count
        step = int(rng.choice([s for s in (1, 4) if count % s == 0]))
        dims[name] = count
        return Var(name, step, 256, step).expr

    m, n, k = (size(name) for name in "mnk")
    kind: DType = (F32, F32, F32, F16, I32)[int(rng.integers(0, 5))]
    batch = tuple(int(rng.integers(1, 4)) for _ in range(int(rng.integers(0, 3))))
    one = () if rng.random() < 0.3 else batch
    a, b = bool(rng.integers(0, 2)), bool(rng.integers(0, 2))
    left, right = (k, m) if a else (m, k), (n, k) if b else (k, n)
    types = TensorType(kind, (*batch, *left)), TensorType(kind, (*one, *right))
    return ("matmul", Sample(types, (("trans_a", a), ("trans_b", b)))), dims


def window(rng: np.random.Generator, maximum: int) -> tuple[Case, dict[str, int]]:
    """A convolution."""
    size, stride = int(rng.choice([1, 2, 3, 5])), int(rng.choice([1, 2]))
    apart = int(rng.choice([1, 2])) if size > 1 else 1
    reach = (size - 1) * apart + 1
    pads = tuple(int(p) for p in rng.integers(0, reach, 4))
    channels, out = (int(rng.choice([s for s in SIZES if s <= maximum // 3])) for _ in range(2))
    kind = (F32, I8)[int(rng.integers(0, 2))]
    height, width = (int(rng.integers(reach, reach + 9)) for _ in range(2))
    dims = {"h": height} if rng.random() < 0.4 else {}
    tall: Dim = Var("h", reach, 32).expr if dims else height
    shape = int(rng.integers(1, 3)), tall, width, channels
    weights, by = (out, size, size, channels), (stride, stride)
    return ("conv2d", convolution(shape, weights, kind, stride=by, pad=pads, dilation=(apart, apart))), dims


def dense(rng: np.random.Generator, maximum: int) -> tuple[Case, dict[str, int]]:
    """An 8-bit layer of every input with every output."""
    m, n, k = (int(rng.choice([s for s in SIZES if s <= maximum])) for _ in range(3))
    known = rng.random() < 0.5
    rows: Dim = m if known else Var("m", 1, 256).expr
    types = TensorType(I8, (rows, k)), TensorType(I8, (n, k)), TensorType(I32, (n,))
    return ("dense", Sample(types, (("w_offset", 3), ("x_offset", 128)))), {} if known else {"m": m}


def drawn(seed: int, count: int, maximum: int = 100) -> list[tuple[Case, dict[str, int]]]:
    rng = np.random.default_rng(seed)
    return [(product, window, dense)[k % 3](rng, maximum) for k in range(count)]


def is_shared(grid: Grid) -> bool:
    return any(isinstance(n, Barrier) for n in walk(grid.loops))


def interpreted(seed: int, count: int, maximum: int) -> int:
    """How many products the rule takes, each with one of the tiles, all with what the plain nest gives."""
    found = 0
    for k, (one, dims) in enumerate(drawn(seed, count, maximum)):
        loops = nest(*one)
        gpu = forced(*TILES[k % len(TILES)])
        found += check(*one, loops, {v: dims[v.name] for v in loops.dims}, gpu)
    return found


def test_products_of_drawn_sizes() -> None:
    assert interpreted(3, 15, 20) > 7


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_more_products(seed: int) -> None:
    assert interpreted(50 + seed, 60, 70) > 40


def samples(step: int) -> int:
    """How many samples of operators the rule takes, all with what the plain nest gives."""
    count = 0
    for k, (o, sample, number) in enumerate(SAMPLES[3::step]):
        loops = plain(o.name, sample)
        if classify(loops).kind == "contraction":
            some = environments(sample)
            count += check(o.name, sample, loops, some[number % len(some)], forced(*TILES[k % len(TILES)]))
    return count


def test_samples_of_operators() -> None:
    assert samples(3) > 10


@pytest.mark.slow
def test_all_samples_of_operators() -> None:
    assert samples(1) > 30


def grid_of(one: Case, interface: str) -> Grid:
    """The kernel by the row of GPUs that boards name."""
    (part,) = parts_of(all_rows(nest(*one)))
    return by_rule(part, gpu_for(row_of(interface, ""))) or work_items(part)


def with_opencl(folder: Path, seed: int, count: int, maximum: int) -> list[list[np.ndarray]]:
    device = Device(library(folder))
    out = []
    for one, dims in drawn(seed, count, maximum):
        loops = nest(*one)
        before, _ = arrays_of(one, loops, dims)
        whole = all_rows(loops)
        made = kernels({"f": whole}, "net", "opencl-groups", {"f": frozenset(p.buffer.name for p in loops.params)})
        own = made.of["f"]
        numbers, groups = launch(whole, [g.groups for g in own], dims)
        codes = [made.codes[g.kernel] for g in own]
        status, got, _ = device.run(codes, own, list(before.values()), numbers, groups)
        assert status == 0, (one, dims, device.message)
        out.append(got)
    return out


def sweep(folder: Path, pocl: Any, webgpu_process: Any, seed: int, count: int, maximum: int) -> int:
    """How many kernels share tiles; all give what the interpreter makes of the plain nest."""
    told, tiles = drawn(seed, count, maximum), 0
    wanted, spirv_jobs, wgsl_jobs = [], [], []
    for one, dims in told:
        loops = nest(*one)
        before, after = arrays_of(one, loops, dims)
        wanted.append(after)
        for interface, jobs in (("vulkan", spirv_jobs), ("webgpu", wgsl_jobs)):
            grid = grid_of(one, "vulkan")
            tiles += is_shared(grid)
            whole = replace(grid.loops, rows=None)
            arrays = [before[p.buffer.name] for p in whole.params]
            aligned = frozenset(p.buffer.name for p in whole.params)
            if interface == "vulkan":
                jobs.append(vulkan.job_of(whole, make_spirv(whole, aligned=aligned), arrays, dims, True))
            else:
                jobs.append(webgpu.job_of(whole, make_wgsl(whole, None, grid.local, aligned), arrays, dims))
    results, said = vulkan.run_jobs(vulkan.build_runner(folder), spirv_jobs)
    assert [r.status for r in results] == [0] * len(results), said
    found = {
        "spirv": [r.arrays for r in results],
        "wgsl": webgpu_process(webgpu.run_jobs, wgsl_jobs),
        "opencl": pocl(with_opencl, folder, seed, count, maximum),
    }
    for name, every in found.items():
        for (one, dims), got, want in zip(told, every, wanted, strict=True):
            assert not isinstance(got, str), (name, got)
            for a, b in zip(got, want, strict=False):
                assert near(a, b), (name, one, dims)
    return tiles


def test_products_on_every_driver(tmp_path: Path, pocl: Any, webgpu: Any) -> None:
    assert sweep(tmp_path, pocl, webgpu, 7, 9, 40) > 8


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_more_products_on_every_driver(tmp_path: Path, pocl: Any, webgpu: Any, seed: int) -> None:
    assert sweep(tmp_path, pocl, webgpu, 200 + seed, 36, 100) > 40


@pytest.mark.parametrize("interface", ["opencl", "vulkan"])
def test_what_groups_share_fits_every_device(interface: str) -> None:
    for one, _ in drawn(11, 30, 200):
        grid = grid_of(one, interface)
        assert int(np.prod(grid.local)) <= 256
        held = [n.buffer for n in walk(grid.loops.body) if isinstance(n, Alloc) and n.buffer.space == "local"]
        assert sum((max_value(b.type.size) or 0) * max(b.dtype.nbytes, 4) for b in held) <= 16384, one
