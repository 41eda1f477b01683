"""Sums that are shifted left before they are scaled: the shift moves into weights that have the bits for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sdk.compiler.ir.intrinsics import imm, op
from sdk.compiler.ir.layout import Scale
from sdk.compiler.ir.loops import Imm, Load, Loops, Op, Store, ValueExpr
from sdk.compiler.ir.types import I16
from sdk.compiler.ir.walk import rewrite, statements, walk
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.schedules.pack import stored_as
from sdk.compiler.schedules.tensorize import factors_of
from sdk.compiler.sym import Var, free_vars

__all__ = ["Requantized", "requantized", "shift_sums"]


@dataclass(frozen=True, slots=True)
class Requantized:
    """What is made of the sum ``acc``: ``mac_high(acc << bits, mult, tail + ((acc << bits) >> 31 & away)) >> right``,
    where ``right`` is an element of a vector and ``tail`` is made of that and numbers alone."""

    acc: Load
    bits: int
    mult: ValueExpr
    tail: ValueExpr
    away: int
    right: Load


def requantized(value: object) -> Requantized | None:
    """How a value is a sum scaled by the high word of a product; None where it is something else."""
    match value:
        case Op("shr", (Op("mac_high", (Op("shl", (Load() as acc, Imm(bits))) as wide, mult, tail)), Load() as right)):
            pass
        case _:
            return None
    away: int | float = 0
    match tail:
        case Op("add", (rest, Op("and", (Op("shr", (same, Imm(31))), Imm(mask))))) if same == wide:
            tail, away = rest, mask
    if any(isinstance(n, Load) and n != right for n in walk(tail)) or any(n == acc for n in walk(mult)):
        return None
    return Requantized(acc, int(bits), mult, tail, int(away), right)


def shift_sums(loops: Loops, param: str, final: int) -> Loops:
    """Scales the weights of sums, and what these start from, by the power of 2 that the sums are shifted left by; with
    ``final`` by less for each channel, so that all are shifted right by that number in the end.

    rewrite: ``c = b[i]; for k { c = c + a[k]*w[i, k] } … mac_high(c << 8, m, t) >> s[i]`` -->
    ``c = b[i] << e; for k { c = c + a[k]*(w[i, k] << e) } … mac_high(c, m, t >> (s[i] - final)) >> final`` with
    ``e = 8 + final - s[i]``; where ``final`` is 0, ``e = 8`` and the rest stays.
    obligation: the parameter is packed with a row for each channel and kept in 16 bits; its sums start from elements of
    a vector, and are used by such requantisations alone.
    At build time: the shifted weights fit 16 bits, and the shifted sums, in any order, 32; ``t`` is a multiple of
    ``2**(s[i] - final)``, which is 1 at least.
    """
    step = f"shift_sums({param}, {final})"
    if loops.param(param).buffer.dtype != I16 or not loops.param(param).layout.steps:
        raise ScheduleError(f"{step}: the parameter is not kept in 16 bits")
    acc = _sums(loops, param, step)
    uses = {use for n in walk(loops.body) if (use := requantized(n)) is not None and use.acc.buffer == acc}
    shifts = {(use.bits, use.right) for use in uses}
    if len(shifts) != 1 or _reads(rewrite(loops.body, lambda n: _without(n, acc)), acc):
        raise ScheduleError(f"{step}: {acc} is not requantised alone, or in several ways")
    ((bits, right),) = shifts
    shift = op("sub", imm(bits + final), right) if final else imm(bits)

    def one(node: Any) -> Any:
        match node:
            case Store() if node.buffer == acc and not _adds(node):
                if not isinstance(node.value, Load) or not _vars(right) <= _vars(node.value):
                    raise ScheduleError(f"{step}: {acc} does not start from elements of a vector")
                return replace(node, value=op("shl", node.value, shift))
            case Op() if (use := requantized(node)) is not None and use.acc.buffer == acc:
                return _scaled(use, final)
            case _:
                return node

    scale = Scale(bits + final, right.buffer if final else "")
    return stored_as(replace(loops, body=rewrite(loops.body, one)), param, scale)


def _sums(loops: Loops, param: str, step: str) -> str:
    """The register that products with rows of a parameter are added to."""
    found = {s.buffer for s in statements(loops.body) if isinstance(s, Store) and _adds(s) and _reads(s.value, param)}
    others = [s for s in statements(loops.body) if isinstance(s, Store) and s.buffer not in found]
    if len(found) != 1 or any(_reads(s, param) for s in others):
        raise ScheduleError(f"{step}: the parameter is not multiplied and added to one sum alone")
    (acc,) = found
    adding = [s for s in statements(loops.body) if isinstance(s, Store) and s.buffer == acc and _adds(s)]
    if not all(_reads(s.value, param) for s in adding):
        raise ScheduleError(f"{step}: other products are added to {acc}")
    return acc


def _adds(store: Store) -> bool:
    """Whether it adds a product to what it stores to."""
    try:
        factors_of(store)
    except ScheduleError:
        return False
    return True


def _without(node: Any, acc: str) -> Any:
    """A use of sums, or an addition to one, without the sum."""
    match node:
        case Store() if node.buffer == acc and _adds(node):
            return replace(node, value=imm(0))
        case Op() if (use := requantized(node)) is not None and use.acc.buffer == acc:
            return imm(0)
        case _:
            return node


def _scaled(use: Requantized, final: int) -> ValueExpr:
    """A use where the sum is shifted already."""
    less = op("sub", use.right, imm(final))
    tail, away = (op("shr", use.tail, less), op("shr", imm(use.away), less)) if final else (use.tail, imm(use.away))
    if use.away or not final:  # a mask of 0 stays, so that layers of both kinds differ in a number only
        tail = op("add", tail, op("and", op("shr", use.acc, imm(31)), away))
    return op("shr", op("mac_high", use.acc, use.mult, tail), imm(final) if final else use.right)


def _reads(node: object, buffer: str) -> bool:
    return any(isinstance(n, Load) and n.buffer == buffer for n in walk(node))


def _vars(load: Load) -> set[Var]:
    return {v for d in load.index for v in free_vars(d)}
