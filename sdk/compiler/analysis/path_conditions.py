"""Proofs that a dim is not negative at a place in a loop nest, from loop ranges and conditions around it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.loops import Idx, Imm, Op, Ref, ValueExpr
from sdk.compiler.ir.types import I32, I64
from sdk.compiler.sym import Dim, Func, Var, dmax, dmin, evaluate_grid, floordiv, free_vars, interval, substitute
from sdk.compiler.sym.dim import Factor

__all__ = ["PathConditions", "conditions_of", "value_range"]

GRID_LIMIT: Final = 1 << 18
REMEMBERED: Final = 1 << 14  # proofs
_MAKE: Final = {"min": dmin, "max": dmax, "floordiv": floordiv}
Lets = Mapping[str, ValueExpr]


@dataclass(frozen=True, slots=True)
class PathConditions:
    """What holds at a place: ``lo <= var < hi`` for each range (outer first), and guards that are >= 0."""

    ranges: tuple[tuple[Var, Dim, Dim], ...] = ()
    guards: tuple[Dim, ...] = ()

    def with_range(self, var: Var, lo: Dim, hi: Dim) -> PathConditions:
        """These conditions inside ``for var in lo..hi``."""
        return PathConditions((*self.ranges, (var, lo, hi)), self.guards)

    def with_guards(self, guards: Iterable[Dim]) -> PathConditions:
        """These conditions where more dims are known to be >= 0."""
        more = tuple(guards)
        return PathConditions(self.ranges, (*self.guards, *more)) if more else self

    def nonnegative(self, dim: Dim) -> bool | None:
        """Is ``dim >= 0`` here? None when it cannot be told."""
        return _proved(self, dim)

    def _prove(self, dim: Dim) -> bool | None:
        if _surely(dim):
            return True
        without = [dim - times * guard for guard in self.guards for times in _shares(dim, guard)]
        if any(map(_surely, without)) or _by_remainder(dim):
            return True
        lower = list(self._lowest(dim))
        if any(map(_surely, lower)) or any(self._surely_above(d) for found in (dim, *lower) for d in _looser(found)):
            return True
        rest = [d for found in without for d in (found, *self._lowest(found))]
        if any(_surely(d) for found in rest for d in (found, *_looser(found))):
            return True
        if any(self.nonnegative(d) for d in _undivided(dim)):
            return True
        if any(all(map(self.nonnegative, cases)) for cases in _cases(dim)) or self._entered(dim):
            return True
        # the lowest bound has the fewest variables left
        return True if lower and self._exhaust(lower[-1]) else self._exhaust(dim)

    def _entered(self, dim: Dim) -> bool:
        """Whether it follows from the loops around having an iteration at all."""
        for _, lo, hi in self.ranges:
            iterations = hi - lo - 1
            if isinstance(iterations, int):
                continue
            for condition in (iterations, *_undivided(iterations)):
                rest = (dim - times * condition for times in _shares(dim, condition))
                if any(map(self._surely_above, rest)):
                    return True
        return False

    def _surely_above(self, dim: Dim) -> bool:
        return _surely(dim) or any(map(_surely, self._lowest(dim)))

    def _lowest(self, dim: Dim) -> Iterable[Dim]:
        """Lower bounds of ``dim`` with its loop variables put at the end of their range, innermost first."""
        for var, lo, hi in reversed(self.ranges):
            direction = _direction(dim, var)
            if direction:
                dim = substitute(dim, {var: lo if direction > 0 else hi - 1})
                yield dim

    def _exhaust(self, dim: Dim) -> bool | None:
        """Tries every value of the variables but those that ranges and guards exclude; None when too many."""
        names = set(free_vars(dim))
        if _points(names) > GRID_LIMIT:
            return None
        known: list[Dim] = []
        whole = True
        for var, lo, hi in reversed(self.ranges):
            if var in names:
                whole &= _learn((var.expr - lo, hi - 1 - var.expr), names, known)
        for guard in self.guards:
            if free_vars(guard) & names:
                whole &= _learn((guard,), names, known)
        env = _grid(names)
        bad = evaluate_grid(dim, env) < 0
        for condition in known:
            bad = bad & (evaluate_grid(condition, env) >= 0)
        return True if not bad.any() else False if whole else None


@lru_cache(maxsize=REMEMBERED)
def _proved(conditions: PathConditions, dim: Dim) -> bool | None:
    """Every pass of a build asks the same of functions that it leaves alone."""
    return conditions._prove(dim)


def _shares(dim: Dim, guard: Dim) -> set[int]:
    """How many times a guard may be in ``dim``: once, or as often as makes a term of both vanish."""
    if isinstance(dim, int) or isinstance(guard, int):
        return {1}
    own = dict(guard.terms)
    pairs = [(c, own[term]) for term, c in dim.terms if term in own]
    return {1} | {c // g for c, g in pairs if c % g == 0 and c // g > 0}


def _direction(dim: Dim, var: Var) -> int | None:
    """1 if ``dim`` never falls as ``var`` grows, -1 if it never rises, 0 without it, None when unknown."""
    if isinstance(dim, int) or var not in free_vars(dim):
        return 0
    directions: set[int | None] = set()
    for term, coefficient in dim.terms:
        inside = [(factor, power) for factor, power in term if factor is var or _holds(factor, var)]
        if inside:
            others = [factor for factor, _ in term if factor is not inside[0][0]]
            plain = len(inside) == 1 and inside[0][1] == 1 and all(_never_negative(f) for f in others)
            direction = _factor_direction(inside[0][0], var) if plain else None
            directions.add(None if direction is None else direction if coefficient > 0 else -direction)
    directions.discard(0)
    return directions.pop() if len(directions) == 1 else None if directions else 0


def _never_negative(factor: Factor) -> bool:
    return _surely(factor.expr if isinstance(factor, Var) else _MAKE[factor.name](factor.a, factor.b))


def _undivided(dim: Dim) -> Iterator[Dim]:
    """Dims that are >= 0 exactly where ``dim`` is, without a division: ``r >= a/b`` where ``(r + 1)*b > a``."""
    if isinstance(dim, int):
        return
    for term, coefficient in dim.terms:
        factor = term[0][0]
        if len(term) != 1 or term[0][1] != 1 or not isinstance(factor, Func) or factor.name != "floordiv":
            continue
        if abs(coefficient) != 1 or not _surely(factor.b - 1):
            continue
        rest = dim - coefficient * floordiv(factor.a, factor.b)
        yield (rest + 1) * factor.b - 1 - factor.a if coefficient < 0 else factor.a + rest * factor.b


def _cases(dim: Dim) -> Iterator[tuple[Dim, Dim]]:
    """Pairs of dims, of which the smaller is ``dim``: without a ``min`` in it, or a ``max`` that is taken away."""
    if isinstance(dim, int):
        return
    for term, coefficient in dim.terms:
        factor = term[0][0]
        if len(term) != 1 or term[0][1] != 1 or not isinstance(factor, Func):
            continue
        if factor.name == ("min" if coefficient > 0 else "max"):
            rest = dim - coefficient * _MAKE[factor.name](factor.a, factor.b)
            yield rest + coefficient * factor.a, rest + coefficient * factor.b


def _holds(factor: Factor, var: Var) -> bool:
    return isinstance(factor, Func) and (var in free_vars(factor.a) or var in free_vars(factor.b))


def _factor_direction(factor: Factor, var: Var) -> int | None:
    if isinstance(factor, Var):
        return 1
    first, second = _direction(factor.a, var), _direction(factor.b, var)
    if factor.name == "floordiv":
        return first if isinstance(factor.b, int) and factor.b > 0 else None
    if first is None or second is None or first * second < 0:
        return None
    return first or second


def _points(names: Iterable[Var]) -> int:
    return math.prod((v.hi - v.lo) // v.multiple + 1 for v in names)


def _learn(conditions: Iterable[Dim], names: set[Var], known: list[Dim]) -> bool:
    """Adds conditions to ``known``, and their variables to ``names``, where the values to try stay few enough;
    whether all of them were."""
    whole = True
    for condition in conditions:
        more = names | free_vars(condition)
        if _points(more) <= GRID_LIMIT:
            names |= more
            known.append(condition)
        else:
            whole = False
    return whole


def _grid(names: Iterable[Var]) -> dict[Var, NDArray[np.int64]]:
    """Every value of each variable, each along an axis of its own."""
    order = sorted(names, key=lambda v: (v.name, v.lo, v.hi))
    env = {}
    for axis, var in enumerate(order):
        domain = np.arange(var.minimum, var.hi + 1, var.multiple, dtype=np.int64)
        env[var] = domain.reshape([-1 if k == axis else 1 for k in range(len(order))])
    return env


def _looser(dim: Dim, depth: int = 3) -> Iterator[Dim]:
    """Lower bounds of ``dim`` without a min, max or division in it: ``-min(a, b) >= -a``, ``max(a, b) >= a`` and
    ``-c*(a/c) >= -a``."""
    if isinstance(dim, int) or depth == 0:
        return
    for term, coefficient in dim.terms:
        if len(term) != 1 or not isinstance(factor := term[0][0], Func) or term[0][1] != 1:
            continue
        rest = dim - coefficient * _MAKE[factor.name](factor.a, factor.b)
        places: tuple[Dim, ...] = ()
        if factor.name == ("max" if coefficient > 0 else "min"):
            places = (coefficient * factor.a, coefficient * factor.b)
        elif factor.name == "floordiv" and isinstance(factor.b, int) and coefficient < 0:
            places = (coefficient // factor.b * factor.a,) if coefficient % factor.b == 0 else ()
        for place in places:
            yield rest + place
            yield from _looser(rest + place, depth - 1)


def _by_remainder(dim: Dim) -> bool:
    """Whether a remainder in ``dim`` explains why it is not negative: ``0 <= a - b*floordiv(a, b) < b``."""
    if isinstance(dim, int):
        return False
    parts = {f for term, _ in dim.terms for f, _ in term if isinstance(f, Func) and f.name == "floordiv"}
    for part in parts:
        rest = part.a - part.b * floordiv(part.a, part.b)
        if _surely(part.b - 1) and (_surely(dim - rest) or _surely(dim - (part.b - 1 - rest))):
            return True
    return False


def _surely(dim: Dim) -> bool:
    lo = interval(dim)[0]
    return lo is not None and lo >= 0


def _index(value: ValueExpr, lets: Lets) -> Dim | None:
    """The dim that an integer value is, if it is one."""
    match value:
        case Idx():
            return value.dim
        case Imm() if isinstance(value.value, int) and value.dtype.bits >= 32:
            return value.value
        case Ref() if value.name in lets:
            return _index(lets[value.name], lets)
        case Op("add" | "sub" | "mul" as name, (first, second)) if value.dtype in (I32, I64):
            a, b = _index(first, lets), _index(second, lets)
            if a is None or b is None:
                return None
            return a + b if name == "add" else a - b if name == "sub" else a * b
    return None


def conditions_of(cond: ValueExpr, lets: Lets, holds: bool = True) -> list[Dim]:
    """Dims that are >= 0 where ``cond`` is true (or false): those that its comparisons of indices state."""
    if isinstance(cond, Ref) and cond.name in lets:
        return conditions_of(lets[cond.name], lets, holds)
    if not isinstance(cond, Op) or len(cond.args) != 2 or cond.dtype.lanes != 1:
        return []
    first, second = cond.args
    if cond.name == ("and" if holds else "or"):
        return conditions_of(first, lets, holds) + conditions_of(second, lets, holds)
    a, b = _index(first, lets), _index(second, lets)
    if a is None or b is None:
        return []
    match cond.name, holds:
        case ("ge", True) | ("lt", False):
            return [a - b]
        case ("gt", True) | ("le", False):
            return [a - b - 1]
        case ("le", True) | ("gt", False):
            return [b - a]
        case ("lt", True) | ("ge", False):
            return [b - a - 1]
        case ("eq", True):
            return [a - b, b - a]
    return []


def value_range(value: ValueExpr, lets: Lets) -> tuple[int, int] | None:
    """Bounds of an integer value: of its type, of its index, or of the limits it is held to."""
    if value.dtype.is_float:
        return None
    lo, hi = value.dtype.limits
    dim = _index(value, lets)
    if dim is not None:
        low, high = interval(dim)
        return (lo if low is None else low), (hi if high is None else high)
    match value:
        case Ref() if value.name in lets:
            return value_range(lets[value.name], lets)
        case Op("cast", (inner,)):
            given = value_range(inner, lets)
            return given if given is not None and lo <= given[0] and given[1] <= hi else (lo, hi)
        case Op("min" | "max" as name, (first, second)):
            a, b = value_range(first, lets), value_range(second, lets)
            if a is None or b is None:
                return lo, hi
            pick = min if name == "min" else max
            return pick(a[0], b[0]), pick(a[1], b[1])
        case Op("add" | "sub" as name, (first, second)):
            a, b = value_range(first, lets), value_range(second, lets)
            if a is None or b is None:
                return lo, hi
            low, high = (a[0] + b[0], a[1] + b[1]) if name == "add" else (a[0] - b[1], a[1] - b[0])
            return (low, high) if lo <= low and high <= hi else (lo, hi)
    return lo, hi
