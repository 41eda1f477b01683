"""Random primitives on the nests of every op: well formed, read back from their text, and the same results, also in
place.

The interpreter runs serially here, so that it does not lean on the dependence analysis that primitives lean on.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sdk.compiler.interp import loops as interpreter
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.graph import attr_symbols, attr_values, attrs
from sdk.compiler.ir.loops import Alloc, Loops
from sdk.compiler.ir.packing import pack_array
from sdk.compiler.ir.types import TensorType
from sdk.compiler.ir.walk import walk
from sdk.compiler.memory.inplace import may_take_over
from sdk.compiler.ops import OPS, infer
from sdk.compiler.schedules.locate import loops_in
from sdk.compiler.schedules.trace import Schedule
from sdk.compiler.sym import evaluate, free_vars
from sdk.compiler.verify.loops import verify_loops
from sdk.errors import SdkError
from tests.ir.round_trip import check_function

Arrays = dict[str, np.ndarray]
SAMPLES = [(op, s) for op in OPS.values() if op.loops for s in op.samples]


@pytest.fixture(autouse=True)
def serial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "MAX_WIDTH", 0)


def nest(rng: random.Random) -> tuple[Loops, Arrays, list[str]]:
    """The naive nest of a sample at small sizes, its arrays, and the names of its outputs."""
    op, sample = rng.choice(SAMPLES)
    symbols = {v for t in sample.inputs for d in t.shape for v in free_vars(d)} | attr_symbols(sample.attrs)
    env = {v: min(v.hi, max(v.lo, 4)) // v.multiple * v.multiple for v in symbols}
    types = [TensorType(t.dtype, tuple(evaluate(d, env) for d in t.shape)) for t in sample.inputs]
    values = np.random.default_rng(rng.randrange(1 << 30))
    arrays = [fill(t, sample.values.get(k), values) for k, t in enumerate(types)]
    given = attr_values(sample.attrs, env)
    outs = infer(op.name, types, attrs(**given))
    assert op.loops is not None
    loops = op.loops("f", types, outs, given)
    names = [p.buffer.name for p in loops.params]
    data = dict(zip(names, arrays, strict=False))
    made = names[len(types) :]
    data |= {n: np.zeros(t.static_shape, t.dtype.numpy) for n, t in zip(made, outs, strict=True)}
    return loops, data, made


def fill(type: TensorType, values: Any, rng: np.random.Generator) -> np.ndarray:
    if values is not None:
        return np.resize(values(rng), type.static_shape).astype(type.dtype.numpy)
    if type.dtype.is_float:
        return rng.integers(-9, 9, type.static_shape).astype(type.dtype.numpy)
    lo, hi = type.dtype.limits
    return rng.integers(max(lo, -1000), min(hi, 1000), type.static_shape, endpoint=True).astype(type.dtype.numpy)


def a_step(rng: random.Random, loops: Loops, k: int) -> tuple[Any, ...]:
    names = loops_in(loops.body)
    one, two = rng.choice(names), rng.choice(names)
    params = [p.buffer.name for p in loops.params if p.mode == "read"] or ["none"]
    buffers = params + [n.buffer.name for n in walk(loops.body) if isinstance(n, Alloc)]
    some = rng.sample(names, rng.randint(1, min(3, len(names))))
    return rng.choice((
        ("split", one, rng.randint(1, 5)), ("split", one, 4), ("split", one, 2), ("unroll", one),
        ("unroll_and_jam", one, names), ("unroll_and_jam", one, some), ("vectorize", one),
        ("reorder", one, two), ("fuse", one, two, f"fused{k}"),
        ("pack", rng.choice(params), rng.choice((1, 2, 4)), rng.choice((1, 2, 4)), rng.randint(0, 2)),
        ("pad", one, rng.choice((2, 4))),
        ("cache_read", one, rng.choice(params), some, rng.choice((1, 4))), ("use_dot", one), ("use_dot", one, two),
        ("use_dot_first", one, 4), ("use_dot_first", one, 16), ("fission", one, "local"),
        ("cache_read", one, rng.choice(params), some, 1, "register"),
        ("pad_loop", one, rng.choice((2, 3, 4))), ("block", one, rng.randint(1, 4)), ("cyclic", one, rng.randint(1, 4)),
        ("tile_tails", one, [4, 2, 1]), ("tile_tails", one, [3, 2, 1]), ("overlap", one, rng.choice((2, 3, 4))),
        ("line_buffer", one, rng.choice(params)), ("use_fma", one),
        ("fission", one), ("strip", one, rng.choice((2, 4))), ("simplify_conditions",), ("inline",),
        ("accumulate", one, 4, rng.choice((1, 2))),
        ("partition", one, 1, 1), ("transpose_tile", one, two), ("use_mac_lanes", one), ("bind", one, "local.x"),
        ("use_dot_lanes", one), ("use_dot_2x2", one),
        ("vector_registers", rng.choice(buffers), rng.choice((2, 4))),
    ))  # fmt: skip


def scheduled(rng: random.Random, loops: Loops, data: Arrays) -> tuple[Loops, list[str]]:
    """Up to six steps that apply; packed arguments are re-laid in ``data``."""
    s = Schedule(loops)
    for k in range(rng.randint(1, 6)):
        if not loops_in(s.loops.body):
            break
        step = a_step(rng, s.loops, k)
        try:
            s.do(*step)
        except (SdkError, KeyError):
            continue
        if step[0] == "pack":
            data[step[1]] = pack_array(data[step[1]], s.loops.layouts[step[1]])
    return s.loops, s.steps


def run(loops: Loops, data: Arrays, over: tuple[str, str] | None = None) -> Arrays:
    arrays = {k: v.copy() for k, v in data.items()}
    if over is not None:
        out, source = over
        arrays[out] = arrays[source].view(arrays[out].dtype).reshape(arrays[out].shape)
    run_loops(loops, arrays)
    return arrays


def findings(loops: Loops) -> Iterator[str]:
    found: list[str] = []
    verify_loops(loops, lambda where, message: found.append(f"{where}: {message}"))
    return iter(found)


def same_results(got: np.ndarray, want: np.ndarray, where: str) -> None:
    """Integers are equal; floats are but for rounding, since `accumulate` regroups their sums."""
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want, err_msg=where)
        return
    room = 2e-3 if want.dtype == np.float16 else 1e-5
    finite = np.abs(want[np.isfinite(want)].astype(np.float64))
    maximum = max(1.0, float(finite.max())) if finite.size else 1.0
    np.testing.assert_allclose(got, want, rtol=room, atol=room * maximum, err_msg=where)


def check(seed: int) -> None:
    rng = random.Random(seed)
    loops, data, outs = nest(rng)
    want = run(loops, data)
    done, steps = scheduled(rng, loops, data)
    check_function(done, f"{steps}")
    # registers are addressed by loops until those are unrolled, which a random sequence need not do
    assert [f for f in findings(done) if "is a register chosen at run time" not in f] == [], steps
    got = run(done, data)
    for name in outs:
        same_results(got[name], want[name], f"{loops.name} {steps}")
    for out in outs:
        for p in done.params:
            same = p.mode == "read" and data[p.buffer.name].nbytes == data[out].nbytes
            if same and may_take_over(done, out, p.buffer.name):
                shared = run(done, data, (out, p.buffer.name))[out]
                same_results(shared, want[out], f"in place {steps}")


@pytest.mark.some(2)
@pytest.mark.parametrize("block", range(4))
def test_random_schedules(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        check(seed)


@pytest.mark.parametrize("seed", [10_321, 10_571, 10_656, 11_085, 11_613, 11_807, 11_945, 12_465, 13_999])
def test_schedules_that_once_failed(seed: int) -> None:
    check(seed)


@pytest.mark.slow
def test_many_random_schedules() -> None:
    for seed in range(10_000, 14_000):
        check(seed)
