"""Products of 16-bit activations and 8-bit weights: rules keep their meaning, sums of 64 bits have parts of 32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.layout import Interleave
from sdk.compiler.ir.loops import Load, Loops, Op, Store
from sdk.compiler.ir.packing import pack_array
from sdk.compiler.ir.types import I8, I16, I32, I64, DType, TensorType
from sdk.compiler.ir.walk import walk
from sdk.compiler.machines.lookup import MACHINES
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.ops import OPS, infer
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.schedules.rules import schedule_nest
from sdk.compiler.schedules.trace import Schedule, replay

DSP = next(core for core in MACHINES if core.name == "dsp")
Case = tuple[str, tuple[TensorType, ...], dict[str, Any]]


def conv(side: int, depth: int, outs: int, kernel: int, sums: DType, stride: int = 1) -> Case:
    types = (
        TensorType(I16, (1, side, side, depth)),
        TensorType(I8, (outs, kernel, kernel, depth)),
        TensorType(sums, (outs,)),
    )
    given = {"stride": (stride, stride), "dilation": (1, 1), "pad": (kernel // 2,) * 4, "pad_value": 0, "x_offset": 0}
    return "conv2d", types, given


def depthwise(rows: int, columns: int, channels: int, kernel: int, sums: DType) -> Case:
    types = (
        TensorType(I16, (1, rows, columns, channels)),
        TensorType(I8, (kernel, kernel, channels)),
        TensorType(sums, (channels,)),
    )
    given = {"stride": (1, 1), "dilation": (1, 1), "pad": (kernel // 2,) * 4, "pad_value": 0, "x_offset": 0}
    return "depthwise_conv2d", types, {**given, "multiplier": 1}


def dense(rows: int, inner: int, outs: int, sums: DType) -> Case:
    types = (TensorType(I16, (rows, inner)), TensorType(I8, (outs, inner)), TensorType(sums, (outs,)))
    return "dense", types, {"x_offset": 0, "w_offset": 0}


CASES = {
    "pointwise": conv(6, 20, 14, 1, I32),
    "odd": conv(5, 17, 15, 1, I32),
    "image": conv(9, 3, 8, 3, I32, 2),
    "windows": conv(7, 8, 6, 3, I32),
    "depthwise": depthwise(9, 8, 7, 3, I32),
    "one column": depthwise(40, 1, 20, 3, I32),
    "dense": dense(1, 130, 36, I32),
    "wide pointwise": conv(3, 64, 9, 1, I64),
    "wide windows": conv(4, 70, 3, 3, I64),
    "wide dense": dense(1, 1024, 6, I64),
    "wide rows": dense(5, 1042, 3, I64),
    "wide depthwise": depthwise(9, 8, 8, 3, I64),
}


def nest(case: Case) -> tuple[Loops, dict[str, np.ndarray], np.ndarray]:
    name, types, given = case
    rng = np.random.default_rng(7)
    values = [rng.integers(*t.dtype.limits, t.static_shape, endpoint=True).astype(t.dtype.numpy) for t in types[:2]]
    values.append(rng.integers(-9999, 9999, types[2].static_shape).astype(types[2].dtype.numpy))
    op = OPS[name]
    assert op.loops is not None
    loops = op.loops("f", types, infer(name, types, tuple(given.items())), given)
    return loops, dict(zip(op.inputs, values, strict=True)), op.reference(*values, **given)


@pytest.mark.some(78)
@pytest.mark.parametrize("core", [c for c in MACHINES if c.lanes < 8], ids=lambda c: c.name)
@pytest.mark.parametrize("case", CASES)
def test_scheduled_nest_computes_the_same(case: str, core: Machine) -> None:
    computes_the_same(case, core, False)


@pytest.mark.parametrize("case", CASES)
def test_compact_nest_computes_the_same(case: str) -> None:
    computes_the_same(case, DSP, True)


def computes_the_same(case: str, core: Machine, compact: bool) -> None:
    loops, arrays, want = nest(CASES[case])
    done = schedule_nest(Nest(loops, compact=compact), core)
    for name, layout in done.layouts.items():
        arrays[name] = pack_array(arrays[name], layout)
    arrays["o"] = np.full(want.shape, 99, want.dtype)
    run_loops(done, arrays)
    np.testing.assert_array_equal(arrays["o"], want)
    if done.trace:
        assert replay(loops, done.trace) == done


@pytest.mark.parametrize("case", [c for c in CASES if c not in ("one column", "wide depthwise")])
def test_cores_that_multiply_halves_take_two_products_at_once(case: str) -> None:
    done = schedule_nest(Nest(nest(CASES[case])[0]), DSP)
    dots = [n for n in walk(done.body) if isinstance(n, Op) and n.name == "dot"]
    assert dots
    assert {str(n.args[1].dtype) for n in dots} == {"i16x2"}


def test_compact_code_takes_bytes_of_weights_apart() -> None:
    done = schedule_nest(Nest(nest(CASES["odd"])[0], compact=True), DSP)
    assert {n.name for n in walk(done.body) if isinstance(n, Op)} >= {"dot", "evens", "odds"}
    assert done.param("w").buffer.dtype == I8
    assert isinstance(done.param("w").layout.steps[-1], Interleave)


def test_words_of_bytes_are_those_of_a_packed_parameter() -> None:
    plain = Schedule(nest(CASES["wide dense"])[0])
    with pytest.raises(ScheduleError, match="not packed in columns of four bytes"):
        plain.use_interleaved_dot(plain.split("k", 4).inner, "w")
    packed = Schedule(nest(CASES["wide dense"])[0]).pack("w", 1, 4)
    with pytest.raises(ScheduleError, match="not one multiply-accumulate of four steps"):
        packed.use_interleaved_dot(packed.split("k", 8).inner, "w")


def test_parts_hold_as_many_products_as_are_sure_to_fit() -> None:
    assert "split(k, 256); partial(k_i)" in schedule_nest(Nest(nest(CASES["wide dense"])[0]), DSP).trace
    assert "partial" not in schedule_nest(Nest(nest(CASES["dense"])[0]), DSP).trace


def test_wide_sums_that_no_part_divides_are_summed_in_64_bits() -> None:
    done = schedule_nest(Nest(nest(CASES["wide rows"])[0]), DSP)
    assert {n.dtype for n in walk(done.body) if isinstance(n, Op) and n.name == "dot"} == {I64}


def test_a_part_that_may_leave_32_bits_is_refused() -> None:
    loops = nest(dense(2, 512, 4, I64))[0]
    with pytest.raises(ScheduleError, match="512 products of i16 and i8 may leave 32 bits"):
        Schedule(loops).partial("k")
    s = Schedule(loops)
    done = s.partial(s.split("k", 256).inner).done()
    assert any(isinstance(n, Load) and n.buffer == "part" and n.dtype == I32 for n in walk(done.body))
    assert any(isinstance(n, Store) and n.buffer == "part" for n in walk(done.body))


def test_parts_are_of_sums_of_64_bits() -> None:
    with pytest.raises(ScheduleError, match="does not hold one sum of 64 bits"):
        Schedule(nest(CASES["dense"])[0]).partial("k")
