"""Default rules: which schedule a loops function gets on a core with given capabilities. No tuning, no search."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from typing import Final

from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.pattern import Contraction, Kind, classify
from sdk.compiler.ir.types import F32, I8, I16
from sdk.compiler.schedules.locate import ScheduleError
from sdk.compiler.schedules.rules.candidates import Choice, candidates_for
from sdk.compiler.schedules.rules.contraction import float_contraction
from sdk.compiler.schedules.rules.contraction_scalar import contraction_registers
from sdk.compiler.schedules.rules.cores import CORES, Core, core_for
from sdk.compiler.schedules.rules.elementwise import elementwise
from sdk.compiler.schedules.rules.integer import integer_contraction
from sdk.compiler.schedules.rules.integer16 import halves_contraction
from sdk.compiler.schedules.rules.integer_mve import contraction_across, window_quads
from sdk.compiler.schedules.rules.integer_rows import integer_rows
from sdk.compiler.schedules.rules.integer_scalar import integer_registers
from sdk.compiler.schedules.rules.integer_window import integer_window
from sdk.compiler.schedules.rules.joined import Known
from sdk.compiler.schedules.rules.nest import work
from sdk.compiler.schedules.rules.reduction import columns, rows
from sdk.compiler.schedules.rules.transform import transform
from sdk.compiler.schedules.rules.window import window
from sdk.compiler.schedules.rules.window_scalar import window_registers

__all__ = ["CORES", "Core", "alternatives", "core_for", "schedule"]

SMALL_WORK: Final = 4096  # multiply-accumulates below which the plain nest is kept: code size counts more
SMALL_SHARED: Final = 1024  # the same on cores where layers share kernels, and hot loops are short


def schedule(
    loops: Loops,
    core: Core,
    packable: Iterable[str] | None = None,
    threads: int = 1,
    even: Iterable[str] = (),
    known: Known | None = None,
) -> Loops:
    """``loops`` scheduled for ``core``; as it is where no rule helps, or where an obligation of one does not hold
    (symbolic extents, operands laid out otherwise): the plain nest is always right. ``packable`` are the
    parameters that are constants at every call (None: all), ``even`` those of them that are int8 and never -128;
    ``known`` what they hold; ``threads`` may share a call."""
    try:
        return _schedule(loops, core, packable, threads, frozenset(even), known or {})
    except ScheduleError:
        return loops


def alternatives(
    loops: Loops,
    first: Loops,
    core: Core,
    packable: Iterable[str] | None = None,
    threads: int = 1,
    even: Iterable[str] = (),
    known: Known | None = None,
) -> Iterator[tuple[Choice, Loops]]:
    """The candidates for ``loops`` on a core beside ``first``, what ``schedule`` makes of it, each schedule once. Those
    that a rule refuses are left out, and those with an operand packed that is not of ``packable``. Only products of
    bytes have any."""
    pattern = classify(loops)
    if first is loops or pattern.product is None or loops.param(pattern.product.a).buffer.dtype.bits != 8:
        return
    given = None if packable is None else frozenset(packable)
    seen = {_work(first)}
    for choice in candidates_for(core.name, pattern.kind)[1:]:
        try:
            made = _schedule(loops, core.choosing(choice), given, threads, frozenset(even), known or {})
        except ScheduleError:
            continue
        packed = given is None or made.layouts.keys() <= given
        if made is not loops and packed and _work(made) not in seen:
            seen.add(_work(made))
            yield choice, made


def _work(loops: Loops) -> Hashable:
    """What two schedules that are the same have alike."""
    return loops.params, loops.body


def _schedule(
    loops: Loops, core: Core, packable: Iterable[str] | None, threads: int, even: frozenset[str], known: Known
) -> Loops:
    pattern = classify(loops)
    part = pattern.product
    if part is not None and pattern.kind == "contraction" and loops.param(part.b).buffer.dtype == F32:
        if work(part) < SMALL_WORK:
            return loops
        if core.floats.lanes == 1:
            return contraction_registers(loops, part, core.floats, packable is None or part.b in packable)
        return float_contraction(loops, part, core.floats, packable, threads)
    if part is not None and pattern.kind == "window" and _single_floats(loops, part, core):
        with suppress(ScheduleError):
            return window_registers(loops, part, core.floats, packable is None or part.b in packable)
    bytewise = part is not None and loops.param(part.a).buffer.dtype.bits == 8
    if part is not None and bytewise and core.across and pattern.kind == "window":
        return window_quads(loops, part, core)
    shared = core.lanes == 1 and core.dot == 4
    if part is not None and bytewise and work(part) >= (SMALL_SHARED if shared else SMALL_WORK):
        if pattern.kind == "contraction" and core.across:
            return contraction_across(loops, part, core)
        if pattern.kind == "contraction" and core.lanes == core.dot == 1 and core.tile_cols > 1:
            return integer_registers(loops, part, core, even)
        if pattern.kind == "contraction" and core.lanes == 1 and core.dot == 4:
            if core.choice.variant == "rows":
                return integer_rows(loops, part, core.choice)
            if core.choice.variant is None:
                with suppress(ScheduleError):  # of many channels, or of no neighbouring windows
                    return integer_rows(loops, part, core.choice)
        if pattern.kind == "contraction":
            return integer_contraction(loops, part, core, known)
        if pattern.kind == "window":
            return integer_window(loops, part, core)
    if part is not None and _halves(loops, part) and core.lanes == 1:
        if pattern.kind == "contraction" and core.dot == 4:
            with suppress(ScheduleError):
                return integer_rows(loops, part)
            return halves_contraction(loops, part, core.tile_rows, core.compact)
        if pattern.kind == "contraction" and core.tile_cols > 1:
            return integer_registers(loops, part, core, frozenset())
        if pattern.kind == "window":
            return integer_window(loops, part, core)
    return _vectors(loops, pattern.kind, core)


def _single_floats(loops: Loops, part: Contraction, core: Core) -> bool:
    """Whether floats are multiplied, often enough, in a unit for one at a time."""
    unit = core.lanes == core.floats.lanes == 1 and core.floats.needs
    return bool(unit) and loops.param(part.b).buffer.dtype == F32 and work(part) >= SMALL_WORK


def _halves(loops: Loops, part: Contraction) -> bool:
    """Whether activations of 16 bits meet weights of 8, often enough."""
    types = (loops.param(part.a).buffer.dtype, loops.param(part.b).buffer.dtype)
    return types == (I16, I8) and work(part) >= SMALL_WORK


def _vectors(loops: Loops, kind: Kind, core: Core) -> Loops:
    """The first rule for lanes that applies."""
    by_kind: dict[Kind, tuple[Callable[[Loops, Core], Loops], ...]] = {
        "elementwise": (elementwise,),
        "injective": (transform, elementwise, rows),
        "window": (window, columns, rows),
        "reduction": (window, columns, rows),
    }
    for rule in by_kind.get(kind, ()):
        try:
            return rule(loops, core)
        except ScheduleError:
            continue
    return loops
