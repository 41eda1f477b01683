"""Schedules for GPUs: what an item does of a nest computes what the nest does, for any shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from sdk.codegen_c.gpu.grid import Grid, parts_of, work_items
from sdk.codegen_c.gpu.steps import all_rows
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import F32, I8, I32, DType, TensorType
from sdk.compiler.machines.gpus.gpu import Gpu
from sdk.compiler.machines.gpus.lookup import GPUS
from sdk.compiler.ops import OPS, Sample, infer
from sdk.compiler.passes.simplify_loops import SimplifyLoops
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.sym import Dim, Var
from tests.gpu.kernels import SAMPLES, given, plain
from tests.ops.op_samples import environments, symbols

# rows of two interfaces may have the same rules
MACHINES = {(gpu.rules, gpu.lanes): (f"{row.name} {gpu.lanes}", gpu) for row in GPUS.values() for gpu in row.variants}
CASES = dict(MACHINES.values())
QUICK = ("opencl 16", "vulkan 1", "vulkan-mali 1")
M, N, K = (Var(name, 1, 19).expr for name in "mnk")
H, C = Var("h", 1, 6).expr, Var("c", 4, 12, 4).expr


def nest(name: str, sample: Sample) -> Loops:
    """An operator's nest with all of its rows."""
    attrs = dict(sample.attrs)
    made = OPS[name].loops
    assert made is not None
    loops = made("f", sample.inputs, infer(name, sample.inputs, attrs), attrs)
    return SimplifyLoops().run(Module("m", loops={"f": loops})).loops["f"]


def check(name: str, sample: Sample, loops: Loops, dims: Mapping[Var, int], gpu: Gpu) -> int:
    """How many kernels rules made of a function, whose results must be those of the plain nest."""
    parts = parts_of(all_rows(loops))
    grids = [by_rule(part, gpu) or work_items(part) for part in parts]
    count = sum(by_rule(part, gpu) is not None for part in parts)
    if not count or any(len(g.loops.params) > len(g.operands) for g in grids):
        return 0  # those with memory beside that of the call are no rule's
    by_name = {v.name: n for v, n in dims.items()}
    want = given(name, sample, loops, dims)
    got = {n: a.copy() for n, a in want.items()}
    run_loops(loops, want, by_name)
    for grid in grids:
        flat = {p.buffer.name for p in grid.loops.params if len(p.buffer.shape) == 1}
        arrays = {p.buffer.name: got[p.buffer.name] for p in grid.loops.params}
        run_loops(grid.loops, {n: a.reshape(-1) if n in flat else a for n, a in arrays.items()}, by_name)
    for n, array in want.items():
        assert near(got[n], array), (name, sample.attrs, sample.inputs, by_name, n)
    return count


def by_rule(part: Loops, gpu: Gpu) -> Grid | None:
    """The kernel that a rule makes of a nest."""
    try:
        return work_items(part, gpu, frozenset(p.buffer.name for p in part.params))
    except ScheduleError:
        return None


def near(got: np.ndarray, want: np.ndarray) -> bool:
    if want.dtype.kind != "f":
        return np.array_equal(got, want)
    bound = 1e-5 if want.dtype.itemsize > 2 else 2e-3
    scale = max(1.0, float(np.abs(want[np.isfinite(want)]).max(initial=0)))
    return np.allclose(got, want, rtol=0, atol=bound * scale, equal_nan=True)


@pytest.mark.parametrize("what", QUICK)
def test_some_samples_of_operators(what: str) -> None:
    assert samples(what, 9) > 3


@pytest.mark.slow
@pytest.mark.parametrize("what", CASES)
def test_samples_of_all_operators(what: str) -> None:
    assert samples(what, 1) > 25


def samples(what: str, step: int) -> int:
    """How many kernels rules made of some samples of operators."""
    count = 0
    for o, sample, number in SAMPLES[1::step]:
        loops = plain(o.name, sample)
        some = environments(sample)
        count += check(o.name, sample, loops, some[number % len(some)], CASES[what])
    return count


def convolution(shape: tuple[Dim, ...], weights: tuple[int, ...], kind: DType, **attrs: Any) -> Sample:
    of, total = (shape, weights), I32 if kind == I8 else kind
    inputs = (*(TensorType(kind, s) for s in of), TensorType(total, (weights[0 if len(weights) > 3 else -1],)))
    more = {"pad_value": -3, "x_offset": 5} if kind == I8 else {}
    if len(weights) == 3:
        more["multiplier"] = 1
    return Sample(inputs, tuple(sorted({"dilation": (1, 1), **more, **attrs}.items())))


SWEEP: list[tuple[str, Sample]] = [
    *(("matmul", Sample((TensorType(F32, (M, K)), TensorType(F32, (K, n))))) for n in (1, 8, 21)),
    ("matmul", Sample((TensorType(F32, (M, K)), TensorType(F32, (K, N))))),
    ("matmul", Sample((TensorType(F32, (2, M, 12)), TensorType(F32, (2, 12, N))))),
    ("matmul", Sample((TensorType(F32, (M, C)), TensorType(F32, (C, 20))))),
    ("matmul", Sample((TensorType(I32, (M, 9)), TensorType(I32, (9, 12))))),
    *(
        ("conv2d", convolution((batch, 5, width, c), (out, size, size, c), kind, stride=(s, s), pad=(1, 1, 1, 1)))
        for batch, width, c, out, size, kind, s in (
            (1, 4, 4, 8, 3, F32, 1), (2, 7, 12, 12, 1, F32, 1), (1, 6, 4, 5, 3, F32, 2), (1, 4, 4, 8, 3, I8, 2),
            (2, 5, 4, 20, 1, I8, 1), (1, 3, 3, 5, 2, I8, 1))
    ),
    ("conv2d", convolution((1, H, H, 3), (9, 3, 3, 3), F32, stride=(2, 2), pad=(1, 1, 1, 1))),
    ("conv2d", convolution((1, H, 3, 12), (8, 3, 3, 12), F32, stride=(1, 1), pad=(1, 1, 1, 1))),
    *(
        ("depthwise_conv2d", convolution((1, H, w, c), (3, 3, c), kind, stride=(s, s), pad=(1, 1, 1, 1)))
        for w, c, kind, s in ((5, 24, F32, 1), (7, 20, F32, 2), (5, 6, I8, 1), (8, 16, I8, 2), (6, 1, F32, 1))
    ),
]  # fmt: skip


def shapes(what: str, number: int, count: int) -> None:
    name, sample = SWEEP[number]
    loops = nest(name, sample)
    for k in range(count):
        assert check(name, sample, loops, some_dims(sample, number + k), CASES[what]) == 1, (name, sample)


def some_dims(sample: Sample, number: int) -> dict[Var, int]:
    """The symbols of a sample at one of their values each."""
    rng = np.random.default_rng(number)
    steps = {v: (v.minimum // v.multiple, v.maximum // v.multiple + 1) for v in symbols(sample)}
    return {v: int(rng.integers(*ends)) * v.multiple for v, ends in steps.items()}


@pytest.mark.some(3 * len(SWEEP) // 2)
@pytest.mark.parametrize("number", range(len(SWEEP)))
@pytest.mark.parametrize("what", QUICK)
def test_shapes(what: str, number: int) -> None:
    shapes(what, number, 1)


@pytest.mark.slow
@pytest.mark.parametrize("what", CASES)
def test_shapes_of_many_sizes(what: str) -> None:
    for number in range(len(SWEEP)):
        shapes(what, number, 12)
