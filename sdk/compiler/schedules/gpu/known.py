"""What values are made of, found once for each: large tiles ask it of the same ones again and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sdk.compiler.ir.loops import Idx, Load, Op, Ref, ValueExpr
from sdk.compiler.sym import Var, free_vars

__all__ = ["Known", "Values"]


@dataclass(frozen=True, slots=True)
class Known:
    """Of a value and all below it: the variables in its indices, the buffers that it loads, whether it reads memory or
    scalars, has indices as values, chooses."""

    vars: frozenset[Var] = frozenset()
    buffers: frozenset[str] = frozenset()
    varies: bool = False
    indexes: bool = False
    chooses: bool = False


_NOTHING = Known()


class Values:
    """Values by number: those of one number are equal. Comparing and hashing trees takes the time of their sizes, each
    time; a number takes that of one node."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[ValueExpr, int]] = {}  # by id, of objects that are kept, so nothing else has it
        self._numbers: dict[object, int] = {}
        self._known: list[Known] = []

    def number(self, expr: ValueExpr) -> int:
        """The number of a value."""
        seen = self._seen.get(id(expr))
        if seen is not None:
            return seen[1]
        args: tuple[int, ...] = ()
        key: object = expr
        if isinstance(expr, Op):
            args = tuple([self.number(a) for a in expr.args])
            key = expr.name, args, expr.dtype
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._known)
            self._known.append(_known(expr, [self._known[k] for k in args]))
        self._seen[id(expr)] = expr, number
        return number

    def of(self, expr: ValueExpr) -> Known:
        """What is known of a value."""
        return self._known[self.number(expr)]

    def operations(self, expr: ValueExpr, wanted: Callable[[Op], bool]) -> set[int]:
        """The numbers of the operations in a value, and it, that are wanted."""
        found: set[int] = set()
        seen: set[int] = set()
        waiting = [expr]
        while waiting:
            one = waiting.pop()
            number = self.number(one)
            if isinstance(one, Op) and number not in seen:
                seen.add(number)
                waiting += one.args
                if wanted(one):
                    found.add(number)
        return found


def _known(expr: ValueExpr, parts: list[Known]) -> Known:
    """What is known of a value by what is known of its arguments."""
    match expr:
        case Idx():
            return Known(free_vars(expr.dim), indexes=True)
        case Ref():
            return Known(varies=True)
        case Load():
            dims = expr.index if expr.count is None else (*expr.index, expr.count)
            return Known(frozenset().union(*map(free_vars, dims)), frozenset({expr.buffer}), varies=True)
        case Op():
            return Known(
                frozenset().union(*[p.vars for p in parts]),
                frozenset().union(*[p.buffers for p in parts]),
                any([p.varies for p in parts]),
                any([p.indexes for p in parts]),
                expr.name == "select" or any([p.chooses for p in parts]),
            )
        case _:
            return _NOTHING
