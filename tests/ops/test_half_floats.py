"""16-bit floats are storage: every op rounds each result once, from what it computes in 32 bits."""

from __future__ import annotations

import numpy as np
import pytest
from op_samples import arguments, as_tuple, concrete, environments

from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.graph import attr_values
from sdk.compiler.ir.loops import Alloc, Op
from sdk.compiler.ir.types import F16
from sdk.compiler.ir.walk import walk
from sdk.compiler.ops import OPS, OpDef, Sample, infer

CASES = [
    (op, sample)
    for op in OPS.values()
    if op.loops is not None and not op.view
    for sample in op.samples
    if any(t.dtype == F16 for t in (*sample.inputs, *infer(op.name, sample.inputs, sample.attrs)))
]
MOVES = {"cast", "select", "bits", "min", "max", "load"}  # what is done to 16 bits without arithmetic
ROUNDING = 2.0**-11  # of a result: half a unit in its last place
MIN = 2.0**-25  # half of the smallest number
F32 = 1e-5  # of the largest number of a result: what sums in 32 bits are off


@pytest.mark.parametrize(("op", "sample"), CASES, ids=lambda v: v.name if isinstance(v, OpDef) else "")
def test_results_are_rounded_once(op: OpDef, sample: Sample) -> None:
    assert op.loops is not None
    outs = infer(op.name, sample.inputs, sample.attrs)
    loops = op.loops("f", sample.inputs, outs, dict(sample.attrs))
    nodes = list(walk(loops.body))
    assert not [n.buffer.name for n in nodes if isinstance(n, Alloc) and n.buffer.dtype == F16]
    assert {n.name for n in nodes if isinstance(n, Op) and n.dtype == F16} <= MOVES
    for dims in environments(sample):
        given = arguments(sample, dims, np.random.default_rng(2))
        results = [np.zeros(concrete(t, dims).static_shape, t.dtype.numpy) for t in outs]
        held = {p.buffer.name: a.copy() for p, a in zip(loops.params, [*given, *results], strict=True)}
        run_loops(loops, held, {v.name: n for v, n in dims.items()})
        attrs = attr_values(sample.attrs, dims)
        wide = given if op.name == "bitcast" else [a.astype(np.float64) if a.dtype == np.float16 else a for a in given]
        with np.errstate(all="ignore"):
            wanted = as_tuple(op.reference(*wide, **attrs))
        for param, type, want in zip(loops.params[len(given) :], outs, wanted, strict=True):
            got = held[param.buffer.name]
            if type.dtype != F16:
                continue
            within(got.astype(np.float64), np.asarray(want, np.float64))


def within(got: np.ndarray, want: np.ndarray) -> None:
    """Both have the same infinities and NaNs; the others differ by a rounding and what sums in 32 bits are off."""
    limits = np.finfo(np.float16)
    want = np.where(np.abs(want) >= float(limits.max) * (1 + ROUNDING), np.copysign(np.inf, want), want)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(got[np.isinf(want)], want[np.isinf(want)])
    got, want = got[np.isfinite(want)], want[np.isfinite(want)]
    largest = np.abs(want).max(initial=0.0)
    assert (np.abs(got - want) <= ROUNDING * np.abs(want) + MIN + F32 * largest).all()


def test_many_ops_have_samples_in_16_bits() -> None:
    assert len({op.name for op, _ in CASES}) > 60
