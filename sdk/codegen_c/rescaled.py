"""How a sum becomes a byte, recognised: scaled, shifted with rounding, moved to its zero point, clamped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sdk.compiler.ir.loops import Imm, Op, ValueExpr
from sdk.compiler.ir.types import I32

__all__ = ["Rescaled", "clamped", "rescaled"]


@dataclass(frozen=True, slots=True)
class Rescaled:
    """``high``, at most 2**30, shifted right by ``right`` >= 1, and ``twice`` = 2 * zero point + 1. ``up``: how halves
    of negative values are rounded is all the same; ``bounded``: right <= 22 and |twice| < 512."""

    high: ValueExpr
    right: ValueExpr
    twice: int
    up: bool
    bounded: bool


def clamped(expr: ValueExpr) -> tuple[ValueExpr, int, int] | None:
    """(x, lo, hi) of ``min(max(x, lo), hi)`` on an i32 with literal bounds."""
    match expr:
        case Op("min", (Op("max", (x, Imm(lo))), Imm(hi))) if expr.dtype == I32 and lo <= hi:
            return x, int(lo), int(hi)
    return None


def rescaled(x: ValueExpr, lo: int, is_small: Callable[[ValueExpr], bool]) -> Rescaled | None:
    """What is to be clamped at ``lo``, where a scaled sum is rounded with its zero point in one addition while it is
    doubled; ``is_small`` tells values of at most 2**30."""
    match x:
        case Op("add", (Op("rdbpot1" | "rdbpot22" as name, (high, right)), Imm(int(zp)))) if is_small(high):
            pass
        case Op("rdbpot1" | "rdbpot22" as name, (high, right)) if is_small(high):
            zp = 0
        case _:
            return None
    twice = 2 * zp + 1
    return Rescaled(high, right, twice, lo >= zp, name == "rdbpot22" and abs(twice) < 512)
