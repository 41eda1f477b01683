"""What a ``match_cast`` asks of a run: the dims it binds, and the equalities that no proof gives."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sdk.compiler.ir.types import TensorType
from sdk.compiler.sym import Dim, Var, floordiv, free_vars, only_unknown, prove_eq, substitute

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
        found = only_unknown(stated, {*known, *values})
        if found is not None and found[1] > 0:
            var, factor, rest = found
            values[var] = floordiv(extent - rest, factor)
            binds.append((var, values[var], axis))
    new = {v for _, (_, stated) in axes for v in free_vars(stated)} - set(known) - values.keys()
    for axis, (extent, stated) in axes:
        if free_vars(stated) & new:
            continue
        if prove_eq(substitute(stated, values), extent) is not True:
            checks.append((extent, stated, axis))
    return Match(tuple(binds), tuple(checks), tuple(sorted(new, key=lambda v: v.name)))
