"""Which loops have independent iterations: the proof that interpreter, reorder, jam, vectorize and parallel share."""

from __future__ import annotations

from dataclasses import replace

from sdk.compiler.analysis.access import Access, accesses
from sdk.compiler.ir.loops import Alloc, Atomic, Barrier, Buffer, Eval, For, Let, Loops
from sdk.compiler.ir.walk import statements
from sdk.compiler.sym import Dim, Var, flat_index, free_vars, interval, linear, substitute

__all__ = ["conflict", "row_axis"]


def conflict(loop: For, within: Loops) -> str | None:
    """Why two iterations of ``loop`` may depend on each other, or None when they are proved independent.

    Elements are told apart by one axis of their index, or by their offset in a dense parameter of ``within``.
    Rows of a ring share slots, so its row axis tells nothing apart.
    """
    if loop.until is not None:
        return f"{loop.var.name} may end early"
    var, body = loop.var, loop.body
    private: set[str] = set()
    scalars: set[str] = set()
    inner: set[Var] = set()
    for item in statements(body):
        match item:
            case Alloc():
                private.add(item.buffer.name)
            case For():
                inner.add(item.var)
            case Let():
                scalars.add(item.name)
            case Barrier() | Eval() | Atomic():
                return f"{type(item).__name__.lower()} orders iterations"
            case _:
                pass
    touched = [a for a in accesses(body) if a.buffer not in private]
    # two iterations run their inner loops and scalars on their own: give one side other variables of the same ranges
    inner |= {v for a in touched for d in a.index for v in free_vars(d) if v.name in scalars}
    other: dict[Var, Dim] = {v: Var(f"{v.name}'", v.lo, v.hi, v.multiple).expr for v in inner}
    buffers = _buffers(within)
    for name in {a.buffer for a in touched if a.kind == "store"}:
        buffer = buffers[name]
        mine = [replace(a, lanes=max(a.lanes // buffer.dtype.lanes, 1)) for a in touched if a.buffer == name]
        axes = [k for k in range(len(mine[0].index)) if buffer.ring is None or k != row_axis(buffer.shape)]
        if any(_spills(a, buffer.shape) for a in mine):
            axes = []  # lanes run on into the next row
        if buffer.ring is None and buffer.space != "register":
            mine = [replace(a, index=(*a.index, flat_index(a.index, buffer.shape))) for a in mine]
            axes.append(len(buffer.shape))
        if not any(_separated(mine, axis, len(buffer.shape), var, other) for axis in axes):
            return f"iterations of {var.name} may touch the same element of {name}"
    return None


def row_axis(shape: tuple[Dim, ...]) -> int:
    """The axis that rows (and rings) count: the first whose extent is not 1."""
    return next((k for k, d in enumerate(shape) if d != 1), 0)


def _buffers(within: Loops) -> dict[str, Buffer]:
    """Every buffer declared in a function, by name."""
    found = {p.buffer.name: p.buffer for p in within.params}
    return found | {n.buffer.name: n.buffer for n in statements(within.body) if isinstance(n, Alloc)}


def _spills(access: Access, shape: tuple[Dim, ...]) -> bool:
    """Whether the lanes of an access may leave its row."""
    if access.lanes == 1 or len(shape) < 2 or len(access.index) != len(shape):
        return False
    room = (interval(shape[-1] - 1 - access.index[-1] - end)[0] for end in access.ends())
    return not any(left is not None and left >= 0 for left in room)


def _separated(items: list[Access], axis: int, rank: int, var: Var, other: dict[Var, Dim]) -> bool:
    """Whether on ``axis`` no store at one value of var meets an access at another value."""
    along = axis >= rank - 1  # lanes run along the last axis, and along the flat offset after it
    for store in (a for a in items if a.kind == "store"):
        for access in items:
            if len(store.index) != len(access.index):
                return False
            one = linear(store.index[axis], var)
            two = linear(substitute(access.index[axis], other), var)
            if one is None or two is None or one[0] != two[0] or one[0] == 0:
                return False
            apart = one[1] - two[1]
            before = store.ends() if along else (0,)
            after = tuple(substitute(d, other) for d in access.ends()) if along else (0,)
            lows = [lo for d in after if (lo := interval(apart - d)[0]) is not None]
            highs = [hi for d in before if (hi := interval(apart + d)[1]) is not None]
            if not lows or not highs or max(lows) <= -abs(one[0]) or min(highs) >= abs(one[0]):
                return False
    return True
