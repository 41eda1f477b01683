"""Hot loops and basic blocks of a kernel as assembly statements of GNU C, where the core has instructions for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Final

from sdk.codegen_c.functions import thumb
from sdk.codegen_c.functions.asm_statement import Operand, Operands, Pointer, Statement
from sdk.codegen_c.functions.dims import DimPrinter
from sdk.compiler.ir.loops import For, Load, Loops, Stmt, Store
from sdk.compiler.ir.walk import walk
from sdk.compiler.machines.machine import Assembly
from sdk.compiler.sym import Dim, evaluate, floordiv, free_vars, prove_ge

__all__ = ["Regions"]

AROUND: Final = 16  # lines around the instructions of a loop
CROWDED: Final = 12  # operands of a loop that leave compilers no register for what is around it

Element = Callable[[str, Dim], str]


@dataclass(frozen=True, slots=True)
class Regions:
    """Prints regions of a function as assembly; everything else of it stays C. ``element`` is the C text of the element
    so many bytes behind the start of a buffer, ``fresh`` a name that nothing has, ``how`` how long statements may get
    and what is worth one. ``rereading`` knows none of the constants that the C around holds in variables. What
    ``holds`` does not say of, a statement in the place of some statements after which nothing reads the registers
    named, stays C."""

    loops: Loops
    dims: DimPrinter
    names: thumb.Names
    rereading: thumb.Names
    element: Element
    fresh: Callable[[str], str]
    small: bool
    how: Assembly
    holds: Callable[[Statement, Sequence[Stmt], Set[str]], bool]

    def loop(self, stmt: For) -> list[str]:
        """The lines of a loop; none where it has no form in assembly."""
        if stmt.kind != "serial" or stmt.until is not None:
            return []
        trip = stmt.hi - stmt.lo
        maximum = self.how.max_small if self.small else self.how.maximum
        once = self._unrolled(stmt, trip, 1)
        if once is None:
            return []
        likely = [n for n in self._factors(trip) if n * (once.height - AROUND) <= maximum]
        unrolled = (self._unrolled(stmt, trip, factor) for factor in likely)
        found = next((one for one in unrolled if one is not None and one.height <= maximum), once)
        return found.printed() if self.holds(found, (stmt,), frozenset()) else []

    def _unrolled(self, stmt: For, trip: Dim, iterations: int) -> Statement | None:
        """The statement of a loop unrolled by ``iterations``."""
        count = floordiv(trip, iterations) if iterations != trip else None
        found = self._best(partial(thumb.select, stmt.body.body, self.names, stmt, iterations), count, iterations)
        if count is None or found is None or len(found.operands) < CROWDED:
            return found
        if any(map(self._is_hoisted, found.operands)):
            return found
        reading = partial(thumb.select, stmt.body.body, self.rereading, stmt, iterations)
        return self._best(reading, count, iterations, reads=True) or found

    def run(self, stmts: Sequence[Stmt], own: Set[str]) -> tuple[int, list[str]]:
        """How many of ``stmts``, all that are left of a block that declares the buffers ``own``, have a form in
        assembly together, and their lines."""
        block = len(list(takewhile(lambda stmt: thumb.selectable(stmt, self.names), stmts)))
        sums = len(list(takewhile(self._is_sum, stmts[:block])))
        found = {n: self._together(stmts[:n], _dead(stmts, own, n)) for n in (block, sums) if n}
        if 0 < sums < block and self._is_longer(found, stmts[:block], _dead(stmts, own, block)):
            del found[block]
        for count, statement in found.items():
            if statement is not None and self.holds(statement, stmts[:count], _dead(stmts, own, count)):
                return count, statement.printed()
        return 0, []

    def _is_longer(self, found: Mapping[int, Statement | None], stmts: Sequence[Stmt], dead: Set[str]) -> bool:
        """Whether one statement takes more instructions than one for its sums and one for what is made of these,
        between which compilers put each sum to memory."""
        sums = min(found)
        whole, first, second = found[len(stmts)], found[sums], self._together(stmts[sums:], dead)
        if whole is None or first is None or second is None:
            return False
        kept = {(s.buffer, s.index) for s in stmts[:sums] if isinstance(s, Store)}
        return len(whole.lines) > len(first.lines) + len(second.lines) + len(kept)

    def _together(self, stmts: Sequence[Stmt], dead: Set[str]) -> Statement | None:
        """The statement of a basic block that is worth one, with constants in registers or read in it: what is
        shorter."""
        loads = (n for n in walk(tuple(stmts)) if isinstance(n, Load))
        names = (self.names, self.rereading) if any(map(self._is_constant, loads)) else (self.names,)
        selects = (partial(thumb.select, stmts, known, dead=dead) for known in names)
        found = (self._best(select, None, 1, self._worth) for select in selects)
        return min((one for one in found if one is not None), key=lambda one: len(one.lines), default=None)

    def _worth(self, selected: thumb.Selected) -> bool:
        """Whether a basic block gains by a statement of its own. Compilers spread the reads of constants over the code
        around better than a statement that needs them all at once."""
        done = selected.products + (selected.writes if selected.products else 0)
        few = done < self.how.products
        if few and selected.shared and not all(pointer.stored for pointer in selected.pointers):
            return False
        return not few or selected.writes >= self.how.products // 2

    def _best(
        self,
        select: Callable[..., thumb.Selected | None],
        count: Dim | None,
        iterations: int,
        worth: Callable[[thumb.Selected], bool] = lambda selected: True,
        reads: bool = False,
    ) -> Statement | None:
        """The statement of what ``select`` selects, with many pointers or with few that walk: what is shorter; None
        where that is not ``worth`` it. With ``reads`` a loop reads its constants itself, before the first iteration."""
        many = select()
        if many is None or not worth(many):
            return None
        apart = thumb.units(many)
        few = select(units=apart) if apart else None
        found = [self._statement(one, count, iterations, reads) for one in (many, few) if one is not None]
        return min((one for one in found if one is not None), key=lambda one: one.height, default=None)

    def _is_sum(self, stmt: Stmt) -> bool:
        return isinstance(stmt, Store) and self.names.register(stmt.buffer, stmt.index) is not None

    def _factors(self, trip: Dim) -> list[int]:
        """By how much a loop may be unrolled, the most first: divisors of the trip count at every call."""
        counts = [trip] if isinstance(trip, int) else self._trips(trip)
        whole = math.gcd(*counts) if counts else 1
        return [n for n in range(self.how.unroll, 1, -1) if whole and whole % n == 0]

    def _trips(self, trip: Dim) -> list[int]:
        """The trip counts of the functions that share this one; none where they depend on more than its dims."""
        if not self.loops.instances or not free_vars(trip) <= set(self.loops.dims):
            return []
        return [evaluate(trip, dict(zip(self.loops.dims, numbers, strict=True))) for numbers in self.loops.instances]

    # --- the statement ------------------------------------------------------------------------------------

    def _statement(self, selected: thumb.Selected, count: Dim | None, unrolled: int, reads: bool) -> Statement | None:
        """The statement, run ``count`` times (None: once), which ``reads`` its constants or is given them; None where
        it takes more registers than there are."""
        code, looped = selected.code, count is not None
        before = {live_in.text: live_in.value for live_in in code.live_ins if live_in.variable}
        places = {name: f"s{k}" for k, name in enumerate([*code.results, *sorted(before.keys() - set(code.results))])}
        values = {
            live_in: f"c{k}" for k, live_in in enumerate(live_in for live_in in code.live_ins if not live_in.variable)
        }
        live_ins = {live_in: places[live_in.text] if live_in.variable else values[live_in] for live_in in code.live_ins}
        texts = {self._stride(pointer): pointer.stride for pointer in selected.pointers if pointer.stride != 0}
        strides = {text: f"w{k}" for k, text in enumerate(texts)}
        paths = [self._path(pointer, strides, looped) for pointer in selected.pointers]
        emitted = thumb.emit(
            code,
            {name: f"%[{place}]" for name, place in places.items()},
            {live_in: f"%[{name}]" for live_in, name in live_ins.items()},
            paths,
            looped,
            selected.killed,
            self.how.single_loads,
        )
        if emitted is None:
            return None
        operands = Operands(self.fresh)
        constants = thumb.constant_reads(live_ins if reads else {}, self._place)
        for name, (buffer, offset) in constants.pointers.items():
            start = Pointer(buffer, offset)
            operands.pointer(name, f"&{self.element(buffer, offset)}", start, "const ", True)
        operands.filled(constants.filled)
        for name in code.results:
            operands.variable(places[name], name, before.get(name))
        for live_in in code.live_ins:
            if live_ins[live_in] in constants.pointers or live_ins[live_in] in constants.filled:
                continue
            if live_in in selected.killed:
                operands.variable(live_ins[live_in], live_in.text, live_in.value)
            elif live_in.text not in code.results:
                operands.value(live_ins[live_in], live_in.text, live_in.value)
        for k, (pointer, path) in enumerate(zip(selected.pointers, paths, strict=True)):
            start = Pointer(pointer.buffer, pointer.start + emitted.bases[k])
            text, const = f"&{self.element(start.buffer, start.offset)}", "" if pointer.stored else "const "
            moves = bool(path.step or path.stride) or k in emitted.several
            operands.pointer(f"p{k}", text, start, const, moves)
        for text, name in strides.items():
            operands.value(name, text, texts[text])
        lines, guard = list(emitted.lines), ""
        if count is not None:
            operands.counter(self.dims.text(count), count)
            lines = [*constants.lines, "1:", *lines, "subs %[n], %[n], #1", "bne 1b"]
            guard = "" if prove_ge(count, 1) is True else f"{self.dims.text(count)} > 0"
        operands.temporaries(emitted.temps, emitted.ordered)
        return Statement(tuple(lines), operands.all(), tuple(operands.declared), count, unrolled, guard)

    def _is_hoisted(self, operand: Operand) -> bool:
        """Whether it is a constant that loops around this one read once."""
        return isinstance(operand.holds, Load) and self._is_constant(operand.holds)

    def _is_constant(self, load: Load) -> bool:
        """Whether it is read from a constant that the C around holds in a variable."""
        return self.names.register(load.buffer, load.index) != self.rereading.register(load.buffer, load.index)

    def _place(self, load: Load) -> thumb.Memory | None:
        return self.names.place(load.buffer, load.index)

    def _stride(self, pointer: thumb.InductionPointer) -> str:
        return self.dims.text(pointer.stride)

    def _path(self, pointer: thumb.InductionPointer, strides: Mapping[str, str], looped: bool) -> thumb.Path:
        stride = f"%[{strides[self._stride(pointer)]}]" if pointer.stride != 0 else ""
        return thumb.Path(pointer.step if looped else 0, stride, pointer.places if looped else 0)


def _dead(stmts: Sequence[Stmt], own: Set[str], count: int) -> Set[str]:
    """Which buffers of ``own`` nothing reads after the first statements."""
    return own - {n.buffer for n in walk(tuple(stmts[count:])) if isinstance(n, Load)}
