"""A schedule as text: a trace of primitives with named integer knobs, recorded while applied and replayable."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Concatenate, Final, ParamSpec

from sdk.compiler.ir.loops import Loops
from sdk.compiler.schedules.blocks import block, cascade, overlap, round_up
from sdk.compiler.schedules.halves import use_halves, widen
from sdk.compiler.schedules.interleave import interleave
from sdk.compiler.schedules.jam import jam, tile
from sdk.compiler.schedules.join import join, unpack
from sdk.compiler.schedules.lanes import accumulate, strip
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.schedules.pack import pack, pad
from sdk.compiler.schedules.pairs import flatten, use_crossed, use_i16, use_pairs
from sdk.compiler.schedules.partial import partial
from sdk.compiler.schedules.reshape_loops import bind, fuse, parallel, peel, reorder, split, unroll
from sdk.compiler.schedules.set_aside import set_aside
from sdk.compiler.schedules.settle import ends, settle
from sdk.compiler.schedules.share import share
from sdk.compiler.schedules.stage import stage
from sdk.compiler.schedules.stage_region import stage_region
from sdk.compiler.schedules.tensorize import (
    use_dot,
    use_dot_first,
    use_dot_lanes,
    use_fma,
    use_mac_lanes,
    vector_registers,
    vectorize,
)
from sdk.compiler.schedules.transpose import inline, transpose_tile
from sdk.compiler.schedules.two_rows import use_dot_2x2

__all__ = ["PRIMITIVES", "Schedule", "loops_key", "replay"]

Primitive = Callable[..., Loops]
PRIMITIVES: Final[Mapping[str, Primitive]] = {
    fn.__name__: fn
    for fn in (
        accumulate,
        bind,
        block,
        cascade,
        ends,
        flatten,
        fuse,
        inline,
        jam,
        join,
        overlap,
        pack,
        pad,
        parallel,
        partial,
        peel,
        reorder,
        round_up,
        set_aside,
        share,
        split,
        settle,
        stage,
        strip,
        tile,
        transpose_tile,
        stage_region,
        interleave,
        unpack,
        unroll,
        use_crossed,
        use_dot,
        use_dot_first,
        use_dot_2x2,
        use_dot_lanes,
        use_fma,
        use_halves,
        use_i16,
        use_mac_lanes,
        use_pairs,
        vector_registers,
        vectorize,
        widen,
    )
}
Arg = str | int | list[str]
P = ParamSpec("P")


class Schedule:
    """Applies primitives one after another and records them; integers given as knob names are looked up."""

    def __init__(self, loops: Loops, **knobs: int) -> None:
        self.loops = loops
        self.knobs = knobs
        self.steps: list[str] = []

    def do(self, primitive: str, *args: Arg) -> Schedule:
        """Applies a primitive of the table.

        Raises:
            ScheduleError: no such primitive, or its obligation does not hold; nothing is changed then.
        """
        if primitive not in PRIMITIVES:
            raise ScheduleError(f"no schedule primitive {primitive}", hint=f"one of {', '.join(PRIMITIVES)}")
        values = [self._value(a) for a in args]
        self.loops = PRIMITIVES[primitive](self.loops, *values)
        self.steps.append(f"{primitive}({', '.join(_show(a) for a in args)})")
        return self

    def attempt(self, steps: Callable[Concatenate[Schedule, P], object], *args: P.args, **kwargs: P.kwargs) -> bool:
        """Whether ``steps(schedule, ...)`` applies; where it raises a ``ScheduleError``, what it did is taken back."""
        loops, count = self.loops, len(self.steps)
        try:
            steps(self, *args, **kwargs)
        except ScheduleError:
            self.loops = loops
            del self.steps[count:]
            return False
        return True

    def _value(self, arg: Arg) -> Any:
        if isinstance(arg, list):
            return [self.knobs.get(a, a) for a in arg]
        return self.knobs.get(arg, arg) if isinstance(arg, str) else arg

    def done(self) -> Loops:
        """The scheduled loops carrying their trace."""
        knobs = " ".join(f"{k}={v}" for k, v in self.knobs.items())
        return replace(self.loops, trace="; ".join([knobs, *self.steps]))


def _show(arg: Arg) -> str:
    return f"[{' '.join(arg)}]" if isinstance(arg, list) else str(arg)


def replay(loops: Loops, trace: str) -> Loops:
    """Applies a recorded trace to the loops it was made for.

    Raises:
        ScheduleError: the text is not a trace, or a step does not apply.
    """
    head, *steps = trace.split("; ")
    knobs = dict(re.findall(r"(\w+)=(\d+)", head))
    schedule = Schedule(loops, **{k: int(v) for k, v in knobs.items()})
    for step in steps:
        match = re.fullmatch(r"(\w+)\((.*)\)", step)
        if match is None:
            raise ScheduleError(f"not a step of a schedule: {step!r}")
        args: list[Arg] = []
        for text in re.findall(r"\[[^\]]*\]|[^,\s]+", match[2]):
            if text.startswith("["):
                args.append(text[1:-1].split())
            else:
                args.append(int(text) if re.fullmatch(r"-?\d+", text) else text)
        schedule.do(match[1], *args)
    return schedule.done()


def loops_key(loops: Loops) -> str:
    """What a trace is kept under: a hash of the function without its name and trace."""
    return hashlib.sha256(repr(replace(loops, name="", trace="")).encode()).hexdigest()[:16]
