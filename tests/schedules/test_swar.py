"""Two channels in one multiplication, on cores with few registers: exact at the ends of int8, and where it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.loops import Loops, Op
from sdk.compiler.ir.packing import pack_array
from sdk.compiler.ir.types import I8, I32, U8, DType, TensorType
from sdk.compiler.ir.walk import walk
from sdk.compiler.machines.lookup import machine_for
from sdk.compiler.machines.nest import Nest
from sdk.compiler.ops import OPS, infer
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.schedules.rules import schedule_nest
from sdk.compiler.schedules.trace import Schedule, replay
from sdk.compiler.verify.loops import verify_loops

FEW = machine_for({"thumb"})
WINDOW = {"stride": (1, 1), "dilation": (1, 1), "pad": (1, 1, 1, 1), "pad_value": 5}
CASES = {
    "conv": ("conv2d", ((1, 6, 5, 4), (10, 3, 3, 4), (10,)), WINDOW),
    "pointwise": ("conv2d", ((1, 6, 5, 32), (12, 1, 1, 32), (12,)), {**WINDOW, "pad": (0, 0, 0, 0)}),
    "dense": ("dense", ((3, 130), (14, 130), (14,)), {"w_offset": 0}),
    "few channels": ("dense", ((1, 1400), (4, 1400), (4,)), {"w_offset": 0}),
}


def nest(op: str, shapes: Any, attrs: dict[str, Any], dtype: DType = I8) -> Loops:
    types = [TensorType(t, shape) for t, shape in zip((dtype, I8, I32), shapes, strict=True)]
    plain = {**attrs, "x_offset": 0}
    build = OPS[op].loops
    assert build is not None
    return build("f", types, infer(op, types, tuple(plain.items())), plain)


def operands(shapes: Any, ends: bool) -> list[np.ndarray]:
    rng = np.random.default_rng(2)
    x, w = rng.integers(-128, 128, shapes[0]), rng.integers(-127, 128, shapes[1])
    if ends:
        x, w = np.full(shapes[0], -128), rng.choice([-127, 127], shapes[1])
        w[:2] = -127
    return [x.astype(np.int8), w.astype(np.int8), rng.integers(-9999, 9999, shapes[2]).astype(np.int32)]


def computed(loops: Loops, names: tuple[str, ...], values: list[np.ndarray], like: np.ndarray) -> np.ndarray:
    arrays = dict(zip(names, values, strict=True))
    for name, layout in loops.layouts.items():
        arrays[name] = pack_array(arrays[name], layout)
    arrays["o"] = np.full(like.shape, 99, like.dtype)
    run_loops(loops, arrays)
    return arrays["o"]


def halved(loops: Loops) -> bool:
    return any(isinstance(n, Op) and n.name == "add_halves" for n in walk(loops.body))


@pytest.mark.parametrize("ends", [False, True], ids=["random", "ends"])
@pytest.mark.parametrize("name", CASES)
def test_halves_compute_the_same(name: str, ends: bool) -> None:
    op, shapes, attrs = CASES[name]
    plain = nest(op, shapes, attrs)
    done = schedule_nest(Nest(plain, even=frozenset({"w"})), FEW)
    assert halved(done)
    assert replay(plain, done.trace) == done
    problems: list[str] = []
    verify_loops(done, lambda where, message: problems.append(f"{where}: {message}"))
    assert problems == []
    values = operands(shapes, ends)
    want = OPS[op].reference(*values, **{**attrs, "x_offset": 0})
    np.testing.assert_array_equal(computed(done, OPS[op].inputs, values, want), want)


def test_a_window_of_many_elements_is_not_kept_as_words() -> None:
    cases = {name: Nest(nest(*CASES[name]), even=frozenset({"w"})) for name in ("pointwise", "few channels")}
    kept = {name: schedule_nest(one, FEW).trace for name, one in cases.items()}
    assert "widen" in kept["pointwise"]
    assert "widen" not in kept["few channels"]
    assert "cache_read" not in kept["few channels"]


def test_weights_of_minus_128_get_a_tile_of_sums_and_odd_shapes_a_product_by_zero() -> None:
    op, shapes, attrs = CASES["pointwise"]
    assert not halved(schedule_nest(Nest(nest(op, shapes, attrs)), FEW))
    even = Nest(nest(op, shapes, attrs), even=frozenset({"w"}))
    assert not halved(schedule_nest(even, machine_for({"thumb", "thumb2"})))
    odd = ((1, 6, 5, 33), (12, 1, 1, 33), (12,))
    assert halved(schedule_nest(Nest(nest(op, odd, attrs), even=frozenset({"w"})), FEW))


def test_refusals() -> None:
    op, shapes, attrs = CASES["dense"]
    with pytest.raises(ScheduleError, match="not packed in tiles of 1"):
        Schedule(nest(op, shapes, attrs)).use_swar("i1", "w")
    with pytest.raises(ScheduleError, match="not packed in tiles of 1"):
        Schedule(nest(op, shapes, attrs)).pack("w", 2, 1).use_swar("i1", "w")
    odd = ((3, 130), (13, 130), (13,))
    with pytest.raises(ScheduleError, match="even numbers"):
        Schedule(nest(op, odd, attrs)).pack("w", 1, 1).use_swar("i1", "w")
    with pytest.raises(ScheduleError, match="not of int8"):
        Schedule(nest(op, shapes, attrs, U8)).pack("w", 1, 1).use_swar("i1", "w")
    with pytest.raises(ScheduleError, match="no temporary"):
        Schedule(nest(op, shapes, attrs)).widen("x")
