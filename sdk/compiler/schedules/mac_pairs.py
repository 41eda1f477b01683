"""Products of single elements with halves of words of a parameter: registers that hold two weights each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product

from sdk.compiler.ir.intrinsics import imm
from sdk.compiler.ir.layout import Pad
from sdk.compiler.ir.loops import For, Load, Loops, Op, Stmt, Store
from sdk.compiler.ir.types import I8, I16, I32, U8
from sdk.compiler.ir.walk import substitute_dims, walk
from sdk.compiler.schedules.locate import Loop, ScheduleError, replace_loop
from sdk.compiler.schedules.pack import stored_as
from sdk.compiler.schedules.tensorize import factors_of
from sdk.compiler.sym import Dim, Var, free_vars, substitute

__all__ = ["use_mac_pairs"]

_PAIR = I16.with_lanes(2)
_Place = Mapping[Var, Dim]


def use_mac_pairs(loops: Loops, taps: Sequence[Loop], param: str) -> Loops:
    """Writes the loops ``taps`` out, innermost last; what they multiply by is read two elements at a time.

    rewrite: ``for k in 0..3 { c = c + x[k]*w[k] }`` -->
    ``c = mac_pair(c, splat(x[0]), w[0:2], 0, 0); c = mac_pair(c, splat(x[1]), w[0:2], 0, 1);
    c = mac_pair(c, splat(x[2]), w[2:4], 0, 0)`` with a 0 at the end of each row of the parameter.
    obligation: the loops run from 0 to numbers, two iterations or more in all, each alone in the one around it, around
    one multiply-accumulate of an 8-bit or 16-bit integer and the parameter, of 16 bits, packed, of which they read a
    row from its first element to its last, and nothing else does; the sum does not vary.
    """
    step = f"use_mac_pairs([{' '.join(taps)}], {param})"

    def one(loop: For) -> tuple[Stmt, ...]:
        chain = _chain(loop, taps, step)
        store, x, w = _factors(chain[-1], param, step)
        if any({loop.var for loop in chain} & free_vars(d) for d in store.index):
            raise ScheduleError(f"{step}: the sum varies")
        places = _places(chain)
        row = _row(w, places, loops.param(param).buffer.shape[-1], step)
        acc = Load(store.buffer, store.index, I32)
        out = []
        for k, place in enumerate(places):
            element = Op("broadcast", (Op("cast", (substitute_dims(x, place),), I16),), _PAIR)
            pair = Load(param, (*row, k - k % 2), _PAIR)
            value = Op("mac_pair", (acc, element, pair, imm(0), imm(k % 2)), I32)
            out.append(Store(store.buffer, store.index, value))
        return tuple(out)

    if param not in loops.layouts:
        raise ScheduleError(f"{step}: the parameter is not packed")
    done = replace_loop(loops, taps[0], one)
    if any(isinstance(n, Load) and n.buffer == param and n.dtype != _PAIR for n in walk(done.body)):
        raise ScheduleError(f"{step}: the parameter is read elsewhere too")
    columns = loops.param(param).buffer.shape[-1]
    if isinstance(columns, int) and columns % 2 == 0:
        return done
    return stored_as(done, param, Pad(len(loops.param(param).buffer.shape) - 1, 2))


def _chain(loop: For, taps: Sequence[Loop], step: str) -> list[For]:
    """The loops ``taps``."""
    chain = [loop]
    for tap in taps[1:]:
        child = chain[-1].body.body[0]
        if len(chain[-1].body.body) != 1 or not isinstance(child, For) or child.var.name != tap:
            raise ScheduleError(f"{step}: {tap} is not alone inside {chain[-1].var.name}")
        chain.append(child)
    counts = [loop.hi for loop in chain if isinstance(loop.hi, int)]
    if len(counts) < len(chain) or any(loop.lo != 0 or loop.until is not None for loop in chain):
        raise ScheduleError(f"{step}: the loops must run from 0 to numbers")
    if math.prod(counts) < 2 or len(chain[-1].body.body) != 1:
        raise ScheduleError(f"{step}: they hold one product in all, or more than one each time")
    return chain


def _factors(loop: For, param: str, step: str) -> tuple[Store, Load, Load]:
    """The multiply-accumulate: its element and that of the parameter."""
    store, first, second = factors_of(loop.body.body[0])
    x, w = (second, first) if isinstance(first, Load) and first.buffer == param else (first, second)
    if not isinstance(x, Load) or not isinstance(w, Load) or w.buffer != param:
        raise ScheduleError(f"{step}: its factors are no elements, or none of the parameter")
    if w.dtype != I16 or x.dtype not in (I8, U8, I16) or store.value.dtype != I32:
        raise ScheduleError(f"{step}: its factors are {x.dtype} and {w.dtype}")
    return store, x, w


def _places(chain: Sequence[For]) -> list[_Place]:
    """The values of the variables of a chain of loops, in order."""
    ranges = (range(loop.hi) for loop in chain if isinstance(loop.hi, int))
    return [dict(zip((loop.var for loop in chain), values, strict=True)) for values in product(*ranges)]


def _row(load: Load, places: Sequence[_Place], columns: Dim, step: str) -> tuple[Dim, ...]:
    """Which row of ``columns`` elements a load reads, place by place.

    Raises:
        ScheduleError: it reads something else.
    """
    reads = [tuple(substitute(d, dict(place)) for d in load.index) for place in places]
    if len(reads) != columns or any((*reads[0][:-1], k) != read for k, read in enumerate(reads)):
        raise ScheduleError(f"{step}: {load.buffer} is not read by rows")
    return reads[0][:-1]
