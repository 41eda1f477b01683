"""Sums of 64 bits become sums of 32 where weights and biases prove that they fit: results stay, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sdk.compiler import ops
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import I16
from sdk.compiler.ops.registry import get_op
from sdk.compiler.passes.cleanup import Cleanup
from sdk.compiler.passes.narrow import Narrow
from sdk.compiler.verify.module import check
from sdk.graph import ModuleBuilder

RNG = np.random.default_rng(3)
WINDOW: dict[str, Any] = {"stride": (1, 1), "dilation": (1, 1), "pad": (1, 1, 1, 1), "pad_value": 0, "x_offset": 0}


def layer(op: str, inner: int, bias: int, shifts: tuple[int, int], weight: int = 127) -> Module:
    """One layer of 8 channels with weights and biases up to these, the first of them the largest of both signs."""
    builder = ModuleBuilder("net")
    entry = builder.entry("main")
    shape = {"conv2d": (8, 3, 3, inner), "dense": (8, inner), "depthwise_conv2d": (3, 3, 8)}[op]
    w = RNG.integers(-weight, weight + 1, shape).astype(np.int8)
    b = RNG.integers(-bias, bias + 1, 8)
    b[:2] = bias, -bias
    lo, hi = shifts
    shift = RNG.integers(lo, hi + 1, 8).astype(np.int32)
    shift[:2] = lo, hi
    mult = RNG.integers(1 << 30, (1 << 31) - 1, 8).astype(np.int32)
    mult[2:4] = (1 << 31) - 1, 1 << 30
    images = {"conv2d": (1, 4, 4, inner), "dense": (3, inner), "depthwise_conv2d": (1, 4, 4, 8)}
    x = entry.input("x", I16, images[op])
    given = {"conv2d": {"groups": 1, **WINDOW}, "dense": {"x_offset": 0, "w_offset": 0}}
    given["depthwise_conv2d"] = {"multiplier": 1, **WINDOW}
    args = (x, builder.const("w", w), builder.const("b", b.astype(np.int64)))
    acc = getattr(entry, op)(*args, **given[op])
    limits = {"out": "i16", "zp": 0, "lo": -32768, "hi": 32767, "shift_lo": lo, "shift_hi": hi, "acc_bits": 47}
    entry.output("y", entry.requantize(acc, builder.const("m", mult), builder.const("s", shift), **limits))
    return builder.module()


def callees(module: Module) -> list[str]:
    return [n.callee for n in module.graphs["main"].body]


def narrowed(module: Module) -> Module:
    """After the pass, with the same answers to inputs at the limits and between."""
    done = Cleanup().run(Narrow().run(module))
    check(done, ops)
    (x,) = module.graphs["main"].params
    noise = RNG.integers(-32768, 32768, (4, *x.type.static_shape))
    for values in (*noise, np.full(x.type.static_shape, -32768), np.full(x.type.static_shape, 32767)):
        given = {"x": values.astype(np.int16)}
        np.testing.assert_array_equal(run_graph(done, "main", given)["y"], run_graph(module, "main", given)["y"])
    return done


@pytest.mark.parametrize("op", ["conv2d", "dense", "depthwise_conv2d"])
@pytest.mark.parametrize("shifts", [(-25, -9), (-9, -2), (-4, -1), (-2, 3)])
def test_sums_that_fit_are_narrow(op: str, shifts: tuple[int, int]) -> None:
    done = narrowed(layer(op, 6, 99999, shifts, 63))
    assert callees(done) == [op, "rescale_sum"]
    spare = dict(done.graphs["main"].body[1].attrs)["spare"]
    assert spare == max(shifts[1] + 2, 0)


@pytest.mark.parametrize(
    ("inner", "bias", "shifts"),
    [(1100, 999, (-15, -12)), (6, 1 << 31, (-20, -15)), (6, 999, (-1, 7)), (6, 999, (-31, 1))],
    ids=["many weights", "large bias", "large scale", "small scale"],
)
def test_sums_that_may_not_fit_stay_wide(inner: int, bias: int, shifts: tuple[int, int]) -> None:
    assert callees(narrowed(layer("dense", inner, bias, shifts))) == ["dense", "requantize"]


def test_the_largest_sums_that_fit() -> None:
    """128 * 127 * 32768 and a bias that leaves just no room."""
    spent = 128 * 127 * 32768
    for bias, op in (((1 << 31) - 1 - spent, "rescale_sum"), ((1 << 31) - spent, "requantize")):
        module = layer("dense", 128, 0, (-20, -12))
        consts = dict(module.consts)
        w, b = (next(c for c in consts.values() if c.name == name) for name in ("w", "b"))
        full = Module(
            module.name, module.stage, consts={
                **consts,
                w.name: type(w)(w.name, w.type, np.full(w.type.static_shape, -127, np.int8)),
                b.name: type(b)(b.name, b.type, np.full(8, bias)),
            }, graphs=module.graphs,
        )  # fmt: skip
        assert callees(narrowed(full))[-1] == op


def test_rescale_sum_rounds_halves_up() -> None:
    acc = np.array([[-3, -2, -1, 0, 1, 2, 3]], np.int32) << 16
    given = {"out": "i16", "spare": 0, "zp": 0, "lo": -32768, "hi": 32767}
    found = get_op("rescale_sum").reference(acc, np.array([1 << 16], np.int32), np.array([1], np.int32), **given)
    assert found.tolist() == [[-1, -1, 0, 0, 1, 1, 2]]
