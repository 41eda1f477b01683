"""Depthwise windows of floats on cores with a unit for one float at a time: the same sums, a tile of pixels at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.loops import Alloc, Loops
from sdk.compiler.ir.packing import pack_array
from sdk.compiler.ir.types import F32, TensorType
from sdk.compiler.ir.walk import walk
from sdk.compiler.machines.lookup import machine_for
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.ops import OPS, infer
from sdk.compiler.schedules.rules import schedule_nest
from sdk.compiler.schedules.trace import replay
from sdk.compiler.verify.loops import verify_loops

CORES = {"double": machine_for({"thumb2", "dsp", "fpu-dp"}), "single": machine_for({"thumb2", "dsp", "fpu-sp"})}
# rows, columns, channels, multiplier, taps, stride, padding, dilation
CASES = {
    "same": (9, 12, 6, 1, 3, 1, 1, 1),
    "valid": (9, 10, 12, 1, 3, 1, 0, 1),
    "strided": (13, 11, 12, 1, 3, 2, 1, 1),
    "5x5": (8, 7, 5, 1, 5, 1, 2, 1),
    "dilated": (10, 9, 6, 1, 3, 1, 2, 2),
    "multiplier": (9, 8, 4, 2, 3, 1, 1, 1),
}


def nest(case: str) -> tuple[Loops, dict[str, np.ndarray], np.ndarray]:
    rows, columns, channels, multiplier, taps, stride, padding, dilation = CASES[case]
    outs = channels * multiplier
    types = (
        TensorType(F32, (1, rows, columns, channels)),
        TensorType(F32, (taps, taps, outs)),
        TensorType(F32, (outs,)),
    )
    given: dict[str, Any] = {"stride": (stride, stride), "dilation": (dilation, dilation), "pad": (padding,) * 4}
    given["multiplier"] = multiplier
    rng = np.random.default_rng(2)
    values = [rng.standard_normal(t.static_shape).astype(np.float32) for t in types]
    op = OPS["depthwise_conv2d"]
    assert op.loops is not None
    loops = op.loops("f", types, infer("depthwise_conv2d", types, tuple(given.items())), given)
    return loops, dict(zip(op.inputs, values, strict=True)), op.reference(*values, **given)


@pytest.mark.parametrize("core", CORES.values(), ids=CORES)
@pytest.mark.parametrize("case", CASES)
def test_scheduled_windows_compute_the_same(case: str, core: Machine) -> None:
    loops, arrays, want = nest(case)
    done = schedule_nest(Nest(loops), core)
    assert "line_buffer" in done.trace
    assert replay(loops, done.trace) == done
    problems: list[str] = []
    verify_loops(done, lambda where, message: problems.append(f"{where}: {message}"))
    assert problems == []
    for name, layout in done.layouts.items():
        arrays[name] = pack_array(arrays[name], layout)
    arrays["o"] = np.full(want.shape, 99, want.dtype)
    for lo, hi in ((2, want.shape[1]), (0, 2)):
        run_loops(done, arrays, rows=(lo, hi))
    np.testing.assert_allclose(arrays["o"], want, rtol=1e-5, atol=1e-5)


def test_weights_known_at_run_time_are_not_laid_out_anew() -> None:
    done = schedule_nest(Nest(nest("same")[0], frozenset()), CORES["double"])
    assert done.layouts == {}
    assert done.trace


def test_rows_of_one_channel_are_staged() -> None:
    done = schedule_nest(Nest(nest("same")[0]), CORES["double"])
    (region,) = (n.buffer for n in walk(done.body) if isinstance(n, Alloc) and n.buffer.space == "scratch")
    assert region.shape == (11, 14)
