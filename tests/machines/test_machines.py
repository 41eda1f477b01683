"""Machines are rows: each is found by what it needs, each of its rules is for some nest, and a row is all of a core."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from schedules import test_float_windows, test_integer16, test_rules

from sdk.boards import load_board
from sdk.cli import run_command
from sdk.compiler.analysis.row_calls import drop_single_trips, loops_of_product
from sdk.compiler.ir.types import F32, I8, I16, I32, U8, TensorType
from sdk.compiler.machines import lookup
from sdk.compiler.machines.lookup import MACHINES, in_order, machine_for
from sdk.compiler.machines.machine import Machine
from sdk.compiler.machines.nest import Nest
from sdk.compiler.ops import OPS, infer
from sdk.compiler.schedules.rules import rule_for
from sdk.compiler.schedules.rules.integer_scalar import RegisterTiles
from sdk.compiler.sym import Var

RULES = (RegisterTiles(1, steps=2, alone=8, part=32),)
ROOT = Path(__file__).resolve().parents[2]

# windows of one column of taps among them: no two products along a row to sum at once; sums of eight products
COLUMN = test_rules.depthwise(20, 8, 40, 5, 1, 0)
TALL, THIN = (
    (TensorType(I8, (1, 60, width, 1)), TensorType(I8, (8, 3, 1, 1)), TensorType(I32, (8,))) for width in (9, 1)
)
BYTES = [
    *test_rules.CASES, COLUMN, *(("conv2d", types, test_rules.conv(8, 7, 8, 19, 1, 1, 0)[2]) for types in (TALL, THIN)),
    test_rules.conv(8, 7, 8, 19, 1, 1, 0), test_rules.conv(9, 12, 3, 19, 1, 1, 0)
]  # fmt: skip
STEEP = test_rules.depthwise(24, 5, 8, 11, 1, 0)  # more taps than are read one by one
FEW = test_rules.depthwise(12, 12, 3, 3, 3, 1)
SEVERAL = (FEW[0], (FEW[1][0], TensorType(I8, (3, 3, 6)), TensorType(I32, (6,))), {**FEW[2], "multiplier": 2})
BYTES += [
    (STEEP[0], STEEP[1], {**STEEP[2], "stride": (2, 2)}), FEW, SEVERAL,
    test_rules.conv(12, 12, 1, 1, 3, 1, 0), test_rules.conv(12, 12, 1, 8, 3, 1, 0),
    test_rules.conv(9, 12, 1, 8, 1, 1, 0), test_rules.conv(9, 12, 8, 1, 3, 1, 0),
]  # fmt: skip
DOWN = test_rules.conv(9, 12, 4, 8, 1, 1, 0)
BYTES.append((DOWN[0], (DOWN[1][0], TensorType(I8, (8, 3, 1, 4)), DOWN[1][2]), DOWN[2]))  # a kernel of one column
POINTS = [test_rules.conv(3, 9, depth, 1, 1, 1, 0) for depth in (4, 8)]  # into one channel
WIDE = (TensorType(I16, (1, 20, 8, 40)), *COLUMN[1][1:])
HALVES = [*test_integer16.CASES.values(), (COLUMN[0], WIDE, {**COLUMN[2], "pad_value": 0, "x_offset": 0})]


def f32(*shape: int) -> TensorType:
    return TensorType(F32, shape)


# what is no product of integers: elements, rows, columns, windows, moves
BLOCKS = tuple(TensorType(t, s) for t, s in ((I8, (1, 64)), (F32, (1, 2)), (I32, (1, 2)), (U8, (20, 36))))
EIGHT_BITS = (*BLOCKS[:3], TensorType(U8, (20, 68)))
ATTEND = {"start": Var("pos", 0, 31).expr, "window": 0, "ring": False, "scale": 0.25, "cap": 0.0}
OTHERS = ("add", "softmax", "transpose", "reduce_sum", "max_pool2d")


def built(op: str, types: tuple[TensorType, ...], attrs: dict[str, Any]) -> Nest:
    loops = OPS[op].loops
    assert loops is not None
    return Nest(drop_single_trips(loops("f", types, infer(op, types, tuple(sorted(attrs.items()))), attrs)))


def nests(machine: Machine) -> Iterator[Nest]:
    """Nests of all kinds and factors, with constants that can be joined, and with others."""
    for case in BYTES:
        loops, arrays, _ = test_rules.naive(case, machine)
        plain, known = drop_single_trips(loops), {"w": [arrays["w"] // 4], "b": [arrays["b"] % 99]}
        yield Nest(plain, even=frozenset({"w"}), known=known)
        yield Nest(plain)
    for case in POINTS:
        loops = test_rules.naive(case, machine)[0]
        yield Nest(drop_single_trips(loops, loops_of_product(loops, channels=True)))
    for case in HALVES:
        yield Nest(drop_single_trips(test_integer16.nest(case)[0]))
    yield Nest(test_float_windows.nest("same")[0])
    yield built("matmul", (f32(16, 24), f32(24, 40)), {})
    yield built("dense_groups", BLOCKS, {"format": "Q4_0"})
    yield replace(built("dense_groups", EIGHT_BITS, {"format": "Q8_0"}), quantised=True)
    yield built("lookup_groups", (BLOCKS[3], TensorType(I32, (2,))), {"format": "Q4_0"})
    yield built("attend", (f32(1, 2, 16), f32(1, 1, 16, 32), f32(1, 32, 16)), ATTEND)
    yield built("transpose", (f32(32, 40),), {"perm": (1, 0)})
    yield from (built(op, case.inputs, dict(case.attrs)) for op in OTHERS for case in OPS[op].samples)


@pytest.mark.parametrize("row", MACHINES, ids=lambda row: row.name)
def test_a_row_is_found_by_what_it_needs(row: Machine) -> None:
    assert machine_for(row.needs).name == row.name
    assert machine_for(row.needs | {"unaligned", "div"}).name == row.name


def test_rows_have_names_of_their_own_and_the_last_needs_nothing() -> None:
    assert len({row.name for row in MACHINES}) == len(MACHINES)
    assert not MACHINES[-1].needs
    assert all(row.float_units[-1].needs <= row.needs for row in MACHINES), "no unit for floats"


@pytest.mark.parametrize("row", MACHINES, ids=lambda row: row.name)
def test_every_rule_of_a_machine_takes_some_nest(row: Machine) -> None:
    machines = [machine_for(row.needs | unit.needs) for unit in row.float_units]
    left = {id(rule): rule for rule in row.rules}
    for nest, machine in product(nests(row), [machine for machine in machines if machine.name == row.name]):
        left.pop(id(rule_for(nest, machine)[0]), None)
        if not left:
            return
    assert list(left.values()) == []


@pytest.mark.parametrize("board", ["host", pytest.param("qemu-cortex-m4", marks=pytest.mark.emulator)])
def test_a_core_is_one_row(
    board: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], need_tool: Any
) -> None:
    """A core that has what no other row asks for, with tiles of its own, is built for, run and right."""
    if board != "host":
        need_tool("qemu-system-arm")
    model, have = ROOT / "examples" / "digits" / "digits_int8.tflite", load_board(board).capabilities
    monkeypatch.setenv("CROSSLEVEL_CACHE", str(tmp_path))

    def text() -> str:
        assert run_command(["inspect", str(model), "--board", board, "--stage", "schedule"]) == 0
        return capsys.readouterr().out

    usual = text()
    toy = replace(machine_for(have), name="toy", needs=have, tile_rows=1, tile_cols=1, rules=RULES)
    monkeypatch.setattr(lookup, "MACHINES", in_order((*MACHINES, toy)))
    assert machine_for(have).name == "toy"
    assert text() != usual
    assert run_command(["verify", str(model), "--board", board, "--cases", "3"]) == 0
