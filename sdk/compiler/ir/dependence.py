"""Which loops have independent iterations: the proof that interpreter, reorder, jam, vectorize and parallel share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sdk.compiler.ir.loops import Alloc, Atomic, Barrier, Eval, For, Load, Loops, Store
from sdk.compiler.ir.walk import walk
from sdk.compiler.sym import Dim, Var, free_vars, interval, substitute

__all__ = ["Access", "accesses", "conflict", "linear", "shapes_of"]


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


Shapes = Mapping[str, tuple[Dim, ...]]


def shapes_of(loops: Loops) -> dict[str, tuple[Dim, ...]]:
    """The shape of every parameter of ``loops`` that is stored densely."""
    return {p.buffer.name: p.buffer.shape for p in loops.params if p.buffer.ring is None}


def conflict(loop: For, shapes: Shapes | None = None) -> str | None:
    """Why two iterations of ``loop`` may depend on each other, or None when they are proved independent.

    ``shapes`` of dense buffers let elements be told apart by their offset where no single axis does.
    """
    var, body = loop.var, loop.body
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
        if shapes is not None and name in shapes:
            mine = [replace(a, index=(*a.index, _flat(a.index, shapes[name]))) for a in mine]
        if not any(_separated(mine, axis, var, other) for axis in range(len(mine[0].index))):
            return f"iterations of {var.name} may touch the same element of {name}"
    return None


def _flat(index: tuple[Dim, ...], shape: tuple[Dim, ...]) -> Dim:
    out: Dim = 0
    for at, size in zip(index, shape, strict=True):
        out = out * size + at
    return out


def _separated(items: list[Access], axis: int, var: Var, other: dict[Var, Dim]) -> bool:
    """Whether on ``axis`` no store at one value of var meets an access at another value."""
    lanes_run = items[0].index[axis:]  # lanes run along the last axis, and along the flat offset after it
    for store in (a for a in items if a.store):
        for access in items:
            if len(store.index) != len(access.index):
                return False
            one = linear(store.index[axis], var)
            two = linear(substitute(access.index[axis], other), var)
            if one is None or two is None or one[0] != two[0] or one[0] == 0:
                return False
            lo, hi = interval(one[1] - two[1])
            before = store.lanes - 1 if len(lanes_run) <= 2 else 0
            after = access.lanes - 1 if len(lanes_run) <= 2 else 0
            if lo is None or hi is None or lo - after <= -abs(one[0]) or hi + before >= abs(one[0]):
                return False
    return True
