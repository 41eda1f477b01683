"""Hot loops and straight runs of a kernel as assembly statements of GNU C, where the core has instructions for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Final

from sdk.codegen_c.c99 import thumb
from sdk.codegen_c.c99.asm_statement import Operands, Pointer, Statement
from sdk.codegen_c.c99.dims import DimPrinter
from sdk.compiler.ir.loops import For, Load, Loops, Stmt, Store
from sdk.compiler.ir.walk import walk
from sdk.compiler.machines.model import Assembly
from sdk.compiler.sym import Dim, evaluate, floordiv, free_vars, prove_ge

__all__ = ["Regions"]

AROUND: Final = 16  # lines around the instructions of a loop

Element = Callable[[str, Dim], str]


@dataclass(frozen=True, slots=True)
class Regions:
    """Prints regions of a function as assembly; everything else of it stays C. ``element`` is the C text of the element
    so many bytes behind the start of a buffer, ``fresh`` a name that nothing has, ``how`` how long statements may get
    and what is worth one. What ``holds`` does not say of, a statement in the place of some statements after which
    nothing reads the registers named, stays C."""

    loops: Loops
    dims: DimPrinter
    names: thumb.Names
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
        most = self.how.most_small if self.small else self.how.most
        once = self._turned(stmt, trip, 1)
        if once is None:
            return []
        likely = [n for n in self._turns(trip) if n * (once.height - AROUND) <= most]
        written_out = (self._turned(stmt, trip, turns) for turns in likely)
        found = next((one for one in written_out if one is not None and one.height <= most), once)
        return found.printed() if self.holds(found, (stmt,), frozenset()) else []

    def _turned(self, stmt: For, trip: Dim, turns: int) -> Statement | None:
        """The statement of a loop that does so many turns in one."""
        count = floordiv(trip, turns) if turns != trip else None
        return self._best(partial(thumb.lift, stmt.body.body, self.names, stmt, turns), count, turns)

    def run(self, stmts: Sequence[Stmt], own: Set[str]) -> tuple[int, list[str]]:
        """How many of ``stmts``, all that are left of a block that declares the buffers ``own``, have a form in
        assembly together, and their lines."""
        straight = len(list(takewhile(lambda stmt: thumb.straight(stmt, self.names), stmts)))
        sums = len(list(takewhile(self._is_sum, stmts[:straight])))
        for count in dict.fromkeys((straight, sums)):
            dead = own - {n.buffer for n in walk(tuple(stmts[count:])) if isinstance(n, Load)}
            found = self._best(partial(thumb.lift, stmts[:count], self.names, dead=dead), None, 1, self._worth)
            if found is not None and self.holds(found, stmts[:count], dead):
                return count, found.printed()
        return 0, []

    def _worth(self, lifted: thumb.Lifted) -> bool:
        """Whether straight code gains by a statement of its own. Compilers spread the reads of constants over the code
        around better than a statement that needs them all at once."""
        few = lifted.products < self.how.products
        if few and lifted.shared and not all(stream.stored for stream in lifted.streams):
            return False
        return not few or lifted.writes >= self.how.products // 2

    def _best(
        self,
        lift: Callable[..., thumb.Lifted | None],
        count: Dim | None,
        turns: int,
        worth: Callable[[thumb.Lifted], bool] = lambda lifted: True,
    ) -> Statement | None:
        """The statement of what ``lift`` lifts, with many pointers or with few that walk: what is shorter. None where
        that is not ``worth`` it."""
        many = lift()
        if many is None or not worth(many):
            return None
        apart = thumb.units(many)
        few = lift(units=apart) if apart else None
        found = [self._statement(lifted, count, turns) for lifted in (many, few) if lifted is not None]
        return min((one for one in found if one is not None), key=lambda one: one.height, default=None)

    def _is_sum(self, stmt: Stmt) -> bool:
        return isinstance(stmt, Store) and self.names.register(stmt.buffer, stmt.index) is not None

    def _turns(self, trip: Dim) -> list[int]:
        """How many turns may be written out, the most first: divisors of the trip count at every call."""
        counts = [trip] if isinstance(trip, int) else self._trips(trip)
        whole = math.gcd(*counts) if counts else 1
        return [n for n in range(self.how.turns, 1, -1) if whole and whole % n == 0]

    def _trips(self, trip: Dim) -> list[int]:
        """The trip counts of the functions that share this one; none where they depend on more than its dims."""
        if not self.loops.instances or not free_vars(trip) <= set(self.loops.dims):
            return []
        return [evaluate(trip, dict(zip(self.loops.dims, numbers, strict=True))) for numbers in self.loops.instances]

    # --- the statement ------------------------------------------------------------------------------------

    def _statement(self, lifted: thumb.Lifted, count: Dim | None, unrolled: int) -> Statement | None:
        """The statement, run ``count`` times (None: once); None where it takes more registers than there are."""
        code, looped = lifted.code, count is not None
        before = {leaf.text: leaf.value for leaf in code.leaves if leaf.variable}
        homes = {name: f"s{k}" for k, name in enumerate([*code.results, *sorted(before.keys() - set(code.results))])}
        values = {leaf: f"c{k}" for k, leaf in enumerate(leaf for leaf in code.leaves if not leaf.variable)}
        leaves = {leaf: homes[leaf.text] if leaf.variable else values[leaf] for leaf in code.leaves}
        texts = {self._stride(stream): stream.stride for stream in lifted.streams if stream.stride != 0}
        strides = {text: f"w{k}" for k, text in enumerate(texts)}
        paths = [self._path(stream, strides, looped) for stream in lifted.streams]
        emitted = thumb.emit(
            code,
            {name: f"%[{home}]" for name, home in homes.items()},
            {leaf: f"%[{name}]" for leaf, name in leaves.items()},
            paths,
            looped,
            lifted.spent,
            self.how.single_loads,
        )
        if emitted is None:
            return None
        operands = Operands(self.fresh)
        for name in code.results:
            operands.variable(homes[name], name, before.get(name))
        for leaf in code.leaves:
            if leaf in lifted.spent:
                operands.variable(leaves[leaf], leaf.text, leaf.value)
            elif leaf.text not in code.results:
                operands.value(leaves[leaf], leaf.text, leaf.value)
        for k, (stream, path) in enumerate(zip(lifted.streams, paths, strict=True)):
            start = Pointer(stream.buffer, stream.start + emitted.bases[k])
            text, const = f"&{self.element(start.buffer, start.offset)}", "" if stream.stored else "const "
            moves = bool(path.step or path.stride) or k in emitted.several
            operands.pointer(f"p{k}", text, start, const, moves)
        for text, name in strides.items():
            operands.value(name, text, texts[text])
        lines, guard = list(emitted.lines), ""
        if count is not None:
            operands.counter(self.dims.text(count), count)
            lines = ["1:", *lines, "subs %[n], %[n], #1", "bne 1b"]
            guard = "" if prove_ge(count, 1) is True else f"{self.dims.text(count)} > 0"
        operands.temporaries(emitted.temps, emitted.ordered)
        return Statement(tuple(lines), operands.all(), tuple(operands.declared), count, unrolled, guard)

    def _stride(self, stream: thumb.Stream) -> str:
        return self.dims.text(stream.stride)

    def _path(self, stream: thumb.Stream, strides: Mapping[str, str], looped: bool) -> thumb.Path:
        stride = f"%[{strides[self._stride(stream)]}]" if stream.stride != 0 else ""
        return thumb.Path(stream.step if looped else 0, stride, stream.places if looped else 0)
