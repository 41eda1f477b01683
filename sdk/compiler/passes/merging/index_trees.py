"""Dims of several functions as one with holes: sums are matched term by term, divisions by what is in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sdk.compiler.passes.merging.holes import Apply, Different, Hole, Sum, Tree
from sdk.compiler.sym import Dim, Expr, Func, Var, interval, substitute

__all__ = ["common_dim"]

Key = tuple[object, ...]
Part = tuple[str, Dim, Dim]  # floordiv, min or max of two dims
Term = tuple[int, tuple[tuple[Var | Part, int], ...]]


def common_dim(dims: Sequence[Dim | None], hint: str, own: Sequence[Mapping[Var, Dim]] = ()) -> Tree:
    """The dim of every function (None: it matters in no way there), in the variables that they share; ``own`` are
    those that stand for them in each function, with its ranges.

    Raises:
        Different: the dims are not alike.
    """
    given = [d for d in dims if d is not None]
    if all(d is given[0] or d == given[0] for d in given):
        return given[0]
    if all(isinstance(d, int) for d in given):
        return Hole(tuple(d if isinstance(d, int) else None for d in dims), hint)
    sums = [None if d is None else _terms(d) for d in dims]
    consts = [None if d is None else d if isinstance(d, int) else d.const for d in dims]
    _lift(sums, own or [{}] * len(sums))
    keys = list(dict.fromkeys(key for terms in sums if terms is not None for key in terms))
    terms = [_common_term([None if s is None else s.get(key) for s in sums], sums, hint, own) for key in keys]
    return Sum(_number(consts, hint), tuple(terms))


def _number(values: Sequence[int | None], hint: str) -> int | Hole:
    given = {v for v in values if v is not None}
    return next(iter(given)) if len(given) == 1 else Hole(tuple(values), hint)


def _terms(dim: Dim) -> dict[Key, Term]:
    """The terms by what must be equal of them: variables, and what stands in divisions and limits."""
    out: dict[Key, Term] = {}
    for factors, coefficient in dim.terms if isinstance(dim, Expr) else ():
        parts = tuple((f if isinstance(f, Var) else _part(f), power) for f, power in factors)
        key = _key(parts)
        if key in out:
            raise Different
        out[key] = coefficient, parts
    return out


def _part(func: Func) -> Part:
    """Of a limit the number first."""
    swap = func.name != "floordiv" and isinstance(func.b, int)
    return (func.name, func.b, func.a) if swap else (func.name, func.a, func.b)


def _key(parts: Sequence[tuple[Var | Part, int]]) -> Key:
    found: list[tuple[object, ...]] = []
    for factor, power in parts:
        if isinstance(factor, Var):
            found.append((factor.name, power))
        else:
            name, a, b = factor
            inside = sorted({v.name for d in (a, b) if isinstance(d, Expr) for v in d.free})
            found.append((name, *inside, power))
    return tuple(sorted(found, key=repr))


def _common_term(
    terms: Sequence[Term | None],
    sums: Sequence[dict[Key, Term] | None],
    hint: str,
    own: Sequence[Mapping[Var, Dim]],
) -> tuple[int | Hole, tuple[tuple[Var | Apply, int], ...]]:
    """One term of every function; where a function has none of the kind, its coefficient is 0."""
    numbers = [None if s is None else 0 if t is None else t[0] for t, s in zip(terms, sums, strict=True)]
    first = next(t for t in terms if t is not None)
    factors: list[tuple[Var | Apply, int]] = []
    for k, (factor, power) in enumerate(first[1]):
        if isinstance(factor, Var):
            factors.append((factor, power))
            continue
        parts = [None if t is None else t[1][k][0] for t in terms]
        if any(isinstance(p, Var) or (p is not None and p[0] != factor[0]) for p in parts):
            raise Different
        first_side = [p[1] if isinstance(p, tuple) else None for p in parts]
        second = [p[2] if isinstance(p, tuple) else None for p in parts]
        factors.append((Apply(factor[0], common_dim(first_side, hint, own), common_dim(second, hint, own)), power))
    return _number(numbers, hint), tuple(factors)


# --- limits that one function needs and another does not ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Limit:
    name: str
    coefficient: int
    inside: Expr
    number: int


def _lift(sums: list[dict[Key, Term] | None], own: Sequence[Mapping[Var, Dim]]) -> None:
    """``4*i`` is ``min(c, 4*i)`` for any c that it does not exceed: so it agrees with a ``min(15, 4*i)`` elsewhere."""
    found: dict[Key, list[_Limit]] = {}
    for terms in sums:
        for key, (coefficient, parts) in (terms or {}).items():
            ((factor, power), *more) = parts
            if not more and power == 1 and isinstance(factor, tuple) and factor[0] != "floordiv":
                inside = factor[2]
                if isinstance(factor[1], int) and isinstance(inside, Expr):
                    found.setdefault(key, []).append(_Limit(factor[0], coefficient, inside, factor[1]))
    for key, limits in found.items():
        for terms, mine in zip(sums, own, strict=True):
            if terms is not None and key not in terms:
                _lift_one(terms, key, limits, mine)


def _lift_one(terms: dict[Key, Term], key: Key, limits: Sequence[_Limit], own: Mapping[Var, Dim]) -> None:
    """Puts a term below a limit that changes nothing: one of those elsewhere where it is none here."""
    limit = limits[0]
    wanted = _terms(limit.inside)
    if not wanted.keys() <= terms.keys():
        return
    inside: Dim = 0
    for name in wanted:
        coefficient, parts = terms[name]
        if coefficient % limit.coefficient or not all(isinstance(f, Var) for f, _ in parts):
            return
        value: Dim = coefficient // limit.coefficient
        for factor, power in parts:
            for _ in range(power):
                value = value * factor.expr if isinstance(factor, Var) else value
        inside = inside + value
    lo, hi = interval(substitute(inside, own))
    bound = hi if limit.name == "min" else lo
    if bound is None:
        return
    free = (n.number for n in limits if (n.number >= bound if limit.name == "min" else n.number <= bound))
    bound = next(free, bound)
    for name in wanted:
        del terms[name]
    terms[key] = limit.coefficient, (((limit.name, bound, inside), 1),)
