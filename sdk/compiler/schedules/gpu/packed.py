"""Products with weights in groups, by items: several rows of activations by several panels of weights.

before: ``for p { for m { for l in 0..16 { acc = 0; for records { acc += x[m] * w[p, l] }; o[m, 16*p + l] = acc } } }``
after:  an item for each l, 4 neighbouring m and 2 neighbouring p: words of weights and of activations are read and cut
        into numbers once for all of them. With one row of activations a group divides the records instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sdk.compiler.ir.loops import Block, For, Loops, Store
from sdk.compiler.ir.walk import walk
from sdk.compiler.schedules.gpu.axes import Axis
from sdk.compiler.schedules.gpu.cooperative import Team, cooperative
from sdk.compiler.schedules.gpu.lift import lifted
from sdk.compiler.schedules.gpu.tiles import Item
from sdk.compiler.schedules.gpu.unroll_and_jam import Instance, unroll_and_jam
from sdk.compiler.schedules.group_words import in_words
from sdk.compiler.schedules.locate import ScheduleError

__all__ = ["packed_rows", "packed_tile"]

MAX_STORES: Final = 400  # statements of a tile: drivers take long to compile more, and have no registers for them


def packed_tile(
    loops: Loops, chain: Sequence[For], inner: Block, rows: int, panels: int, aligned: frozenset[str] = frozenset()
) -> Item:
    """``rows`` of activations by ``panels``, or fewer where blocks are large, as the work of an item. Parameters that
    are ``aligned`` begin at multiples of 16 bytes.

    Iterations of ``chain`` must be independent.

    Raises:
        ScheduleError: the nest is not what ``group_words`` makes.
    """
    if not in_words(loops) or not 2 <= len(chain) <= 3:
        raise ScheduleError(f"{loops.name} is no product with weights in words")
    written = sum(isinstance(n, Store) for n in walk(inner))
    while rows * panels * written > MAX_STORES and rows * panels > 1:
        rows, panels = (rows, panels // 2) if panels > 1 else (rows // 2, panels)
    panel, *tokens, lane = chain
    axes = [Axis.of((panel,), 1, panels), *(Axis.of((loop,), 1, rows) for loop in tokens)]
    places: list[tuple[int, ...]] = [()]
    for axis in axes:
        places = [(*at, k) for at in places for k in range(axis.each)]
    instances = []
    for number, place in enumerate(places):
        at = [axis.start + k for axis, k in zip(axes, place, strict=True)]
        env = {v: d for axis, here in zip(axes, at, strict=True) for v, d in axis.env(here).items()}
        checks = tuple(c for axis, here, k in zip(axes, at, place, strict=True) if k for c in axis.checks(here))
        instances.append(Instance(env, f"_{number}" if number else "", checks))
    outs = frozenset(p.buffer.name for p in loops.params if p.mode != "read")
    work = lifted(loops, unroll_and_jam(inner, instances, outs), aligned)
    return Item((*(axis.loop for axis in axes), lane), work)


def packed_rows(
    loops: Loops, chain: Sequence[For], inner: Block, team: Team, aligned: frozenset[str] = frozenset()
) -> Item:
    """A panel as the work of a group, whose items divide the records of each row of weights.

    Iterations of ``chain`` must be independent.

    Raises:
        ScheduleError: the nest is not what ``group_words`` makes, or rows are too short to divide them.
    """
    if not in_words(loops):
        raise ScheduleError(f"{loops.name} is no product with weights in words")
    item = cooperative(loops, chain, inner, team)
    return replace(item, body=lifted(loops, item.body, aligned), flat=True)
