"""What a schedule made of a function reads back from its text, after each step: every primitive is tried."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sdk.compiler import schedules
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.types import F32, I8, I16, I32, I64, U8, DType, TensorType
from sdk.compiler.machines.lookup import MACHINES, machine_for
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.ops import get_op, infer
from sdk.compiler.schedules.rules import schedule_nest
from sdk.compiler.schedules.trace import PRIMITIVES, Arg, Schedule
from sdk.compiler.sym import Dim, Var
from tests.ir.round_trip import check_function
from tests.schedules.test_shift_sums import layer, lowered

ROWS = Var("n", 1, 64).expr
INT = {core.name: core for core in MACHINES}
FLOAT = {
    "avx2": machine_for({"sse2", "avx2", "fma"}),
    "neon": machine_for({"neon"}),
    "fpu": machine_for({"thumb2", "dsp", "fpu-sp"}),
}
Shape = tuple[Dim, ...]
THREE = {"stride": (1, 1), "dilation": (1, 1), "pad": (1, 1, 1, 1), "pad_value": 0, "x_offset": 0}
POINT = {**THREE, "pad": (0, 0, 0, 0)}


def nest(op: str, kinds: tuple[DType, ...], shapes: tuple[Shape, ...], **given: Any) -> Loops:
    """The loops of an op."""
    types = [TensorType(kind, shape) for kind, shape in zip(kinds, shapes, strict=True)]
    build = get_op(op).loops
    assert build is not None
    return build(op, types, infer(op, types, tuple(sorted(given.items()))), given)


BYTES, SHORTS, LONG = (I8, I8, I32), (I16, I8, I32), (I16, I8, I64)
CONV = nest("conv2d", BYTES, ((1, 6, 6, 32), (16, 1, 1, 32), (16,)), **POINT)
IMAGE = nest("conv2d", BYTES, ((1, 9, 9, 3), (8, 3, 3, 3), (8,)), **{**THREE, "stride": (2, 2)})
DENSE = nest("dense", BYTES, ((1, 130), (64, 130), (64,)), x_offset=0, w_offset=0)
DEPTHWISE = nest("depthwise_conv2d", BYTES, ((1, 12, 12, 8), (3, 3, 8), (8,)), **THREE, multiplier=1)
STRIDED = nest(
    "depthwise_conv2d", BYTES, ((1, 12, 12, 8), (3, 3, 8), (8,)), **{**THREE, "stride": (3, 3)}, multiplier=1
)
COLUMN = nest("depthwise_conv2d", BYTES, ((1, 40, 1, 20), (3, 3, 20), (20,)), **THREE, multiplier=1)
SHORT = nest("conv2d", SHORTS, ((1, 6, 6, 20), (14, 1, 1, 20), (14,)), **POINT)
SUMS = nest("dense", LONG, ((1, 1024), (6, 1024), (6,)), x_offset=0, w_offset=0)
WINDOW = nest("depthwise_conv2d", (F32,) * 3, ((1, 12, 12, 16), (3, 3, 16), (16,)), **THREE, multiplier=1)
MATMUL = nest("matmul", (F32, F32), ((ROWS, 64), (64, 40)))
TURN = nest("transpose", (F32,), ((16, 24),), perm=(1, 0))
TOTAL = nest("reduce_sum", (F32,), ((4, 100),), axes=(1,))
RELU = nest("relu", (F32,), ((ROWS, 40),))
BLOCKS: tuple[Shape, ...] = ((ROWS, 64), (ROWS, 2), (ROWS, 2), (20, 36))
GROUPS = nest("dense_groups", (I8, F32, I32, U8), BLOCKS, format="Q4_0")
ROWS_OF = nest("lookup_groups", (U8, I32), ((20, 36), (3,)), format="Q4_0")
ASKED: tuple[Shape, ...] = ((ROWS, 2, 16), (1, 8, 16, 64), (1, 512, 16))
ATTEND = nest("attend", (F32,) * 3, ASKED, start=2, window=0, ring=False, scale=0.5, cap=0.0)

BYTEWISE = (CONV, IMAGE, DENSE, DEPTHWISE, STRIDED, COLUMN)
RULES: tuple[tuple[Nest, Machine], ...] = (
    *((Nest(loops), core) for loops in BYTEWISE for core in (INT["dsp"], INT["thumb"], INT["mve"], INT["avx2"])),
    *((Nest(CONV), INT[name]) for name in ("dotprod", "i8mm")),
    *((Nest(loops, compact=compact), INT["dsp"]) for loops in (SHORT, SUMS) for compact in (False, True)),
    *((Nest(loops, threads=4), core) for loops in (MATMUL, WINDOW, TURN, TOTAL, RELU) for core in FLOAT.values()),
)
# what no rule of these does
STEPS: tuple[tuple[Loops, str, tuple[Arg, ...]], ...] = (
    (RELU, "bind", ("i0", "group.x")),
    (RELU, "cyclic", ("i0", 2)),
    (ATTEND, "attention_lanes", (4, 8, [2, 1])),
    (GROUPS, "group_panels", (8, "halves", 4, [2, 1])),
    (ROWS_OF, "group_rows", ()),
    (GROUPS, "group_words", ()),
)


def known(loops: Loops) -> dict[str, list[np.ndarray]]:
    """Small numbers for all parameters of numbers that are read after the first."""
    rng = np.random.default_rng(1)
    buffers = [p.buffer for p in loops.params if p.mode == "read"][1:]
    return {b.name: [rng.integers(-9, 9, b.type.static_shape).astype(b.dtype.numpy)] for b in buffers}


def primitives() -> Iterator[str]:
    """Every function of the package that rewrites functions of loops where an obligation that it states holds."""
    for found in pkgutil.walk_packages(schedules.__path__, f"{schedules.__name__}."):
        module = importlib.import_module(found.name)
        for name, item in inspect.getmembers(module, inspect.isfunction):
            of_blocks = item.__annotations__.get("return") == "Block"  # a step of a primitive
            if not name.startswith("_") and "obligation:" in (item.__doc__ or "") and not of_blocks:
                yield name


def test_the_table_holds_every_primitive() -> None:
    assert set(primitives()) == PRIMITIVES.keys()


def test_every_primitive(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[str] = set()
    plain = Schedule.do

    def do(self: Schedule, primitive: str, *args: Arg) -> Any:
        made = plain(self, primitive, *args)
        check_function(self.loops, f"{primitive}{args} of {'; '.join(self.steps)}")
        seen.add(primitive)
        return made

    monkeypatch.setattr(Schedule, "do", do)
    for one, core in RULES:
        constants = known(one.loops)
        check_function(schedule_nest(replace(one, even=frozenset(constants), known=constants), core))
    lowered(layer("pointwise", [-7] * 6, 5))  # what follows a sum is in the nest there, and constants are known
    for loops, primitive, args in STEPS:
        Schedule(loops).do(primitive, *args)
    assert set(PRIMITIVES) - seen == set()
