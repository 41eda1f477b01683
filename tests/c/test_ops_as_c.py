"""Every op of the registry as C equals its numpy reference, by both compilers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from c_harness import HOST_ISA, Kernels, build

from sdk.compiler.ir.graph import attr_symbols, attr_values
from sdk.compiler.ir.types import TensorType
from sdk.compiler.ops.registry import OPS, OpDef, Sample, infer
from sdk.compiler.sym import Var, evaluate, free_vars

CASES = [(op, k, sample) for op in OPS.values() if not op.view for k, sample in enumerate(op.samples)]
# The loops are not scheduled, so their text is the same for all instruction sets: none, and those of this machine.
SETS = {"words": frozenset[str](), "host": HOST_ISA}


def loops_of(op: OpDef, k: int, sample: Sample) -> Any:
    outs = infer(op.name, sample.inputs, sample.attrs)
    return op.loops(f"{op.name}_{k}", sample.inputs, outs, dict(sample.attrs))


@pytest.fixture(scope="module", params=[("words", "gcc"), ("host", "zig")], ids="-".join)
def kernels(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    isa, toolchain = request.param
    return build([loops_of(*case) for case in CASES], tmp_path_factory.mktemp("ops"), SETS[isa], toolchain)


def environments(sample: Sample) -> list[dict[Var, int]]:
    names = {v for t in sample.inputs for d in t.shape for v in free_vars(d)} | attr_symbols(sample.attrs)
    return [{v: v.lo for v in names}, {v: v.hi for v in names}] if names else [{}]


def arguments(sample: Sample, dims: Mapping[Var, int], rng: np.random.Generator) -> list[np.ndarray]:
    out = []
    for k, type in enumerate(sample.inputs):
        shape = tuple(evaluate(d, dims) for d in type.shape)
        if k in sample.values:
            out.append(np.array(sample.values[k](rng), order="C").astype(type.dtype.numpy))
        elif type.dtype.is_float:
            out.append(rng.standard_normal(shape).astype(type.dtype.numpy))
        else:
            lo, hi = type.dtype.limits
            out.append(rng.integers(max(lo, -(1 << 20)), min(hi, 1 << 20) + 1, shape).astype(type.dtype.numpy))
    return out


def expected(op: OpDef, sample: Sample, dims: Mapping[Var, int], args: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    value = op.reference(*args, **attr_values(sample.attrs, dims))
    return value if isinstance(value, tuple) else (value,)


def outputs(types: tuple[TensorType, ...], dims: Mapping[Var, int]) -> list[np.ndarray]:
    return [np.full(tuple(evaluate(d, dims) for d in t.shape), 85, dtype=t.dtype.numpy) for t in types]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0].name}-{c[1]}")
def test_plain_loops(kernels: Kernels, case: tuple[OpDef, int, Sample]) -> None:
    op, k, sample = case
    loops = kernels.loops[f"{op.name}_{k}"]
    types = infer(op.name, sample.inputs, sample.attrs)
    for dims in environments(sample):
        args = arguments(sample, dims, np.random.default_rng(k))
        results = outputs(types, dims)
        extent = evaluate(loops.rows.extent, dims) if loops.rows else 0
        parts = [(0, extent // 2), (extent // 2, extent)] if loops.rows else [None]
        for rows in parts:
            kernels.call(loops.name, [*args, *results], [dims[v] for v in loops.dims], rows)
        for got, want in zip(results, expected(op, sample, dims, args), strict=True):
            if want.dtype.kind == "f":
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_array_equal(got, want)
