"""Depthwise windows whose elements are read where they are multiplied: any size, and where rules choose them."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from whole_and_rows import computes

from sdk.boards import load_board
from sdk.codegen_c import get_backend
from sdk.codegen_c.base import EmitOptions
from sdk.compiler.analysis.row_calls import by_rows
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.loops import Load, Loops, Op
from sdk.compiler.ir.types import I8, I16, I32, TensorType
from sdk.compiler.ir.walk import walk
from sdk.compiler.machines.lookup import MACHINES
from sdk.compiler.machines.nest import Choice, Nest
from sdk.compiler.ops import OPS, infer
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.schedules.rules import rule_for
from sdk.compiler.schedules.rules.integer_direct import DirectWindow
from sdk.compiler.schedules.trace import Schedule, replay
from sdk.driver import BuildOptions
from sdk.driver.pipeline import default_passes, lower_module

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
DSP = next(m for m in MACHINES if m.name == "dsp")
RULE = next(rule for rule in DSP.rules if isinstance(rule, DirectWindow))
ALWAYS = replace(RULE, minimum=1, pairs=replace(RULE.pairs, minimum=1 << 60))
ANY_PAD = (1, 0, 2, 3)
# height, width, channels, multiplier, kernel, stride, dilation, padding
CASES = [
    (7, 7, 8, 1, (3, 3), (3, 3), (1, 1), (1, 1, 1, 1)),
    (6, 5, 1, 1, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1)),
    (5, 6, 2, 1, (3, 3), (2, 1), (2, 2), ANY_PAD),
    (5, 9, 3, 2, (3, 3), (1, 2), (4, 4), (4, 4, 4, 4)),
    (9, 14, 9, 1, (3, 3), (1, 1), (1, 1), ANY_PAD),  # channels overlap: of words there are two and one element
    (12, 40, 12, 1, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),  # some channels of a row at a time
    (4, 7, 5, 3, (3, 1), (1, 1), (1, 1), (1, 0, 1, 0)),
    (5, 8, 4, 1, (5, 1), (2, 2), (1, 1), (2, 0, 2, 0)),  # columns that no window reads
    (5, 8, 1, 1, (3, 1), (1, 2), (1, 3), (1, 0, 1, 0)),  # the same, of one channel
    (3, 11, 6, 1, (1, 7), (1, 2), (1, 1), (0, 3, 0, 3)),
    (6, 5, 7, 1, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
    (6, 30, 4, 2, (1, 1), (2, 2), (1, 1), (0, 0, 0, 0)),
    (6, 7, 4, 1, (2, 3), (1, 1), (1, 2), (0, 0, 0, 0)),  # no padding: the image itself is read
    (8, 200, 4, 1, (3, 3), (1, 1), (1, 1), (0, 0, 0, 0)),
    (1, 5, 6, 1, (1, 3), (3, 1), (1, 1), (0, 1, 4, 0)),
]


def window(case: Any) -> tuple[Loops, dict[str, Any], Any]:
    """The nest, its parameters and its result."""
    height, width, channels, several, kernel, stride, dilation, pad = case
    attrs: dict[str, Any] = {"stride": stride, "dilation": dilation, "pad": pad, "multiplier": several}
    attrs |= {"pad_value": -7, "x_offset": 0}
    outputs, rng = channels * several, np.random.default_rng(width)
    types = (
        TensorType(I8, (1, height, width, channels)), TensorType(I8, (*kernel, outputs)), TensorType(I32, (outputs,)),
    )  # fmt: skip
    given = {
        "x": rng.integers(-128, 128, types[0].static_shape).astype(np.int8),
        "w": rng.integers(-128, 128, types[1].static_shape).astype(np.int8),
        "b": rng.integers(-999, 999, outputs).astype(np.int32),
    }
    op = OPS["depthwise_conv2d"]
    assert op.loops is not None
    loops = op.loops("f", types, infer("depthwise_conv2d", types, tuple(attrs.items())), attrs)
    return loops, given, op.reference(*given.values(), **attrs)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_elements_read_one_by_one_are_the_windows(case: Any) -> None:
    loops, given, want = window(case)
    nest = Nest(loops)
    assert ALWAYS.applies(nest, DSP)
    done = ALWAYS.schedule(nest, DSP)
    assert replay(loops, done.trace) == done
    arrays = computes(done, given, want)
    arrays["o"] = np.full(want.shape, 99, want.dtype)
    run_loops(by_rows(done), arrays)
    np.testing.assert_array_equal(arrays["o"], want)


def chosen(case: Any, **how: Any) -> str:
    rule, _ = rule_for(Nest(window(case)[0], **how), DSP)
    return rule.name if rule else ""


def test_windows_that_share_elements_are_pairs() -> None:
    """What decides is how often an element is used: by stride, dilation, and the taps along a row."""
    one, pad = (1, 1), (1, 1, 1, 1)
    assert chosen((12, 12, 8, 1, (3, 3), one, one, pad)) == "pair-window"
    assert chosen((12, 12, 8, 1, (3, 3), (3, 3), one, pad)) == "direct-window"
    assert chosen((12, 12, 8, 1, (3, 1), one, one, (1, 0, 1, 0))) == "direct-window"
    assert chosen((12, 12, 8, 1, (3, 3), one, (2, 2), (2, 2, 2, 2))) == "pair-window"
    assert chosen((7, 7, 8, 1, (3, 3), one, (2, 2), (2, 2, 2, 2))) == "direct-window"
    assert chosen((12, 12, 8, 1, (5, 5), (3, 3), one, (2, 2, 2, 2))) == "pair-window"  # weights of more registers


def test_layers_that_share_a_kernel_keep_it() -> None:
    halved = (6, 6, 8, 1, (3, 3), (2, 2), (1, 1), (0, 0, 1, 1))
    assert chosen(halved) == "direct-window"
    assert chosen(halved, similar=True) == "pair-window"
    assert not RULE.applies(Nest(window(halved)[0], choice=Choice(rows=5)), DSP)


def test_rows_longer_than_the_region_are_left_to_others() -> None:
    with pytest.raises(ScheduleError, match="rows longer than the region"):
        ALWAYS.schedule(Nest(window((3, 200, 8, 1, (3, 3), (3, 3), (1, 1), (1, 1, 1, 1)))[0]), DSP)


INSIDE = (5, 5, 8, 1, (3, 3), (1, 1), (1, 1), (0, 0, 0, 0))


def packed(case: Any) -> Schedule:
    return Schedule(window(case)[0]).pack("w", 1, 1, 2).use_i16("w")


def test_weights_are_read_two_at_a_time() -> None:
    s = packed(INSIDE).use_mac_pairs(["kh", "kw"], "w")
    reads = [n for n in walk(s.loops.body) if isinstance(n, Load) and n.buffer == "w"]
    assert {n.dtype for n in reads} == {I16.with_lanes(2)}
    assert [n.index[-1] for n in reads] == [0, 0, 2, 2, 4, 4, 6, 6, 8]
    assert s.loops.param("w").buffer.shape == (8, 10)  # a 0 behind the ninth
    assert sum(isinstance(n, Op) and n.name == "mac_pair" for n in walk(s.loops.body)) == 9


@pytest.mark.parametrize(
    ("s", "taps", "message"),
    [
        (Schedule(window(INSIDE)[0]), ["kh", "kw"], "not packed"),
        (Schedule(window(INSIDE)[0]).pack("w", 1, 1, 2), ["kh", "kw"], "its factors are i8 and i8"),
        (packed(INSIDE), ["kw"], "not read by rows"),
        (packed(INSIDE), ["kh"], "it is no|more than one each time|not acc"),
        (packed(INSIDE), ["kh", "oc"], "oc is not alone inside kh"),
        (packed(CASES[10]), ["kh", "kw"], "one product in all"),
    ],
)
def test_pairs_of_weights_refuse_other_products(s: Schedule, taps: list[str], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        s.do("use_mac_pairs", taps, "w")
    assert not any("use_mac_pairs" in step for step in s.steps)


def test_loops_read_their_constants_themselves_where_registers_are_few() -> None:
    """And only what they read is an operand then: two addresses, of which the last word read takes the register."""
    from layers import Layer, _net

    board = load_board("qemu-cortex-m4")
    planned = lower_module(_net([Layer("f", "depthwise", 7, stride=(3, 3))]), default_passes(board, BuildOptions()))
    options = EmitOptions(source="net", board=board.name)
    code = str(get_backend("c99").emit(planned, "net", isa=board.capabilities, options=options).files["net.c"])
    (loop,) = (part for part in code.split("__asm__ volatile(") if "smlabb" in part)
    before, inside = loop.split('"1:\\n"')
    assert re.findall(r'"(\w+) ', before) == ["ldrd", "ldrd", "ldr", "ldrd", "ldr"]
    assert inside.count("ldrsb") == inside.count("smla") == 27
    assert inside.count("strb") == 3
