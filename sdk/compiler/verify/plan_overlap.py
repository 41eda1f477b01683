"""Whether one call may write a result over bytes of an input that lie elsewhere: no byte is written before its last
read, by looking at every element that any statement touches, in the order in which statements run."""

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
Path = tuple[int | For, ...]  # places in blocks, and the loops between, from the outermost
MAX_ELEMENTS: Final = 1 << 21  # elements that one access touches
DIGITS: Final = 1 << 40  # above which ranks are counted anew


def reads_come_first(function: Loops, out: str, source: str, shift: int) -> bool:
    """Whether a call for all rows reads every byte of ``source`` for the last time before it writes it: the first byte
    of ``out`` lies ``shift`` bytes behind that of ``source`` (parameter names). A statement reads before it writes.

    False where iterations may run at once, where sizes are no numbers, or compilers may exchange the accesses.
    """
    to, of = function.param(out).buffer, function.param(source).buffer
    width = of.dtype.nbytes
    alike = to.dtype == of.dtype or to.dtype.nbytes == width == 1
    if not alike or shift % width or function.dims or any(b.ring is not None or b.dtype.lanes > 1 for b in (to, of)):
        return False
    if any(not isinstance(d, int) for b in (to, of) for d in b.shape) or not _in_turn(function.body):
        return False
    env: Env = {}
    if function.rows is not None:
        if not isinstance(function.rows.extent, int):
            return False
        env = {function.rows.lo: np.zeros(1, np.int64), function.rows.hi: np.array([function.rows.extent])}
    reads: list[_Elements] = []
    writes: list[_Elements] = []
    for node, path in _accesses(function.body, ()):
        if node.buffer == source or (node.buffer == out and isinstance(node, Store)):
            found = _elements(node, of if node.buffer == source else to, path, env)
            if found is None:
                return False
            (reads if node.buffer == source else writes).append(found)
    return _in_order(reads, writes, shift // width)


def _in_turn(body: Block) -> bool:
    """Whether statements and iterations run one after the other, each as often as the bounds say."""
    for node in walk(body):
        if isinstance(node, Atomic | Eval):
            return False
        if isinstance(node, For) and (node.kind not in ("serial", "unroll") or node.until is not None):
            return False
    return True


@dataclass(frozen=True)
class _Elements:
    """Flat elements, and when each is touched: digits of a number, the first being the most."""

    at: Ints
    time: tuple[Ints, ...]


def _accesses(stmt: Stmt, path: Path) -> Iterator[tuple[Load | Store, Path]]:
    match stmt:
        case Block():
            for k, inner in enumerate(stmt.body):
                yield from _accesses(inner, (*path, k))
        case For():
            yield from _accesses(stmt.body, (*path, stmt))
        case If():
            yield from ((n, (*path, 0)) for n in walk(stmt.cond) if isinstance(n, Load))
            for k, arm in enumerate((stmt.then, stmt.orelse), 1):
                if arm is not None:
                    yield from _accesses(arm, (*path, k))
        case _:
            yield from ((n, path) for n in walk(stmt) if isinstance(n, Load | Store))


def _elements(node: Load | Store, buffer: Buffer, path: Path, given: Mapping[Var, Ints]) -> _Elements | None:
    """Every element that an access touches in any iteration; None where they are too many or not known. Loops that
    do not move it count as in their last iteration if it reads, in their first if it writes."""
    loops = [step for step in path if isinstance(step, For)]
    needed = {v for d in node.index for v in free_vars(d)}
    for loop in reversed(loops):
        if loop.var in needed:
            needed |= free_vars(loop.lo) | free_vars(loop.hi)
    env = _iterations([loop for loop in loops if loop.var in needed], given)
    if env is None or not needed <= env.keys():
        return None
    count = max([1, *(a.size for a in env.values())]) if all(a.size for a in env.values()) else 0
    flat, inside = np.zeros(count, np.int64), np.ones(count, dtype=bool)
    for dim, extent in zip(node.index, buffer.type.static_shape, strict=True):
        at = _spread(dim, env, count)
        inside &= (at >= 0) & (at < extent)  # what lies outside is behind a condition and does not happen
        flat = flat * extent + at
    lanes = node.dtype.lanes if isinstance(node, Load) else node.value.dtype.lanes
    kept = np.flatnonzero(inside)
    if kept.size * lanes > MAX_ELEMENTS:
        return None
    time: list[Ints] = []
    for step in path:
        digit: Dim
        if isinstance(step, int):
            digit = step
        elif step.var in needed:
            digit = step.var.expr
        else:
            digit = step.var.hi if isinstance(node, Load) else step.var.lo
        time.append(np.repeat(_spread(digit, env, count)[kept], lanes))
    return _Elements((flat[kept][:, None] + np.arange(lanes)).reshape(-1), tuple(time))


def _iterations(loops: Sequence[For], given: Mapping[Var, Ints]) -> Env | None:
    """The values that loop variables have together, for each iteration; None where there are too many."""
    env, count = dict(given), 1
    for loop in loops:
        lo, hi = (_spread(d, env, count) for d in (loop.lo, loop.hi))
        times = np.maximum(hi - lo, 0)
        total = int(times.sum())
        if total > MAX_ELEMENTS:
            return None
        who = np.repeat(np.arange(count), times)
        begin = np.cumsum(times) - times
        env = {v: a if v in given else a[who] for v, a in env.items()}
        env[loop.var] = lo[who] + np.arange(total) - begin[who]
        count = total
    return env


def _spread(dim: Dim, env: Mapping[Var, Ints], count: int) -> Ints:
    return np.broadcast_to(np.asarray(evaluate_grid(dim, dict(env)), dtype=np.int64).reshape(-1), (count,))


def _in_order(reads: Sequence[_Elements], writes: Sequence[_Elements], shift: int) -> bool:
    """Whether no element, ``shift`` further on in what is read, is written before its last read."""
    if not reads or not writes:
        return True
    read = np.concatenate([e.at for e in reads])
    written = np.concatenate([e.at for e in writes]) + shift
    rank = _ranks([e.time for e in (*reads, *writes)], [e.at.size for e in (*reads, *writes)])
    low = min(int(read.min(initial=0)), int(written.min(initial=0)))
    size = max(int(read.max(initial=0)), int(written.max(initial=0))) - low + 1
    last = np.full(size, -1, np.int64)
    np.maximum.at(last, read - low, rank[: len(read)])
    first = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(first, written - low, rank[len(read) :])
    return bool((last <= first).all())


def _ranks(times: Sequence[tuple[Ints, ...]], sizes: Sequence[int]) -> Ints:
    """Numbers in the order of times, some of which have fewer digits: those differ from others before they end."""
    rank, span = np.zeros(sum(sizes), np.int64), 1
    for k in range(max(map(len, times))):
        parts = [t[k] if k < len(t) else np.zeros(n, np.int64) for t, n in zip(times, sizes, strict=True)]
        digit = np.concatenate(parts)
        minimum = int(digit.min(initial=0))
        base = int(digit.max(initial=0)) - minimum + 1
        if span * base > DIGITS:
            rank = np.unique(rank, return_inverse=True)[1].reshape(-1)
            span = int(rank.max(initial=0)) + 1
        rank, span = rank * base + digit - minimum, span * base
    return rank
