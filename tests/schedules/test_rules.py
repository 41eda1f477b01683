"""Every default rule keeps the meaning of the nest, replays from its trace, and reaches the form it promises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sdk.compiler.analysis.row_calls import by_rows
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.loops import Loops, Op
from sdk.compiler.ir.packing import pack_array
from sdk.compiler.ir.types import I8, I32, DType, TensorType
from sdk.compiler.ir.walk import walk
from sdk.compiler.machines.lookup import MACHINES
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.memory.rings import with_rings
from sdk.compiler.memory.scratch import scratch_layout
from sdk.compiler.ops import OPS, infer
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.schedules.rules import schedule_nest
from sdk.compiler.schedules.trace import replay
from sdk.compiler.verify.loops import verify_loops


def tensor(dtype: DType, *shape: int) -> TensorType:
    return TensorType(dtype, shape)


def conv(h: int, w: int, c: int, o: int, k: int, stride: int, pad: int) -> tuple[str, Any, dict[str, Any]]:
    types = (tensor(I8, 1, h, w, c), tensor(I8, o, k, k, c), tensor(I32, o))
    pads = (pad, pad, pad, pad)
    return "conv2d", types, {"stride": (stride, stride), "dilation": (1, 1), "pad": pads, "pad_value": 5}


def depthwise(h: int, w: int, c: int, kh: int, kw: int, pad: int) -> tuple[str, Any, dict[str, Any]]:
    types = (tensor(I8, 1, h, w, c), tensor(I8, kh, kw, c), tensor(I32, c))
    attrs = {
        "stride": (1, 1),
        "dilation": (1, 1),
        "pad": (pad, pad, pad, pad),
        "pad_value": 5,
        "multiplier": 1,
    }
    return "depthwise_conv2d", types, attrs


def dense(m: int, k: int, n: int) -> tuple[str, Any, dict[str, Any]]:
    return "dense", (tensor(I8, m, k), tensor(I8, n, k), tensor(I32, n)), {"w_offset": 0}


BY_NAME = {core.name: core for core in MACHINES}
DSP, MVE = BY_NAME["dsp"], BY_NAME["mve"]
SCALAR = [core for core in MACHINES if not core.vector_bytes]
CASES = [
    conv(8, 7, 16, 19, 3, 1, 1),
    conv(9, 5, 64, 64, 1, 1, 0),
    conv(8, 7, 3, 16, 3, 2, 1),
    conv(6, 6, 5, 33, 2, 1, 0),
    depthwise(9, 5, 38, 3, 3, 1),
    depthwise(9, 5, 64, 5, 1, 0),
    dense(1, 130, 130),
    dense(7, 64, 40),
    depthwise(6, 11, 23, 3, 3, 1),
    depthwise(30, 1, 40, 5, 1, 0),
    depthwise(20, 24, 3, 3, 3, 1),
    conv(9, 5, 10, 21, 3, 1, 1),
]


def naive(case: tuple[str, Any, dict[str, Any]], core: Machine) -> tuple[Loops, dict[str, np.ndarray], np.ndarray]:
    name, types, attrs = case
    attrs = {**attrs, "x_offset": 128 if core.unsigned else 0}
    rng = np.random.default_rng(7)
    values = [rng.integers(-128, 128, t.static_shape).astype(t.dtype.numpy) for t in types]
    op = OPS[name]
    assert op.loops is not None
    loops = op.loops("f", types, infer(name, types, tuple(attrs.items())), attrs)
    return loops, dict(zip(op.inputs, values, strict=True)), op.reference(*values, **attrs)


@pytest.mark.some(96)
@pytest.mark.parametrize("core", MACHINES, ids=lambda c: c.name)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{'x'.join(map(str, c[1][1].shape))}")
def test_scheduled_nest_computes_the_same(case: Any, core: Machine) -> None:
    loops, arrays, want = naive(case, core)
    done = schedule_nest(Nest(loops), core)
    for name, layout in done.layouts.items():
        arrays[name] = pack_array(arrays[name], layout)
    arrays["o"] = np.full(want.shape, 99, want.dtype)
    run_loops(done, arrays)
    np.testing.assert_array_equal(arrays["o"], want)
    if done.trace:
        assert replay(loops, done.trace) == done


@pytest.mark.some(24)
@pytest.mark.parametrize("core", MACHINES, ids=lambda c: c.name)
@pytest.mark.parametrize("case", CASES[:2] + CASES[4:5], ids=["conv3x3", "conv1x1", "depthwise"])
def test_rows_of_a_scheduled_nest_make_up_the_whole(case: Any, core: Machine) -> None:
    loops, arrays, want = naive(case, core)
    done = schedule_nest(Nest(loops), core)
    for name, layout in done.layouts.items():
        arrays[name] = pack_array(arrays[name], layout)
    arrays["o"] = np.full(want.shape, 99, want.dtype)
    for lo, hi in ((3, 5), (0, 3), (5, want.shape[1])):
        run_loops(done, arrays, rows=(lo, hi))
    np.testing.assert_array_equal(arrays["o"], want)


@pytest.mark.parametrize(
    "core", [core for core in MACHINES if (core.dot and core.dot.sums > 1) or core is MVE], ids=lambda c: c.name
)
def test_contractions_reach_the_dot_instruction(core: Machine) -> None:
    for case in (CASES[0], CASES[1], CASES[2], CASES[6]):
        done = schedule_nest(Nest(naive(case, core)[0]), core)
        assert any(isinstance(n, Op) and n.name in ("dot", "dot_lane", "dot_2x2") for n in walk(done.body))


def test_products_of_two_pixels_by_two_channels() -> None:
    """A layer of one row has no two pixels; sums of fewer products than a vector are not worth it."""
    core, small = BY_NAME["i8mm"], conv(8, 7, 8, 19, 1, 1, 0)
    for case, paired in ((CASES[0], True), (CASES[1], True), (CASES[6], False), (small, False)):
        done = schedule_nest(Nest(naive(case, core)[0]), core)
        assert any(isinstance(n, Op) and n.name == "dot_2x2" for n in walk(done.body)) == paired


def test_what_lies_as_the_dot_instruction_wants_it_is_read_in_place() -> None:
    """All of a pointwise layer, unless sums have a rest or the instruction wants unsigned factors."""
    rest = conv(9, 5, 66, 64, 1, 1, 0)
    for core, case, staged in (
        (BY_NAME["dotprod"], CASES[1], False),
        (BY_NAME["dotprod"], rest, True),
        (BY_NAME["dotprod"], CASES[0], True),
        (BY_NAME["avx512vnni"], CASES[1], True),
    ):
        done = schedule_nest(Nest(naive(case, core)[0]), core)
        assert (scratch_layout(done).bytes > 0) == staged


@pytest.mark.some(96)
@pytest.mark.parametrize("core", MACHINES, ids=lambda c: c.name)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{'x'.join(map(str, c[1][1].shape))}")
def test_scheduled_nests_run_row_by_row(case: Any, core: Machine) -> None:
    loops, arrays, want = naive(case, core)
    done = by_rows(schedule_nest(Nest(loops), core))
    for name, layout in done.layouts.items():
        arrays[name] = pack_array(arrays[name], layout)
    arrays["o"] = np.full(want.shape, 99, want.dtype)
    run_loops(done, arrays)
    np.testing.assert_array_equal(arrays["o"], want)
    problems: list[str] = []
    verify_loops(done, lambda where, message: problems.append(f"{where}: {message}"))
    assert problems == []


@pytest.mark.some(14)
@pytest.mark.parametrize("core", SCALAR, ids=lambda c: c.name)
@pytest.mark.parametrize("case", [CASES[k] for k in (0, 1, 4, 8)], ids=["conv3x3", "conv1x1", "depthwise", "tails"])
def test_scheduled_nests_read_and_write_rings(case: Any, core: Machine) -> None:
    loops, arrays, want = naive(case, core)
    kept = case[1][1].shape[0] if case[0] == "depthwise_conv2d" else case[1][1].shape[1]
    done = with_rings(schedule_nest(Nest(loops), core), {"x": kept, "o": 2})
    for name, layout in done.layouts.items():
        arrays[name] = pack_array(arrays[name], layout)
    x, height = arrays["x"], want.shape[1]
    arrays["x"] = np.full((1, kept, *x.shape[2:]), 77, x.dtype)
    arrays["o"] = np.full((1, 2, *want.shape[2:]), 99, want.dtype)
    ahead = kept // 2
    for new in range(height + ahead):
        if new < height:
            arrays["x"][0, new % kept] = x[0, new]
        if new >= ahead:
            row = new - ahead
            run_loops(done, arrays, rows=(row, row + 1))
            np.testing.assert_array_equal(arrays["o"][0, row % 2], want[0, row])


def test_depthwise_of_one_column_runs_on_packed_words() -> None:
    done = schedule_nest(Nest(naive(CASES[9], DSP)[0]), DSP)
    assert any(isinstance(n, Op) and n.name == "mac_lane" for n in walk(done.body))


@pytest.mark.parametrize("core", [core for core in SCALAR if not core.dot and core.name != "gpu"], ids=lambda c: c.name)
def test_depthwise_stages_a_word_of_channels(core: Machine) -> None:
    done = schedule_nest(Nest(naive(CASES[4], core)[0]), core)
    assert scratch_layout(done).bytes == 3 * (5 + 2) * 4


def test_depthwise_stages_rows_of_one_channel_in_16_bits() -> None:
    """All nine rows at once, and those around: they are few. Rows begin at words."""
    done = schedule_nest(Nest(naive(CASES[4], DSP)[0]), DSP)
    assert scratch_layout(done).bytes == (9 + 2) * (5 + 2 + 1) * 2
    assert any(isinstance(n, Op) and n.name == "mac_pair" for n in walk(done.body))


def test_first_layers_stage_rows_of_all_taps_in_16_bits() -> None:
    """Rows of three channels are one run of elements, and are staged once for all channels of the result."""
    case = next(c for c in CASES if c[0] == "conv2d" and c[1][1].shape[-1] == 3)
    done = schedule_nest(Nest(naive(case, DSP)[0]), DSP)
    assert any(isinstance(n, Op) and n.name == "mac_pair" for n in walk(done.body))
    assert "flatten(" in done.trace


def test_depthwise_layers_of_halved_images_are_alike() -> None:
    """Tile, rows at once and the region are the same from 48 by 48 pixels to 6 by 6: one kernel can serve all."""
    sizes = ((48, 8), (24, 32), (12, 64), (6, 19))
    done = [schedule_nest(Nest(naive(depthwise(n, n, c, 3, 3, 1), DSP)[0]), DSP) for n, c in sizes]
    assert len({f.trace for f in done}) == 1
    assert {scratch_layout(f).bytes for f in done} == {14 * 52 * 2}


def test_small_work_keeps_the_plain_nest() -> None:
    loops = naive(dense(1, 8, 7), MVE)[0]
    assert schedule_nest(Nest(loops), MVE) is loops


def test_a_trace_of_other_loops_does_not_apply() -> None:
    done = schedule_nest(Nest(naive(CASES[0], MVE)[0]), MVE)
    other = replace(naive(dense(7, 64, 40), MVE)[0], name="g")
    with pytest.raises((ScheduleError, KeyError)):
        replay(other, done.trace)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 6, 8, 9, 17])
@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d"])
def test_largest_bytes_of_windows_are_taken_by_words(name: str, channels: int, stride: int) -> None:
    for kernel, columns in (((2, 2), 12), ((3, 3), 13), ((1, 3), 17), ((3, 1), 15), ((5, 4), 13)):
        window = {"kernel": kernel, "stride": (2, stride), "pad": (0, 0, 0, 0)}
        given, op = tensor(I8, 1, 24, columns, channels), OPS[name]
        assert op.loops is not None
        loops = op.loops("f", (given,), infer(name, (given,), tuple(window.items())), window)
        x = np.random.default_rng(1).integers(-128, 128, given.static_shape).astype(np.int8)
        want = op.reference(x, **window)
        done = schedule_nest(Nest(loops), BY_NAME["dsp"])
        arrays = {"x": x, "o": np.full(want.shape, 99, want.dtype)}
        run_loops(done, arrays)
        np.testing.assert_array_equal(arrays["o"], want)
        words = [n for n in walk(done.body) if isinstance(n, Op) and n.name == "max" and n.dtype.lanes == 4]
        assert done.trace
        assert bool(words) == (name == "max_pool2d"), kernel
