"""What a basic block computes before it runs: nothing that is another value later."""

from __future__ import annotations

from sdk.codegen_c.functions.thumb import Memory, Names, select
from sdk.compiler.ir.intrinsics import op
from sdk.compiler.ir.loops import Block, For, Load, Store
from sdk.compiler.ir.types import I32
from sdk.compiler.sym import Dim, Var

TURN = Var("k", 0, 7)
REGISTERS = ("total",)


def _register(buffer: str, index: tuple[Dim, ...]) -> str | None:
    return buffer if buffer in REGISTERS else None


def _place(buffer: str, index: tuple[Dim, ...]) -> Memory | None:
    return None if buffer in REGISTERS else Memory(buffer, index[0] * 4, buffer == "y", False, True)


NAMES = Names(_register, _place, str, lambda value: False, frozenset({"thumb", "thumb2", "dsp", "words"}))
TOTAL = Load("total", (0,), I32)


def _loop(*body: Store) -> For:
    return For(TURN, 0, 8, Block(body))


def test_a_sum_that_differs_in_every_turn_is_not_read_before_the_loop() -> None:
    moving = Store("total", (0,), op("sub", TOTAL, Load("x", (TURN.expr,), I32)))
    still = Store("total", (0,), op("sub", TOTAL, Load("x", (3,), I32)))
    assert select((moving,), NAMES, _loop(moving)) is None
    assert select((still,), NAMES, _loop(still)) is not None


def test_outside_of_loops_a_place_is_one_value() -> None:
    assert select((Store("total", (0,), op("sub", TOTAL, Load("x", (TURN.expr,), I32))),), NAMES) is not None


def test_two_stores_to_one_place_stay_in_their_order() -> None:
    first, second = Store("y", (0,), Load("x", (0,), I32)), Store("y", (0,), Load("x", (1,), I32))
    apart = Store("y", (1,), Load("x", (1,), I32))
    assert select((first, second), NAMES) is None
    assert select((first, apart), NAMES) is not None


def test_nothing_is_computed_before_from_a_variable_that_changes() -> None:
    changes = Store("total", (0,), op("sub", TOTAL, Load("x", (0,), I32)))
    kept = Store("y", (0,), op("srdhm30", TOTAL, Load("x", (1,), I32)))  # no instruction: a live-in, if anything
    assert select((changes, kept), NAMES) is None
