"""What a ``match_cast`` asks of a run: the dims it binds, and the equalities that no proof gives."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sdk.compiler.ir.types import TensorType
from sdk.compiler.sym import Dim, Expr, Var, floordiv, free_vars, prove_eq, substitute

__all__ = ["Match", "match_types"]


@dataclass(frozen=True, slots=True)
class Match:
    """In order: ``binds`` (dim, its value, axis), then ``checks`` (left, right, axis) that must be equal.

    ``unknown`` holds the dims that the stated type brings and no axis tells.
    """

    binds: tuple[tuple[Var, Dim, int], ...]
    checks: tuple[tuple[Dim, Dim, int], ...]
    unknown: tuple[Var, ...]


def match_types(have: TensorType, want: TensorType, known: Collection[Var]) -> Match:
    """How the dims of ``want`` follow from those of ``have``, ranks being equal; ``known`` have values already.

    A new dim ``k`` is bound by the first axis ``c*k + d`` in which it is the only new one: to
    ``floordiv(extent - d, c)``, with a check that nothing is left over unless that is proved.
    """
    values: dict[Var, Dim] = {}
    binds: list[tuple[Var, Dim, int]] = []
    checks: list[tuple[Dim, Dim, int]] = []
    axes = list(enumerate(zip(have.shape, want.shape, strict=True)))
    for axis, (extent, stated) in axes:
        found = _solve(stated, extent, {*known, *values})
        if found is not None:
            var, value = found
            values[var] = value
            binds.append((var, value, axis))
    new = {v for _, (_, stated) in axes for v in free_vars(stated)} - set(known) - values.keys()
    for axis, (extent, stated) in axes:
        if free_vars(stated) & new:
            continue
        if prove_eq(substitute(stated, values), extent) is not True:
            checks.append((extent, stated, axis))
    return Match(tuple(binds), tuple(checks), tuple(sorted(new, key=lambda v: v.name)))


def _solve(stated: Dim, extent: Dim, known: Collection[Var]) -> tuple[Var, Dim] | None:
    """The only new dim of ``c*v + d`` (d of known dims) and the value that makes it ``extent``."""
    new = [v for v in free_vars(stated) if v not in known]
    if len(new) != 1 or not isinstance(stated, Expr):
        return None
    (var,) = new
    factor = dict(stated.terms).get(((var, 1),), 0)
    rest = stated - factor * var.expr
    if factor < 1 or var in free_vars(rest):
        return None
    return var, floordiv(extent - rest, factor)
