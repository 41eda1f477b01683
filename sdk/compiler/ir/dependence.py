"""Which loops have independent iterations: the proof that interpreter, reorder, jam, vectorize and parallel share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sdk.compiler.ir.loops import Alloc, Atomic, Barrier, Block, Eval, For, Load, Stmt, Store
from sdk.compiler.ir.walk import walk
from sdk.compiler.sym import Dim, Var, free_vars, interval, substitute

__all__ = ["Access", "accesses", "conflict", "linear"]


@dataclass(frozen=True, slots=True)
class Access:
    """One element range a statement touches: ``lanes`` consecutive elements from ``index``."""

    buffer: str
    index: tuple[Dim, ...]
    lanes: int
    store: bool


def linear(dim: Dim, var: Var) -> tuple[int, Dim] | None:
    """``(c, rest)`` with ``dim == c*var + rest`` and rest free of var, or None."""
    if isinstance(dim, int) or var not in free_vars(dim):
        return 0, dim
    for term, coeff in dim.terms:
        if term == ((var, 1),):
            rest = dim - coeff * var.expr
            return (coeff, rest) if var not in free_vars(rest) else None
    return None


def accesses(node: object) -> Iterator[Access]:
    """Every load and store below ``node``."""
    for item in walk(node):
        if isinstance(item, Load):
            yield Access(item.buffer, item.index, item.dtype.lanes, False)
        elif isinstance(item, Store):
            yield Access(item.buffer, item.index, item.value.dtype.lanes, True)


def conflict(loop: For) -> str | None:
    """Why two iterations of ``loop`` may depend on each other, or None when they are proved independent."""
    return conflict_of(loop.var, (loop.body,))


def conflict_of(var: Var, body: tuple[Stmt, ...] | tuple[Block, ...]) -> str | None:
    """The same for statements executed once per value of ``var``."""
    private: set[str] = set()
    inner: set[Var] = set()
    for item in walk(body):
        match item:
            case Alloc():
                private.add(item.buffer.name)
            case For():
                inner.add(item.var)
            case Barrier() | Eval() | Atomic():
                return f"{type(item).__name__.lower()} orders iterations"
            case _:
                pass
    touched = [a for a in accesses(body) if a.buffer not in private]
    # two iterations run their inner loops on their own: give one side other variables of the same ranges
    other: dict[Var, Dim] = {v: Var(f"{v.name}'", v.lo, v.hi, v.multiple).expr for v in inner}
    for name in {a.buffer for a in touched if a.store}:
        mine = [a for a in touched if a.buffer == name]
        if not any(_separated(mine, axis, var, other) for axis in range(len(mine[0].index))):
            return f"iterations of {var.name} may touch the same element of {name}"
    return None


def _separated(items: list[Access], axis: int, var: Var, other: dict[Var, Dim]) -> bool:
    """Whether on ``axis`` no store at one value of var meets an access at another value."""
    last = axis == len(items[0].index) - 1
    for store in (a for a in items if a.store):
        for access in items:
            if len(store.index) != len(access.index):
                return False
            one = linear(store.index[axis], var)
            two = linear(substitute(access.index[axis], other), var)
            if one is None or two is None or one[0] != two[0] or one[0] == 0:
                return False
            lo, hi = interval(one[1] - two[1])
            before = store.lanes - 1 if last else 0
            after = access.lanes - 1 if last else 0
            if lo is None or hi is None or lo - after <= -abs(one[0]) or hi + before >= abs(one[0]):
                return False
    return True


def as_linear_vars(dim: Dim) -> bool:
    """Whether ``dim`` is a sum of integer multiples of single variables."""
    return isinstance(dim, int) or (
        all(len(t) == 1 and t[0][1] == 1 and isinstance(t[0][0], Var) for t, _ in dim.terms)
    )
