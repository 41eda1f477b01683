"""Numbers in which functions differ, and the few parameters that all of them follow from."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sdk.compiler.sym import Dim, Var, dmax, dmin, floordiv

__all__ = ["Apply", "Different", "Hole", "Sum", "Tree", "build", "choose", "holes_of"]

Values = tuple[int | None, ...]
DIVISORS: Final = (2, 3, 4, 8, 16)
SMALL: Final = 16


class Different(Exception):
    """The functions are not alike."""


@dataclass(frozen=True, slots=True)
class Hole:
    """A number that differs: its value in each function, None where that does not matter. ``hint`` is for a name."""

    values: Values
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Apply:
    """``floordiv``, ``min`` or ``max`` of two dims with holes."""

    name: str
    a: Tree
    b: Tree


@dataclass(frozen=True, slots=True)
class Sum:
    """``const + sum(coefficient * product(factor ** power))``."""

    const: int | Hole
    terms: tuple[tuple[int | Hole, tuple[tuple[Var | Apply, int], ...]], ...]


Tree = Dim | Hole | Sum


def holes_of(tree: Tree) -> Iterable[Hole]:
    """Every hole of a dim."""
    if isinstance(tree, Hole):
        yield tree
    elif isinstance(tree, Sum):
        for part in (*(c for c, _ in tree.terms), tree.const):
            if isinstance(part, Hole):
                yield part
        for _, factors in tree.terms:
            for factor, _ in factors:
                if isinstance(factor, Apply):
                    yield from holes_of(factor.a)
                    yield from holes_of(factor.b)


def build(tree: Tree, dims: dict[Values, Dim]) -> Dim:
    """The dim with what stands for each hole."""
    if isinstance(tree, Hole):
        return dims[tree.values]
    if not isinstance(tree, Sum):
        return tree
    out = build(tree.const, dims)
    for coefficient, factors in tree.terms:
        value = build(coefficient, dims)
        for factor, power in factors:
            for _ in range(power):
                value = value * (factor.expr if isinstance(factor, Var) else _apply(factor, dims))
        out = out + value
    return out


def _apply(factor: Apply, dims: dict[Values, Dim]) -> Dim:
    a, b = build(factor.a, dims), build(factor.b, dims)
    return floordiv(a, b) if factor.name == "floordiv" else (dmin if factor.name == "min" else dmax)(a, b)


# --- the parameters -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Known:
    """A dim made of the parameters, with its value in each function."""

    values: tuple[int, ...]
    dim: Dim
    made: bool = False  # a quotient or product of parameters


def choose(
    holes: Iterable[Hole], taken: Iterable[str]
) -> tuple[dict[Values, Dim], tuple[Var, ...], tuple[tuple[int, ...], ...]]:
    """What stands for each hole; the parameters; their values in each function.

    Holes whose values follow each other by a factor and an offset, by a division or as a product need no parameter of
    their own. ``taken`` are names that parameters must not have.
    """
    hints: dict[Values, str] = {}
    for hole in holes:
        hints.setdefault(hole.values, hole.hint)
    known: list[_Known] = []
    params: list[tuple[Var, tuple[int, ...]]] = []
    used = set(taken)
    out: dict[Values, Dim] = {}
    # those that are known in every function decide, the others follow where they can
    for values in sorted(hints, key=lambda v: None in v):
        if values in out:
            continue
        cares = {v for v in values if v is not None}
        found = next(iter(cares), 0) if len(cares) < 2 else _derived(values, known)
        if found is None:
            whole = tuple(next(iter(cares)) if v is None else v for v in values)
            var, base = _parameter(whole, hints, used)
            used.add(var.name)
            params.append((var, base))
            known = _more(known, _Known(base, var.expr))
            found = _derived(values, known)
            assert found is not None  # the parameter is made of these values
        out[values] = found
    columns = [base for _, base in params]
    count = max((len(v) for v in hints), default=0)
    return out, tuple(var for var, _ in params), tuple(tuple(c[k] for c in columns) for k in range(count))


def _more(known: list[_Known], new: _Known) -> list[_Known]:
    """With a parameter also its quotients and its products with those before it."""
    made = [_Known(tuple(v // k for v in new.values), floordiv(new.dim, k), True) for k in DIVISORS]
    first = [old for old in known if not old.made]
    pairs = [
        _Known(tuple(a * b for a, b in zip(old.values, new.values, strict=True)), old.dim * new.dim, True)
        for old in first
    ]
    return [*known, new, *made, *pairs]


def _derived(values: Values, known: Sequence[_Known]) -> Dim | None:
    """The values as a multiple of something known and an offset; the first that fits."""
    for base in known:
        found = _affine(values, base.values)
        if found is not None and (not base.made or (found[0] > 0 and found[1] == 0)):
            return base.dim * found[0] + found[1]
    return None


def _affine(values: Values, base: Sequence[int]) -> tuple[int, int] | None:
    """(g, c) with ``values = g*base + c`` wherever they matter."""
    pairs = [(v, b) for v, b in zip(values, base, strict=True) if v is not None]
    v0, b0 = pairs[0]
    other = next(((v, b) for v, b in pairs if b != b0), None)
    if other is None:
        return None
    factor, rest = divmod(other[0] - v0, other[1] - b0)
    offset = v0 - factor * b0
    if rest or any(v != factor * b + offset for v, b in pairs):
        return None
    # of two functions everything follows from anything: what has no meaning is no simpler than another number
    plain = offset == 0 or max(abs(factor), abs(offset)) <= SMALL
    return (factor, offset) if plain else None


def _parameter(values: tuple[int, ...], hints: dict[Values, str], used: set[str]) -> tuple[Var, tuple[int, ...]]:
    """A parameter for these values: where some are a fraction of them, the smallest of those."""
    fractions = [v for w in hints if None not in w and (v := _ints(w)) and min(v) > 0 and _times(values, v)]
    base = min([values, *fractions], key=max)
    stem = re.sub(r"\W+", "_", hints.get(base, "")) or "k"
    label, k = stem, 2
    while label in used:
        label, k = f"{stem}_{k}", k + 1
    return Var(label, min(base), max(base), max(math.gcd(*base), 1)), base


def _times(values: tuple[int, ...], base: tuple[int, ...]) -> bool:
    """Whether the values are one multiple of others."""
    return values[0] % base[0] == 0 and all(v * base[0] == b * values[0] for v, b in zip(values, base, strict=True))


def _ints(values: Values) -> tuple[int, ...]:
    return tuple(v for v in values if v is not None)
