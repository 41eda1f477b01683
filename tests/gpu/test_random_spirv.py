"""Random programs: nests of ops changed by random steps, with lanes and arrays of their own, on lavapipe."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from sdk.codegen_c.spirv.kernel import Kernel, make_kernel
from sdk.codegen_c.spirv.memory import Features
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.loops import For, Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.walk import walk
from sdk.compiler.passes.map_grid import MapGrid
from sdk.errors import BuildError
from tests.gpu.vulkan import build_runner, job_of, run_jobs
from tests.schedules.test_random_schedules import nest, scheduled

# What cannot become a kernel, and why that is no fault of the printer.
REFUSED = (
    "lanes, which has not happened", "a work item has", "has no upper bound", "fit the push constants", "library",
    "of a group among items",
)  # fmt: skip


def program(rng: random.Random) -> tuple[Loops, dict[str, np.ndarray], list[str]]:
    """A program whose outer loops are axes of work items, and its arrays."""
    while True:
        loops, data, _ = nest(rng)
        loops, steps = scheduled(rng, loops, data)
        if not any(isinstance(n, For) and n.kind == "bind" for n in walk(loops.body)):
            return MapGrid().run(Module("m", loops={"f": loops})).loops["f"], data, steps


def made(loops: Loops, features: Features) -> Kernel | None:
    """The kernel; None where there is none for a good reason."""
    try:
        return make_kernel(loops, features)
    except BuildError as error:
        if any(reason in error.message for reason in REFUSED):
            return None
        raise


def check(runner: Path, seed: int, count: int) -> None:
    rng = random.Random(seed)
    jobs, wanted = [], []
    for k in range(count):
        loops, data, steps = program(rng)
        features = Features() if k % 2 else Features(storage8=False, storage16=False)
        kernel = made(loops, features)
        if kernel is None or len(loops.params) > 12:
            continue
        names = [p.buffer.name for p in loops.params]
        want = {n: data[n].copy() for n in names}
        run_loops(loops, want)
        jobs.append(job_of(loops, kernel, [data[n] for n in names], {}))
        wanted.append((loops, steps, [want[n] for n in names]))
    assert len(jobs) > count // 2
    results, _ = run_jobs(runner, jobs)
    for result, (loops, steps, arrays) in zip(results, wanted, strict=True):
        assert result.status == 0, (loops.name, steps)
        for got, array in zip(result.arrays, arrays, strict=True):
            if array.dtype.kind == "f":
                top = max(1.0, float(np.abs(array[np.isfinite(array)].astype(np.float64)).max(initial=0)))
                np.testing.assert_allclose(got, array, rtol=0, atol=1e-4 * top, err_msg=str(steps))
            else:
                np.testing.assert_array_equal(got, array, err_msg=str(steps))


def test_random_programs(tmp_path: Path) -> None:
    check(build_runner(tmp_path), 20, 12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_many_random_programs(tmp_path: Path, seed: int) -> None:
    check(build_runner(tmp_path), 1000 + seed, 100)
