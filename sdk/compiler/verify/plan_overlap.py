"""Whether one call may write a result over bytes of an input that lie elsewhere: each byte is written after its last
read, by looking at every byte that any iteration touches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.loops import Atomic, Block, Buffer, Eval, For, If, Load, Loops, Stmt, Store
from sdk.compiler.ir.walk import walk
from sdk.compiler.sym import Dim, Var, evaluate_grid, free_vars

__all__ = ["reads_come_first"]

Ints = NDArray[np.int64]
Env = dict[Var, Ints]
MOST: Final = 1 << 21  # elements that one access touches


def reads_come_first(function: Loops, out: str, source: str, shift: int) -> bool:
    """Whether a call for all rows reads every byte of ``source`` before an iteration that writes it: the first byte of
    ``out`` lies ``shift`` bytes behind that of ``source`` (parameter names).

    An iteration is one of the innermost loop around all of these accesses; within it the order does not count. False
    where iterations may run at once, where sizes are no numbers, or compilers may exchange the accesses.
    """
    to, of = function.param(out).buffer, function.param(source).buffer
    width = of.dtype.nbytes
    alike = to.dtype == of.dtype or to.dtype.nbytes == width == 1
    if not alike or shift % width or function.dims or any(b.ring is not None or b.dtype.lanes > 1 for b in (to, of)):
        return False
    if any(not isinstance(d, int) for b in (to, of) for d in b.shape):
        return False
    if any(isinstance(n, For) and (n.kind in ("parallel", "bind") or n.until is not None) for n in walk(function.body)):
        return False
    if any(isinstance(n, Atomic | Eval) for n in walk(function.body)):
        return False
    steps, inner = _descend(function.body, {out, source})
    turns = [f.var for f in steps]
    env: Env = {}
    if function.rows is not None:
        if not isinstance(function.rows.extent, int):
            return False
        env = {function.rows.lo: np.zeros(1, np.int64), function.rows.hi: np.array([function.rows.extent])}
    reads: list[_Elements] = []
    writes: list[_Elements] = []
    for node, loops in _accesses(inner, tuple(steps)):
        if node.buffer == source or (node.buffer == out and isinstance(node, Store)):
            found = _elements(node, of if node.buffer == source else to, loops, turns, env)
            if found is None:
                return False
            (writes if node.buffer == out else reads).append(found)
    return _in_order(reads, writes, shift // width)


@dataclass(frozen=True)
class _Elements:
    """Flat elements, and the values that the loops around all accesses have there, outer first."""

    at: Ints
    turns: Ints


def _descend(block: Block, names: set[str]) -> tuple[list[For], Block]:
    """The loops around all accesses to ``names``, and the body of the innermost."""
    steps: list[For] = []
    while True:
        using = [s for s in block.body if _uses(s, names)]
        match using:
            case [For() as loop]:
                steps.append(loop)
                block = loop.body
            case [Block() as only]:
                block = only
            case [If() as choice] if not any(isinstance(n, Load) and n.buffer in names for n in walk(choice.cond)):
                arms = [a for a in (choice.then, choice.orelse) if a is not None and _uses(a, names)]
                if len(arms) > 1:
                    return steps, block
                block = arms[0]
            case _:
                return steps, block


def _uses(stmt: Stmt, names: set[str]) -> bool:
    return any(isinstance(n, Load | Store) and n.buffer in names for n in walk(stmt))


def _accesses(stmt: Stmt, loops: tuple[For, ...]) -> Iterator[tuple[Load | Store, tuple[For, ...]]]:
    match stmt:
        case Block():
            for inner in stmt.body:
                yield from _accesses(inner, loops)
        case For():
            yield from _accesses(stmt.body, (*loops, stmt))
        case If():
            yield from ((n, loops) for n in walk(stmt.cond) if isinstance(n, Load))
            for arm in (stmt.then, stmt.orelse):
                if arm is not None:
                    yield from _accesses(arm, loops)
        case _:
            yield from ((n, loops) for n in walk(stmt) if isinstance(n, Load | Store))


def _elements(
    node: Load | Store, buffer: Buffer, loops: Sequence[For], turns: Sequence[Var], given: Mapping[Var, Ints]
) -> _Elements | None:
    """Every element that an access touches in any iteration; None where they are too many or not known."""
    needed = {v for d in node.index for v in free_vars(d)} | set(turns)
    for loop in reversed(loops):
        if loop.var in needed:
            needed |= free_vars(loop.lo) | free_vars(loop.hi)
    env, count = dict(given), 1
    for loop in loops:
        if loop.var not in needed:
            continue
        lo, hi = (_spread(d, env, count) for d in (loop.lo, loop.hi))
        times = np.maximum(hi - lo, 0)
        if int(times.sum()) > MOST:
            return None
        who = np.repeat(np.arange(count), times)
        begin = np.cumsum(times) - times
        env = {v: a if a.size == 1 else a[who] for v, a in env.items()}
        env[loop.var] = lo[who] + np.arange(len(who)) - begin[who]
        count = len(who)
        if count == 0:
            return _Elements(np.zeros(0, np.int64), np.zeros((len(turns), 0), np.int64))
    if not needed <= env.keys():
        return None
    flat, inside = np.zeros(count, np.int64), np.ones(count, dtype=bool)
    for dim, extent in zip(node.index, buffer.type.static_shape, strict=True):
        at = _spread(dim, env, count)
        inside &= (at >= 0) & (at < extent)  # what lies outside is behind a condition and does not happen
        flat = flat * extent + at
    lanes = node.dtype.lanes if isinstance(node, Load) else node.value.dtype.lanes
    if int(inside.sum()) * lanes > MOST:
        return None
    at = (flat[inside][:, None] + np.arange(lanes)).reshape(-1)
    shape = len(turns), int(inside.sum())
    values = np.array([_spread(v.expr, env, count)[inside] for v in turns], dtype=np.int64).reshape(shape)
    return _Elements(at, np.repeat(values, lanes, axis=1))


def _spread(dim: Dim, env: Mapping[Var, Ints], count: int) -> Ints:
    return np.broadcast_to(np.asarray(evaluate_grid(dim, dict(env)), dtype=np.int64).reshape(-1), (count,))


def _in_order(reads: Sequence[_Elements], writes: Sequence[_Elements], shift: int) -> bool:
    """Whether no element, ``shift`` further on in what is read, is written in the iteration of its last read or
    before."""
    if not reads or not writes:
        return True
    turns = np.concatenate([e.turns for e in (*reads, *writes)], axis=1)
    time = np.zeros(turns.shape[1], np.int64)
    for values in turns:
        least = int(values.min(initial=0))
        time = time * (int(values.max(initial=0)) - least + 1) + values - least
    read = np.concatenate([e.at for e in reads])
    written = np.concatenate([e.at for e in writes]) + shift
    low = min(int(read.min(initial=0)), int(written.min(initial=0)))
    size = max(int(read.max(initial=0)), int(written.max(initial=0))) - low + 1
    last = np.full(size, -1, np.int64)
    np.maximum.at(last, read - low, time[: len(read)])
    first = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(first, written - low, time[len(read) :])
    return bool((last < first).all())
