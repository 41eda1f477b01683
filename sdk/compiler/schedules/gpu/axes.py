"""Loops over work items and groups: several of them as one, and cut into the places of an item or a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sdk.compiler.ir.intrinsics import idx, op
from sdk.compiler.ir.loops import Block, For, If, Stmt, ValueExpr
from sdk.compiler.sym import Dim, Var, ceildiv, dmax, dmin, floordiv, grain, max_value, prove_eq, prove_ge

__all__ = ["Axis", "divides", "joined", "places", "places_of"]


def joined(outer: For, inner: For) -> tuple[For, Mapping[Var, Dim]]:
    """One loop in place of two, and what their variables are in it."""
    rows, extent = outer.hi - outer.lo, inner.hi - inner.lo
    maximum = max_value(rows * extent)
    var = Var(f"{outer.var.name}_{inner.var.name}", 0, max((maximum or 1) - 1, 1))
    quotient = floordiv(var.expr, extent if prove_ge(extent, 1) is True else dmax(extent, 1))  # of 0 there is no item
    env = {outer.var: quotient + outer.lo, inner.var: var.expr - quotient * extent + inner.lo}
    return For(var, 0, rows * extent, Block(())), env


def places_of(fused: Sequence[For], number: Dim) -> dict[Var, Dim]:
    """The variables of perfectly nested loops in the iteration of a number."""
    env: dict[Var, Dim] = {}
    for loop in reversed(fused[1:]):
        extent = loop.hi - loop.lo
        quotient = floordiv(number, extent if prove_ge(extent, 1) is True else dmax(extent, 1))
        env[loop.var] = number - quotient * extent + loop.lo
        number = quotient
    return env | {fused[0].var: number + fused[0].lo}


def divides(size: int, extent: Dim) -> bool:
    """Whether tiles of a size fill an extent."""
    return size == 1 or prove_eq(floordiv(extent, size) * size, extent) is True


@dataclass(frozen=True)
class Axis:
    """Loops that are one axis of the results, ``items * each`` places to a group: with one item, those of an item."""

    fused: tuple[For, ...]
    items: int
    each: int

    @classmethod
    def of(cls, fused: tuple[For, ...], items: int, maximum: int) -> Axis:
        """An axis with at most ``maximum`` places to an item, no more than it takes."""
        axis = cls(fused, items, maximum)
        extent = axis.extent
        if isinstance(extent, int):
            groups = max(-(-extent // axis.size), 1)
            return replace(axis, each=max(-(-extent // (groups * items)), 1))
        return axis

    @property
    def size(self) -> int:
        """Places of a group."""
        return self.items * self.each

    @property
    def extent(self) -> Dim:
        """How many places there are."""
        return places(self.fused)

    @property
    def start(self) -> Dim:
        """The first place of a group."""
        return self._var.expr * self.size

    @property
    def _var(self) -> Var:
        maximum = max_value(ceildiv(self.extent, self.size))
        return Var("_".join(loop.var.name for loop in self.fused) + "_t", 0, max((maximum or 1) - 1, 1))

    @property
    def loop(self) -> For:
        """The loop over groups."""
        return For(self._var, 0, ceildiv(self.extent, self.size), Block(()))

    def together(self, width: int) -> bool:
        """Whether so many neighbouring places are inside or outside together, and neighbours in a loop."""
        return len(self.fused) == 1 and grain(self.extent) % width == 0 and self.size % width == 0

    def env(self, place: Dim, within: int = 0, width: int = 1) -> Mapping[Var, Dim]:
        """The variables at a place, or at the last one; with ``width`` at one of so many neighbours."""
        at = place if self.fits else dmin(place, self.extent - width)
        return places_of(self.fused, at + within)

    @property
    def fits(self) -> bool:
        """Whether groups fill the axis."""
        return divides(self.size, self.extent)

    def checks(self, place: Dim) -> tuple[ValueExpr, ...]:
        """The conditions under which there is such a place."""
        return () if self.fits else (op("lt", idx(place), idx(self.extent)),)

    def inside(self, place: Dim, stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Statements where there is such a place."""
        for cond in self.checks(place):
            stmts = (If(cond, Block(stmts)),)
        return stmts


def places(loops: Iterable[For]) -> Dim:
    """How many places loops go over together."""
    total: Dim = 1
    for loop in loops:
        total = total * (loop.hi - loop.lo)
    return total
