"""A schedule: primitives applied one after another and recorded, as a text that can be applied again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, overload

from sdk.compiler.ir.loops import Loops
from sdk.compiler.schedules import (
    attention_lanes,
    bind_rows,
    blocks,
    cache_read,
    conditions,
    dual_mac,
    fission,
    group_panels,
    group_rows,
    group_words,
    interleave,
    interleave_channels,
    lanes,
    line_buffer,
    mac_pairs,
    pack,
    partial,
    reshape_loops,
    shift_sums,
    swar,
    tensorize,
    transpose,
    two_rows,
    unroll_and_jam,
)
from sdk.compiler.schedules.locate import ScheduleError

__all__ = ["PRIMITIVES", "Arg", "Schedule", "loops_key", "replay"]

PRIMITIVES: Final[dict[str, Callable[..., Any]]] = {}
Arg = str | int | Sequence[Any]
P = ParamSpec("P")
R = TypeVar("R")


@overload
def _step(primitive: Callable[Concatenate[Loops, P], Loops]) -> Callable[Concatenate[Schedule, P], Schedule]: ...
@overload
def _step(primitive: Callable[Concatenate[Loops, P], tuple[Loops, R]]) -> Callable[Concatenate[Schedule, P], R]: ...
def _step(primitive: Callable[..., Any]) -> Any:
    """A primitive as a step of a schedule: what it makes beside the loops is given back, or the schedule."""
    name = primitive.__name__
    PRIMITIVES[name] = primitive
    return lambda schedule, *args: schedule.do(name, *args)


class Schedule:
    """Applies primitives one after another and records them; a ``ScheduleError`` of one leaves all as it was."""

    def __init__(self, loops: Loops) -> None:
        self.loops = loops
        self.steps: list[str] = []

    attention_lanes = _step(attention_lanes.attention_lanes)
    bind_rows = _step(bind_rows.bind_rows)
    block = _step(blocks.block)
    tile_tails = _step(blocks.tile_tails)
    cyclic = _step(blocks.cyclic)
    overlap = _step(blocks.overlap)
    pad_loop = _step(blocks.pad_loop)
    cache_read = _step(cache_read.cache_read)
    partition = _step(conditions.partition)
    simplify_conditions = _step(conditions.simplify_conditions)
    flatten = _step(dual_mac.flatten)
    use_dual_mac = _step(dual_mac.use_dual_mac)
    use_i16 = _step(dual_mac.use_i16)
    use_interleaved_dot = _step(dual_mac.use_interleaved_dot)
    fission = _step(fission.fission)
    group_panels = _step(group_panels.group_panels)
    group_rows = _step(group_rows.group_rows)
    group_words = _step(group_words.group_words)
    interleave = _step(interleave.interleave)
    unpack = _step(interleave_channels.unpack)
    interleave_channels = _step(interleave_channels.interleave_channels)
    accumulate = _step(lanes.accumulate)
    strip = _step(lanes.strip)
    line_buffer = _step(line_buffer.line_buffer)
    use_mac_pairs = _step(mac_pairs.use_mac_pairs)
    pad = _step(pack.pad)
    pack = _step(pack.pack)
    partial = _step(partial.partial)
    bind = _step(reshape_loops.bind)
    fuse = _step(reshape_loops.fuse)
    reorder = _step(reshape_loops.reorder)
    split = _step(reshape_loops.split)
    unroll = _step(reshape_loops.unroll)
    shift_sums = _step(shift_sums.shift_sums)
    use_swar = _step(swar.use_swar)
    widen = _step(swar.widen)
    use_dot = _step(tensorize.use_dot)
    use_dot_first = _step(tensorize.use_dot_first)
    use_dot_lanes = _step(tensorize.use_dot_lanes)
    use_dot_2x2 = _step(two_rows.use_dot_2x2)
    use_fma = _step(tensorize.use_fma)
    use_mac_lanes = _step(tensorize.use_mac_lanes)
    vector_registers = _step(tensorize.vector_registers)
    vectorize = _step(tensorize.vectorize)
    inline = _step(transpose.inline)
    transpose_tile = _step(transpose.transpose_tile)
    tile = _step(unroll_and_jam.tile)
    unroll_and_jam = _step(unroll_and_jam.unroll_and_jam)

    def do(self, primitive: str, *args: Arg) -> Any:
        """Applies a primitive of the table by its name.

        Raises:
            ScheduleError: no such primitive, or its obligation does not hold; nothing is changed then.
        """
        if primitive not in PRIMITIVES:
            raise ScheduleError(f"no schedule primitive {primitive}", hint=f"one of {', '.join(PRIMITIVES)}")
        done = PRIMITIVES[primitive](self.loops, *args)
        self.loops, made = done if isinstance(done, tuple) else (done, self)
        self.steps.append(f"{primitive}({', '.join(map(_show, args))})")
        return made

    def attempt(self, steps: Callable[Concatenate[Schedule, P], R], *args: P.args, **kwargs: P.kwargs) -> R | None:
        """What ``steps(schedule, ...)`` returns; where it raises a ``ScheduleError``, None, and what it did is taken
        back."""
        loops, count = self.loops, len(self.steps)
        try:
            return steps(self, *args, **kwargs)
        except ScheduleError:
            self.loops = loops
            del self.steps[count:]
            return None

    def done(self) -> Loops:
        """The scheduled loops carrying their trace."""
        return replace(self.loops, trace="; ".join(self.steps))


def _show(arg: Arg) -> str:
    return str(arg) if isinstance(arg, str | int) else f"[{' '.join(map(str, arg))}]"


def _read(text: str) -> Arg:
    if text.startswith("["):
        return [_read(part) for part in text[1:-1].split()]
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def replay(loops: Loops, trace: str) -> Loops:
    """Applies a recorded trace to the loops it was made for.

    Raises:
        ScheduleError: the text is not a trace, or a step does not apply.
    """
    schedule = Schedule(loops)
    for step in trace.split("; "):
        match = re.fullmatch(r"(\w+)\((.*)\)", step)
        if match is None:
            raise ScheduleError(f"not a step of a schedule: {step!r}")
        schedule.do(match[1], *map(_read, re.findall(r"\[[^\]]*\]|[^,\s]+", match[2])))
    return schedule.done()


def loops_key(loops: Loops) -> str:
    """What a trace is kept under: a hash of the function without its name and trace."""
    return hashlib.sha256(repr(replace(loops, name="", trace="")).encode()).hexdigest()[:16]
