"""Every op of the registry: inferred shapes and the values of its loops, both against the reference."""

from __future__ import annotations

import numpy as np
import pytest
from op_samples import arguments, as_tuple, concrete, environments

from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.graph import attr_values
from sdk.compiler.ops import OPS, OpDef, Sample, infer
from sdk.compiler.sym import evaluate

CASES = [
    pytest.param(op, sample, id=f"{op.name}-{k}") for op in OPS.values() for k, sample in enumerate(op.samples)
]

# ops that count as they go, which rows apart could not
WHOLE = {"count_nonzero", "nms", "nonzero"}
# ops that take the rows of their input one after the other, and add to what the rows before left
GATHERS = {"pool_rows"}


def same(got: np.ndarray, want: np.ndarray, what: str) -> None:
    assert got.dtype == want.dtype, what
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, err_msg=what)
    else:
        np.testing.assert_array_equal(got, want, err_msg=what)


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_inference_holds_for_every_value_of_the_dims(op: OpDef, sample: Sample) -> None:
    attrs = dict(sample.attrs)
    general = infer(op.name, sample.inputs, attrs)
    for dims in environments(sample):
        exact = attr_values(sample.attrs, dims)
        special = infer(op.name, [concrete(t, dims) for t in sample.inputs], exact)
        args = arguments(sample, dims, np.random.default_rng(1))
        found = as_tuple(op.reference(*args, **exact))
        for one, two, array in zip(general, special, found, strict=True):
            assert concrete(one, dims).shape == two.shape == array.shape
            assert one.dtype == two.dtype
            assert array.dtype == two.dtype.numpy


@pytest.mark.parametrize(("op", "sample"), [c for c in CASES if not c.values[0].view])
def test_loops_equal_the_reference(op: OpDef, sample: Sample) -> None:
    attrs = dict(sample.attrs)
    outs = infer(op.name, sample.inputs, attrs)
    loops = op.loops("f", sample.inputs, outs, attrs)
    names = [p.buffer.name for p in loops.params]
    written = "update" if op.name in GATHERS else "write"
    assert [p.mode for p in loops.params] == ["read"] * len(sample.inputs) + [written] * len(outs)
    assert names[: len(sample.inputs)] == list(op.input_names(len(sample.inputs)))
    for dims in environments(sample):
        args = arguments(sample, dims, np.random.default_rng(2))
        wanted = as_tuple(op.reference(*args, **attr_values(sample.attrs, dims)))
        results = [np.full(concrete(t, dims).static_shape, 85, dtype=t.dtype.numpy) for t in outs]
        arrays = dict(zip(names, [*args, *results], strict=True))
        run_loops(loops, arrays, {v.name: n for v, n in dims.items()})
        for got, want in zip(results, wanted, strict=True):
            same(got, want, f"{op.name} at {dims}")


@pytest.mark.some(440)
@pytest.mark.parametrize(("op", "sample"), [c for c in CASES if not c.values[0].view])
def test_rows_of_the_loops_add_up(op: OpDef, sample: Sample) -> None:
    """Computing the rows in two calls gives what one call gives."""
    attrs = dict(sample.attrs)
    outs = infer(op.name, sample.inputs, attrs)
    loops = op.loops("f", sample.inputs, outs, attrs)
    if loops.rows is None:
        assert outs[0].rank == 0 or op.name in WHOLE
        return
    dims = environments(sample)[-1]
    extent = evaluate(loops.rows.extent, dims)
    args = arguments(sample, dims, np.random.default_rng(3))
    wanted = as_tuple(op.reference(*args, **attr_values(sample.attrs, dims)))
    results = [np.full(concrete(t, dims).static_shape, 85, dtype=t.dtype.numpy) for t in outs]
    arrays = dict(zip([p.buffer.name for p in loops.params], [*args, *results], strict=True))
    middle = (extent + 1) // 2
    for rows in ((0, middle), (middle, extent)):
        run_loops(loops, arrays, {v.name: n for v, n in dims.items()}, rows)
    for got, want in zip(results, wanted, strict=True):
        same(got, want, op.name)


@pytest.mark.parametrize("kind", [np.inf, np.nan, 3e38], ids=str)
@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_references_say_nothing_of_values_out_of_range(op: OpDef, kind: float) -> None:
    """Here a warning is an error; shapes that are not computed from values stay as they are."""
    for sample in op.samples:
        dims = environments(sample)[-1]
        args = arguments(sample, dims, np.random.default_rng(4))
        for k, array in enumerate(args):
            if array.dtype == np.float32 and k not in sample.values:
                array.flat[::2] = kind
        as_tuple(op.reference(*args, **attr_values(sample.attrs, dims)))
