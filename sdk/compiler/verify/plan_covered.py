"""Bounds of symbolic offsets: what is proved to end below a dim made of maxima and of places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sdk.compiler.sym import Dim, Var, floordiv, free_vars, prove_ge

__all__ = ["Covered", "lower_arms"]


class Covered:
    """What is proved to end below ``room``: dims that it is no less than, found by looking into its places."""

    def __init__(self, room: Dim, places: Mapping[Var, Dim]) -> None:
        self.places = places
        self.lower: dict[Dim, frozenset[Var]] = {}
        waiting = [room]
        while waiting:
            dim = waiting.pop()
            if dim not in self.lower:
                self.lower[dim] = self._used(dim)
                waiting += [*lower_arms(dim), *self._inside(dim), _floor(dim)]

    def _used(self, dim: Dim) -> frozenset[Var]:
        return frozenset(v for v in free_vars(dim) if v in self.places)

    def _inside(self, dim: Dim) -> Iterator[Dim]:
        """What the places are made of to which ``dim`` adds something."""
        for var in sorted(self._used(dim), key=lambda v: v.name):
            rest = dim - var.expr
            if var not in free_vars(rest) and prove_ge(rest, 0) is True:
                yield self.places[var]

    def holds(self, value: Dim) -> bool:
        """Whether ``value`` is proved to be no more than the room."""
        used = self._used(value)
        near = [d for d, places in self.lower.items() if places == used]
        far = [d for d, places in self.lower.items() if places != used]
        return any(prove_ge(d, value) is True or prove_ge(_floor(d - value), 0) is True for d in (*near, *far))


def _floor(dim: Dim) -> Dim:
    """Something no more than ``dim``, without the rounding up of sizes: ``b*floordiv(a, b) >= a - b + 1``."""
    out = dim
    for term, coefficient in () if isinstance(dim, int) else dim.terms:
        factor, power = term[0]
        if len(term) > 1 or power > 1 or isinstance(factor, Var) or factor.name != "floordiv" or coefficient < 0:
            continue
        if isinstance(factor.b, int) and factor.b > 0 and coefficient % factor.b == 0:
            out = out - coefficient * floordiv(factor.a, factor.b) + coefficient // factor.b * (factor.a - factor.b + 1)
    return out


def lower_arms(dim: Dim) -> Iterator[Dim]:
    """The arms of a maximum, none for what is no maximum."""
    if isinstance(dim, int) or dim.const or len(dim.terms) != 1:
        return
    ((term, coefficient),) = dim.terms
    if coefficient == 1 and len(term) == 1 and term[0][1] == 1:
        factor = term[0][0]
        if not isinstance(factor, Var) and factor.name == "max":
            yield factor.a
            yield factor.b
