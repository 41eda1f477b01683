"""Translation validation: each statement of assembly is executed beside the statements that it stands for.

The instructions run in an interpreter of their own on the operands that are printed, the statements in that of the
loops level, from the same random state; registers and all of memory must come out alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from zlib import crc32

import numpy as np

from sdk.codegen_c.functions.asm_statement import COUNTER, Operand, Pointer, Statement
from sdk.codegen_c.functions.samples import Around, KernelCall, Start, start
from sdk.codegen_c.functions.thumb.execute import Fault, Memory, execute
from sdk.compiler.interp.loops import NoMeaning
from sdk.compiler.ir.loops import Block, For, Idx, Imm, Load, Loops, Op, Ref, Stmt
from sdk.compiler.schedules.validate import Check
from sdk.errors import BuildError, MiscompileWarning

__all__ = ["Live", "Region", "Validator"]

Live = Mapping[str, tuple[str, tuple[int, ...]]]  # by C variable the element of a register buffer that it holds
CALLS: Final[dict[Check, int]] = {"sample": 2, "full": 64}  # calls of the function whose dims and constants are taken
TRIPS: Final[dict[Check, tuple[int, ...]]] = {"sample": (1, 2), "full": (1, 2, 3, 7)}  # iterations of a loop, each
STATES: Final[dict[Check, int]] = {"sample": 1, "full": 4}  # that are compared for a call and a number of iterations
TRIES: Final = 24  # states looked at for one that a run may have
CORNERS: Final[dict[Check, int]] = {"sample": 3, "full": 8}  # states in which the number of iterations is looked at
BITS: Final = (31, 20, 12, 9)  # of what registers and wide elements hold; fewer where operations are known to fit
WORD: Final = 32
_CAST: Final = re.compile(r"\(u?int(\d+)_t\)")
_ELEMENT: Final = re.compile(r"(\w+)\[[^\]]*\]")


@dataclass(frozen=True, slots=True)
class Region:
    """``statement`` in the place of ``stmts``, which lie in ``around`` (from the outermost in). ``live`` are the C
    variables that may be read later, ``elements`` the bits of what C names point to."""

    statement: Statement
    stmts: tuple[Stmt, ...]
    around: Sequence[Around]
    live: Live
    elements: Mapping[str, int]

    @property
    def loop(self) -> For | None:
        """The loop that the statement stands for."""
        first = self.stmts[0]
        return first if isinstance(first, For) and self.statement.count is not None else None


@dataclass
class Validator:
    """Checks the regions of one function. ``scratch`` are the offsets of its scratch buffers, ``calls`` what its calls
    give it. ``unchecked`` counts the regions that no state was found for."""

    loops: Loops
    scratch: Mapping[str, int]
    calls: Sequence[KernelCall]
    check: Check = "sample"
    unchecked: int = 0

    def holds(self, region: Region) -> bool:
        """Whether the statement does what it stands for, as far as was seen; where not, a warning says how."""
        seed = crc32("\n".join((self.loops.name, *region.statement.lines)).encode())
        what = self._miscounted(region, np.random.default_rng(seed)) or self._differs(region, seed)
        if what:
            text = "\n".join([*region.statement.printed(), "in the place of", *map(repr, region.stmts)])
            MiscompileWarning.of(self.loops.name, what, text).tell()
        return not what

    def _calls(self) -> list[KernelCall | None]:
        return [*self.calls[: CALLS[self.check]]] or [None]

    def _differs(self, region: Region, seed: int) -> str:
        """What differs after a run from some state; "" where nothing does."""
        rng = np.random.default_rng(seed)
        found: list[str] = []
        for call in self._calls():
            for trips in self._trips(region.statement):
                for _ in range(STATES[self.check]):
                    what = self._compare(region, call, trips, rng)
                    if what:
                        return what
                    found += [] if what is None else [what]
        self.unchecked += not found
        return ""

    def _trips(self, statement: Statement) -> Sequence[int]:
        """The numbers of iterations that are tried."""
        if statement.count is None:
            return (1,)
        return [n for n in TRIPS[self.check] if not isinstance(statement.count, int) or n <= statement.count]

    def _miscounted(self, region: Region, rng: np.random.Generator) -> str:
        """How the iterations are not those of the loop; also where it may have none, and that is not looked for."""
        loop, statement = region.loop, region.statement
        if loop is None or statement.count is None:
            return ""
        known = isinstance(loop.hi - loop.lo, int)
        for call in self._calls():
            for _ in range(1 if known else CORNERS[self.check]):
                state = self._start(region, call, rng, BITS[-1])
                if state is None:
                    continue
                trip, count = max(state.number(loop.hi - loop.lo), 0), state.number(statement.count)
                if trip != max(count, 0) * statement.unrolled:
                    return f"{count} times {statement.unrolled} iterations, of {trip}"
                if count < 1 and not statement.guard:
                    return "a loop of no iterations is run"
        return ""

    def _start(
        self, region: Region, call: KernelCall | None, rng: np.random.Generator, bits: int
    ) -> Start | None:
        try:
            return start(self.loops, self.scratch, call, region.around, rng, bits)
        except (NoMeaning, BuildError):
            return None  # made-up values that no run has: outside of what an operation, or an index, is known to be in

    def _compare(
        self, region: Region, call: KernelCall | None, trips: int, rng: np.random.Generator
    ) -> str | None:
        """What differs after a run from a random state; None where none was found that a run may have."""
        for k in range(TRIES):
            state = self._start(region, call, rng, BITS[min(k // 3, len(BITS) - 1)])
            if state is None:
                continue
            try:
                stmts = _cut(region, state, trips)
                if stmts is None:
                    continue
                registers = _operands(region, state, trips, rng)
                memory, before = bytearray(state.memory), {n: state.register(*at) for n, at in region.live.items()}
                state.machine.block(Block(stmts))
            except (NoMeaning, BuildError):
                continue
            return _difference(region, registers, memory, before, state)
        return None


def _cut(region: Region, state: Start, trips: int) -> tuple[Stmt, ...] | None:
    """The statements, a loop of them for so many iterations of the assembly; None where it has fewer."""
    loop, statement = region.loop, region.statement
    if loop is None or statement.count is None:
        return region.stmts
    if state.number(statement.count) < trips:
        return None
    return (replace(loop, hi=loop.lo + trips * statement.unrolled),)


def _operands(region: Region, state: Start, trips: int, rng: np.random.Generator) -> dict[str, int]:
    """What the operands hold before. What the C text has in fewer bits than a register has anything above them."""
    out = {}
    for operand in region.statement.operands:
        bits, garbage = _bits(operand, region.elements), int(rng.integers(1 << WORD))
        held = _held(operand, state, trips, garbage)
        out[f"%[{operand.name}]"] = held & (1 << bits) - 1 | garbage >> bits << bits
    return out


def _held(operand: Operand, state: Start, trips: int, garbage: int) -> int:
    holds = operand.holds
    if holds is None:
        return garbage
    if isinstance(holds, Pointer):
        return state.places[holds.buffer] + state.number(holds.offset)
    if isinstance(holds, (Imm, Idx, Ref, Load, Op)):
        return state.word(holds)
    return trips if operand.name == COUNTER else state.number(holds)


def _bits(operand: Operand, elements: Mapping[str, int]) -> int:
    """The bits that the type of an operand's C text has: of an element, those of its type; of a conversion, those it is
    to. Arithmetic has those of an int."""
    if match := _CAST.match(operand.text):
        return int(match[1])
    if match := _ELEMENT.fullmatch(operand.text):
        return min(elements.get(match[1], WORD), WORD)
    return WORD


def _difference(
    region: Region, registers: Mapping[str, int], memory: bytearray, before: Mapping[str, int], state: Start
) -> str:
    """What is another after a run of the assembly from ``registers`` and ``memory`` than in ``state``, where its
    statements have run. Variables that it does not write hold what they held ``before``."""
    operands = region.statement.operands
    written = {o.text: f"%[{o.name}]" for o in operands if o.constraint != "r"}
    try:
        after = execute(region.statement.lines, registers, Memory(memory, state.spans), set(written.values()))
    except Fault as fault:
        return str(fault)
    for name, (buffer, index) in region.live.items():
        got, wanted = after[written[name]] if name in written else before[name], state.register(buffer, index)
        if got != wanted:
            return f"{name} is {got}, not {wanted}"
    if memory == state.memory:
        return ""
    at = next(k for k, (a, b) in enumerate(zip(memory, state.memory, strict=True)) if a != b)
    name = next((n for n, (lo, hi) in zip(state.places, state.spans, strict=True) if lo <= at < hi), "memory")
    return f"byte {at - state.places.get(name, 0)} of {name} is {memory[at]}, not {state.memory[at]}"
