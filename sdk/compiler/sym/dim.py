"""Symbolic integers: ``Dim = int | Expr``, an interned polynomial normal form over bounded variables.

An ``Expr`` is a constant plus a sorted sum of (coefficient, product of factors); a factor is a ``Var``, or a
``floordiv``, ``min`` or ``max`` of two dims. ``mod(a, b)`` is stored as ``a - b*floordiv(a, b)``. Constructors
normalise, so equal normal forms are one object and ``==`` is identity; whether two different forms are equal
in value is asked with ``sdk.compiler.sym.prove_eq``.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping
from functools import lru_cache, reduce
from typing import ClassVar, Union

from sdk.errors import SdkError

__all__ = ["Dim", "Expr", "Factor", "Func", "Var", "ceildiv", "dmax", "dmin", "floordiv", "from_terms", "grain", "mod"]

Dim = Union[int, "Expr"]
MAX_TERMS = 1 << 14  # of one product: those of models have under 100
MAX_LATEST = 1 << 13  # expressions that are kept though nothing else may hold them


class _Node:
    """Anything interned: hash and equality are identity, and pickling rebuilds through the constructor."""

    __slots__ = ("__weakref__", "_key")
    _key: str

    def __lt__(self, other: _Node) -> bool:
        return self._key < other._key


class Var(_Node):
    """A named integer in ``lo..hi`` (inclusive) that is a multiple of ``multiple``.

    ``minimum`` and ``maximum`` are its smallest and largest value: multiples, where a bound need not be one.
    """

    __slots__ = ("hi", "lo", "maximum", "minimum", "multiple", "name")
    exact: ClassVar[bool] = False  # as that of a Func
    _table: ClassVar[weakref.WeakValueDictionary[tuple[str, int, int, int], Var]] = weakref.WeakValueDictionary()
    name: str
    lo: int
    hi: int
    multiple: int
    minimum: int
    maximum: int

    def __new__(cls, name: str, lo: int, hi: int, multiple: int = 1) -> Var:
        """The one variable of this name and these bounds."""
        key = (name, lo, hi, multiple)
        found = cls._table.get(key)
        if found is not None:
            return found
        if lo > hi or multiple < 1 or hi // multiple * multiple < lo:
            raise SdkError(
                f"symbol {name} has no value in {lo}..{hi}" + (f" multiple of {multiple}" if multiple > 1 else ""),
                hint="give bounds with lo <= hi that hold at least one multiple",
            )
        self = object.__new__(cls)
        self.name, self.lo, self.hi, self.multiple = name, lo, hi, multiple
        self.minimum, self.maximum = -(-lo // multiple) * multiple, hi // multiple * multiple
        self._key = f"{name}\x00{lo}\x00{hi}\x00{multiple}"
        cls._table[key] = self
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return (Var, (self.name, self.lo, self.hi, self.multiple))

    def __repr__(self) -> str:
        return f"Var({self.name}, {self.lo}..{self.hi})"

    @property
    def expr(self) -> Expr:
        """This variable as an expression."""
        return Expr._of(0, ((((self, 1),), 1),))

    def holds(self, value: int) -> bool:
        """Whether it may have this value: within the bounds, and a multiple."""
        return self.lo <= value <= self.hi and value % self.multiple == 0


class Func(_Node):
    """``floordiv(a, b)``, ``min(a, b)`` or ``max(a, b)`` that does not simplify further."""

    __slots__ = ("a", "b", "exact", "free", "name")
    _table: ClassVar[weakref.WeakValueDictionary[tuple[str, object, object], Func]] = weakref.WeakValueDictionary()
    name: str
    a: Dim
    b: Dim
    exact: bool  # a floordiv by a number that leaves nothing over
    free: frozenset[Var]

    def __new__(cls, name: str, a: Dim, b: Dim) -> Func:
        """The one application of this function to these dims."""
        key = (name, a, b)
        found = cls._table.get(key)
        if found is not None:
            return found
        self = object.__new__(cls)
        self.name, self.a, self.b = name, a, b
        self.exact = name == "floordiv" and isinstance(b, int) and b > 0 and grain(a) % b == 0
        self.free = frozenset().union(*(d.free for d in (a, b) if isinstance(d, Expr)))
        self._key = f"~{name}({a},{b})"
        cls._table[key] = self
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return (Func, (self.name, self.a, self.b))

    @property
    def divisor(self) -> int:
        """What an exact floordiv divides by; 1 for anything else."""
        return self.b if self.exact and isinstance(self.b, int) else 1


Factor = Var | Func
Term = tuple[tuple[Factor, int], ...]
Terms = tuple[tuple[Term, int], ...]


class Expr(_Node):
    """``const + sum(coefficient * product(factor ** power))`` with at least one term."""

    __slots__ = ("const", "divides", "free", "terms")
    _table: ClassVar[weakref.WeakValueDictionary[tuple[int, Terms], Expr]] = weakref.WeakValueDictionary()
    _latest: ClassVar[dict[tuple[int, Terms], Expr]] = {}  # some of them, which are found in a tenth of the time
    const: int
    terms: Terms
    free: frozenset[Var]  # every variable in it
    divides: bool  # whether a factor is an exact floordiv, which a coefficient may cancel

    @classmethod
    def _of(cls, const: int, terms: Terms) -> Expr:
        key = (const, terms)
        found = cls._latest.get(key)
        if found is not None:
            return found
        found = cls._table.get(key)
        if found is None:
            found = object.__new__(cls)
            found.const, found.terms = const, terms
            factors = [factor for term, _ in terms for factor, _ in term]
            found.free = frozenset().union(*[{f} if isinstance(f, Var) else f.free for f in factors])
            found.divides = any([f.exact for f in factors])
            found._key = "+".join([*[f"{c}*{_term_key(t)}" for t, c in terms], str(const)])
            cls._table[key] = found
        if len(cls._latest) >= MAX_LATEST:
            cls._latest.clear()
        cls._latest[key] = found
        return found

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_expr, (self.const, self.terms))

    def __bool__(self) -> bool:
        raise SdkError(f"the symbolic value {self} has no truth value", hint="use prove_eq, prove_ge or prove_lt")

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return show(self)

    def __add__(self, other: Dim) -> Dim:
        return _sum(self, other, 1)

    __radd__ = __add__

    def __sub__(self, other: Dim) -> Dim:
        return _sum(self, other, -1)

    def __rsub__(self, other: Dim) -> Dim:
        return _sum(other, self, -1)

    def __neg__(self) -> Dim:
        return _scale(self, -1)

    def __mul__(self, other: Dim) -> Dim:
        return _mul(self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floordiv(self, other)

    def __rfloordiv__(self, other: int) -> Dim:
        return floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return mod(self, other)


def _term_key(term: Term) -> str:
    if len(term) == 1 and term[0][1] == 1:
        return term[0][0]._key
    return "*".join(f._key if p == 1 else f"{f._key}^{p}" for f, p in term)


def _make(const: int, terms: Mapping[Term, int]) -> Dim:
    for term, coeff in terms.items():
        for factor, power in term:
            cancels = factor.exact and power == 1 and coeff
            if cancels and isinstance(factor, Func) and math.gcd(coeff, factor.divisor) > 1:
                rest = {t: c for t, c in terms.items() if t != term}
                return _sum(_make(const, rest), _cancelled(term, coeff, factor), 1)
    return ordered(const, terms)


def ordered(const: int, terms: Mapping[Term, int]) -> Dim:
    """A sum in which no coefficient cancels a floordiv."""
    kept = [item for item in terms.items() if item[1]]
    if len(kept) > 1:
        kept.sort(key=lambda item: _term_key(item[0]))
    return Expr._of(const, tuple(kept)) if kept else const


def _cancelled(term: Term, coeff: int, factor: Func) -> Dim:
    """``6*w*floordiv(h, 4)`` is ``3*w*floordiv(h, 2)`` where h is a multiple of 4."""
    common = math.gcd(coeff, factor.divisor)
    others = tuple((f, p) for f, p in term if f is not factor)
    left = Expr._of(0, ((others, coeff // common),)) if others else coeff // common
    return _mul(left, floordiv(factor.a, factor.divisor // common))


def _split(a: Dim) -> tuple[int, Terms]:
    return (a, ()) if isinstance(a, int) else (a.const, a.terms)


@lru_cache(maxsize=MAX_LATEST)
def _sum(a: Dim, b: Dim, sign: int) -> Dim:
    if isinstance(b, int):
        if isinstance(a, int):
            return a + sign * b
        if not a.divides:
            return Expr._of(a.const + sign * b, a.terms) if b else a
    (ca, ta), (cb, tb) = _split(a), _split(b)
    terms = dict(ta)
    for term, coeff in tb:
        terms[term] = terms.get(term, 0) + sign * coeff
    cancels = (isinstance(a, Expr) and a.divides) or (isinstance(b, Expr) and b.divides)
    return (_make if cancels else ordered)(ca + sign * cb, terms)


def _scale(a: Dim, k: int) -> Dim:
    if isinstance(a, int):
        return a * k
    if a.divides or k == 0:
        return _make(a.const * k, {t: c * k for t, c in a.terms})
    return a if k == 1 else Expr._of(a.const * k, tuple([(t, c * k) for t, c in a.terms]))


@lru_cache(maxsize=MAX_LATEST)
def _mul(a: Dim, b: Dim) -> Dim:
    if isinstance(b, int):
        return _scale(a, b)
    if isinstance(a, int):
        return _scale(b, a)
    out: dict[Term, int] = {}
    left: list[tuple[Term, int]] = [*a.terms, ((), a.const)]
    right: list[tuple[Term, int]] = [*b.terms, ((), b.const)]
    if len(left) * len(right) > MAX_TERMS:
        raise SdkError(
            f"a product of sizes has {len(left)} times {len(right)} terms", why=f"at most {MAX_TERMS} are kept",
            hint="give sums of sizes a name of their own, or give sizes as numbers with --dim",
        )  # fmt: skip
    for ta, ca in left:
        for tb, cb in right:
            powers = dict(ta)
            for factor, power in tb:
                powers[factor] = powers.get(factor, 0) + power
            term = tuple(sorted(powers.items(), key=lambda fp: fp[0]._key))
            out[term] = out.get(term, 0) + ca * cb
    const = out.pop((), 0)
    return _make(const, out)


def from_terms(terms: Terms) -> Expr:
    """The sum of some terms of an expression (at least one), as they stand there."""
    return Expr._of(0, tuple(sorted(terms, key=lambda tc: _term_key(tc[0]))))


def _rebuild_expr(const: int, terms: Terms) -> Dim:
    return _make(const, dict(terms))


def _factor(factor: Factor) -> Expr:
    return Expr._of(0, ((((factor, 1),), 1),))


def floordiv(a: Dim, b: Dim) -> Dim:
    """``a`` divided by ``b`` rounded to minus infinity; ``b`` must not be 0."""
    if isinstance(b, int):
        if b == 0:
            raise SdkError(f"division by zero in floordiv({a}, 0)")
        if isinstance(a, int):
            return a // b
        if b == 1:
            return a
        if b > 1:
            return _floordiv_const(a, b)
    whole = _quotient(a, b) if isinstance(b, Expr) else None
    return _factor(Func("floordiv", a, b)) if whole is None else whole


def _quotient(a: Dim, b: Expr) -> Dim | None:
    """``a / b`` where every term of ``a`` is a multiple of the single term ``b``; None else."""
    if a is b:
        return 1
    if len(b.terms) != 1 or b.const:
        return None
    ((divisor, by),) = b.terms
    const, terms = _split(a)
    if const or any(c % by for _, c in terms):
        return None
    out: Dim = 0
    for term, coeff in terms:
        powers = dict(term)
        for factor, power in divisor:
            powers[factor] = powers.get(factor, 0) - power
        if any(p < 0 for p in powers.values()):
            return None
        kept = tuple((f, p) for f, p in powers.items() if p)
        out = _sum(out, Expr._of(0, ((kept, coeff // by),)) if kept else coeff // by, 1)
    return out


def _multiple(term: Term, coeff: int) -> int:
    """A number that every value of ``coeff * term`` is a multiple of."""
    out = abs(coeff)
    for factor, power in term:
        out *= _factor_multiple(factor) ** power
    return out


def _factor_multiple(factor: Factor) -> int:
    if isinstance(factor, Var):
        return factor.multiple
    return grain(factor.a) // factor.divisor if factor.exact else 1


def grain(a: Dim) -> int:
    """A number that every value of ``a`` is a multiple of."""
    const, terms = _split(a)
    return math.gcd(const, *(_multiple(t, c) for t, c in terms))


def _floordiv_const(a: Expr, b: int) -> Dim:
    """Take out what divides exactly; ``(x // c) // b`` becomes ``x // (c*b)``; drop a remainder in 0..b-1."""
    whole = {t: c // b for t, c in a.terms if c % b == 0}
    rest = _make(a.const % b, {t: c for t, c in a.terms if t not in whole})
    out = _make(a.const // b, whole)
    if isinstance(rest, int):
        return out
    common = math.gcd(b, rest.const, *(c for _, c in rest.terms))
    if common > 1:
        rest, b = _make(rest.const // common, {t: c // common for t, c in rest.terms}), b // common
        return _sum(out, floordiv(rest, b), 1)
    if isinstance(rest, int):
        return _sum(out, rest // b, 1)
    grain = math.gcd(b, *(_multiple(t, c) for t, c in rest.terms))
    if rest.const % grain:  # the terms come in steps of the grain: less than one does not carry
        return _sum(out, floordiv(_make(rest.const - rest.const % grain, dict(rest.terms)), b), 1)
    carried = _drop_small(rest, b)
    if carried is not None:
        return _sum(out, floordiv(*carried), 1)
    lo, hi = interval(rest)
    if lo is not None and hi is not None and lo // b == hi // b:
        return _sum(out, lo // b, 1)
    if len(rest.terms) == 1:
        term, coeff = rest.terms[0]
        if coeff == 1 and len(term) == 1 and term[0][1] == 1:
            inner = term[0][0]
            if isinstance(inner, Func) and inner.name == "floordiv" and isinstance(inner.b, int) and inner.b > 0:
                return _sum(out, floordiv(inner.a + rest.const * inner.b, inner.b * b), 1)
    return _sum(out, _factor(Func("floordiv", rest, b)), 1)


def _drop_small(a: Expr, b: int) -> tuple[Dim, int] | None:
    """``(g*big + small) // b`` with g dividing b and small in 0..g-1 is ``big // (b/g)``: small cannot carry."""
    for step in sorted({math.gcd(b, c) for _, c in a.terms} - {1}, reverse=True):
        big = {t: c // step for t, c in a.terms if c % step == 0}
        small = _make(a.const % step, {t: c for t, c in a.terms if c % step})
        lo, hi = interval(small)
        if lo is not None and hi is not None and lo >= 0 and hi < step:
            return _make(a.const // step, big), b // step
    return None


def mod(a: Dim, b: Dim) -> Dim:
    """``a - b*floordiv(a, b)``."""
    return _sum(a, _mul(b, floordiv(a, b)), -1)


def ceildiv(a: Dim, b: Dim) -> Dim:
    """``a`` divided by ``b`` rounded up, for positive ``b``."""
    return floordiv(_sum(_sum(a, b, 1), 1, -1), b)


def _minmax(name: str, a: Dim, b: Dim, pick: Callable[[int, int], int]) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return pick(a, b)
    if a is b:
        return a
    lo, hi = interval(_sum(a, b, -1))
    if lo is not None and lo >= 0:
        return a if name == "max" else b
    if hi is not None and hi <= 0:
        return b if name == "max" else a
    first, second = sorted((a, b), key=lambda d: str(d) if isinstance(d, int) else d._key)
    return _factor(Func(name, first, second))


def dmin(a: Dim, b: Dim) -> Dim:
    """The smaller of two dims."""
    return _minmax("min", a, b, min)


def dmax(a: Dim, b: Dim) -> Dim:
    """The larger of two dims."""
    return _minmax("max", a, b, max)


Interval = tuple[int | None, int | None]


@lru_cache(maxsize=MAX_LATEST)
def interval(a: Dim) -> Interval:
    """Bounds of ``a`` by interval arithmetic; None where no bound follows."""
    if isinstance(a, int):
        return a, a
    lo: int | None = a.const
    hi: int | None = a.const
    for term, coeff in a.terms:
        tlo, thi = reduce(_times, (_power(_factor_interval(f), p) for f, p in term))
        if coeff < 0:
            tlo, thi = thi, tlo
        lo = None if lo is None or tlo is None else lo + coeff * tlo
        hi = None if hi is None or thi is None else hi + coeff * thi
    return lo, hi


def _factor_interval(factor: Factor) -> Interval:
    if isinstance(factor, Var):
        return factor.minimum, factor.maximum
    (alo, ahi), (blo, bhi) = interval(factor.a), interval(factor.b)
    if factor.name == "floordiv":
        if alo is None or ahi is None or blo is None or bhi is None or blo <= 0:
            return None, None
        corners = [x // y for x in (alo, ahi) for y in (blo, bhi)]
        return min(corners), max(corners)
    pick = min if factor.name == "min" else max
    lo = pick(alo, blo) if alo is not None and blo is not None else None
    hi = pick(ahi, bhi) if ahi is not None and bhi is not None else None
    return lo, hi


def _times(x: Interval, y: Interval) -> Interval:
    if x[0] is None or x[1] is None or y[0] is None or y[1] is None:
        return None, None
    corners = [a * b for a in (x[0], x[1]) for b in (y[0], y[1])]
    return min(corners), max(corners)


def _power(x: Interval, p: int) -> Interval:
    return reduce(_times, [x] * p) if p % 2 or x[0] is None or x[0] >= 0 else _even_power(x, p)


def _even_power(x: Interval, p: int) -> Interval:
    if x[0] is None or x[1] is None:
        return 0, None
    top = max(abs(x[0]), abs(x[1])) ** p
    return (0 if x[0] <= 0 <= x[1] else min(abs(x[0]), abs(x[1])) ** p), top


def show(a: Dim, top: bool = True) -> str:
    """Text that ``sdk.compiler.sym.text.parse_dim`` reads back, e.g. ``2*n + floordiv(n, 3) - 1``."""
    if isinstance(a, int):
        return str(a)
    parts: list[str] = []
    for term, coeff in a.terms:
        names = [_show_factor(f) for f, p in term for _ in range(p)]
        body = "*".join(names if abs(coeff) == 1 else [str(abs(coeff)), *names])
        parts.append(("- " if coeff < 0 else "+ ") + body)
    if a.const:
        parts.append(f"{'-' if a.const < 0 else '+'} {abs(a.const)}")
    text = " ".join(parts)
    text = text[2:] if text.startswith("+ ") else "-" + text[2:]
    return text if top else f"({text})"


def _show_factor(factor: Factor) -> str:
    if isinstance(factor, Var):
        return factor.name
    return f"{factor.name}({show(factor.a)}, {show(factor.b)})"
