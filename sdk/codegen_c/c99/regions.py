"""Hot loops and straight runs of a kernel as assembly statements of GNU C, where the core has instructions for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from itertools import takewhile, zip_longest
from typing import Final

from sdk.codegen_c import thumb
from sdk.codegen_c.c99.dims import DimPrinter
from sdk.compiler.ir.loops import For, Load, Loops, Stmt, Store
from sdk.compiler.ir.walk import walk
from sdk.compiler.sym import Dim, evaluate, floordiv, free_vars, prove_ge

__all__ = ["CORE", "Regions"]

CORE: Final = frozenset({"thumb2", "dsp", "words"})  # features of cores whose hot code is written here
LONG: Final = 72  # instructions of a loop of which several turns are written out
SHORT: Final = 32  # the same where code is for size
AROUND: Final = 16  # lines around the instructions of a loop
TURNS: Final = 8  # turns written out, at most
ORDERED: Final = ("r8", "r9", "r10", "r11")  # temporaries that one instruction fills: those that others can spare best
CHANGED: Final = 7  # variables that a statement reads and changes for which compilers find registers by themselves
FEW: Final = 8  # products that are worth a statement of their own

Element = Callable[[str, Dim], str]


@dataclass(frozen=True, slots=True)
class Regions:
    """Prints regions of a function as assembly; everything else of it stays C. ``element`` is the C text of the element
    so many bytes behind the start of a buffer, ``fresh`` a name that nothing has. With
    ``alone`` words are read one by one, for a core that issues such a read beside a product."""

    loops: Loops
    dims: DimPrinter
    names: thumb.Names
    element: Element
    fresh: Callable[[str], str]
    small: bool
    alone: bool

    def loop(self, stmt: For) -> list[str]:
        """The lines of a loop; none where it has no form in assembly."""
        if stmt.kind != "serial" or stmt.until is not None:
            return []
        trip = stmt.hi - stmt.lo
        most = SHORT if self.small else LONG
        once = self._turned(stmt, trip, 1)
        likely = [n for n in self._turns(trip) if n * (len(once) - AROUND) <= most] if once else []
        written_out = (self._turned(stmt, trip, turns) for turns in likely)
        return next((lines for lines in written_out if lines and len(lines) <= most), once)

    def _turned(self, stmt: For, trip: Dim, turns: int) -> list[str]:
        """The lines of a loop that does so many turns in one."""
        count = floordiv(trip, turns) if turns != trip else None
        return self._best(partial(thumb.lift, stmt.body.body, self.names, stmt, turns), count)

    def run(self, stmts: Sequence[Stmt], own: Set[str]) -> tuple[int, list[str]]:
        """How many of ``stmts``, all that are left of a block that declares the buffers ``own``, have a form in
        assembly together, and their lines."""
        straight = len(list(takewhile(lambda stmt: thumb.straight(stmt, self.names), stmts)))
        sums = len(list(takewhile(self._is_sum, stmts[:straight])))
        for count in dict.fromkeys((straight, sums)):
            dead = own - {n.buffer for n in walk(tuple(stmts[count:])) if isinstance(n, Load)}
            lines = self._best(partial(thumb.lift, stmts[:count], self.names, dead=dead), None, self._worth)
            if lines:
                return count, lines
        return 0, []

    def _worth(self, lifted: thumb.Lifted) -> bool:
        """Whether straight code gains by a statement of its own. Compilers spread the reads of constants over the code
        around better than a statement that needs them all at once."""
        if lifted.products < FEW and lifted.shared and not all(stream.stored for stream in lifted.streams):
            return False
        return lifted.products >= FEW or lifted.writes >= FEW // 2

    def _best(
        self,
        lift: Callable[..., thumb.Lifted | None],
        count: Dim | None,
        worth: Callable[[thumb.Lifted], bool] = lambda lifted: True,
    ) -> list[str]:
        """The lines of what ``lift`` lifts, with many pointers or with few that walk: what is shorter. None where that
        is not ``worth`` it."""
        many = lift()
        if many is None or not worth(many):
            return []
        apart = thumb.units(many)
        few = lift(units=apart) if apart else None
        found = [self._lines(lifted, count) for lifted in (many, few) if lifted is not None]
        return min((lines for lines in found if lines), key=len, default=[])

    def _is_sum(self, stmt: Stmt) -> bool:
        return isinstance(stmt, Store) and self.names.register(stmt.buffer, stmt.index) is not None

    def _turns(self, trip: Dim) -> list[int]:
        """How many turns may be written out, the most first: divisors of the trip count at every call."""
        counts = [trip] if isinstance(trip, int) else self._trips(trip)
        whole = math.gcd(*counts) if counts else 1
        return [n for n in range(TURNS, 1, -1) if whole and whole % n == 0]

    def _trips(self, trip: Dim) -> list[int]:
        """The trip counts of the functions that share this one; none where they depend on more than its dims."""
        if not self.loops.instances or not free_vars(trip) <= set(self.loops.dims):
            return []
        return [evaluate(trip, dict(zip(self.loops.dims, numbers, strict=True))) for numbers in self.loops.instances]

    # --- the statement ------------------------------------------------------------------------------------

    def _lines(self, lifted: thumb.Lifted, count: Dim | None) -> list[str]:
        """A block with the statement, run ``count`` times (None: once); none where it takes more registers than there
        are."""
        code, looped = lifted.code, count is not None
        before = {leaf.text for leaf in code.leaves if leaf.variable}
        homes = {name: f"s{k}" for k, name in enumerate([*code.results, *sorted(before - set(code.results))])}
        values = {leaf: f"c{k}" for k, leaf in enumerate(leaf for leaf in code.leaves if not leaf.variable)}
        leaves = {leaf: homes[leaf.text] if leaf.variable else values[leaf] for leaf in code.leaves}
        texts = dict.fromkeys(self._stride(stream) for stream in lifted.streams if stream.stride != 0)
        strides = {text: f"w{k}" for k, text in enumerate(texts)}
        paths = [self._path(stream, strides, looped) for stream in lifted.streams]
        emitted = thumb.emit(
            code,
            {name: f"%[{home}]" for name, home in homes.items()},
            {leaf: f"%[{name}]" for leaf, name in leaves.items()},
            paths,
            looped,
            lifted.spent,
            self.alone,
        )
        if emitted is None:
            return []
        operands = _Operands(self.fresh)
        for name in code.results:
            operands.output(homes[name], name, name in before)
        for leaf in code.leaves:
            if leaf in lifted.spent:
                operands.output(leaves[leaf], leaf.text, True)
            elif leaf.text not in code.results:
                operands.inputs.append(f'[{leaves[leaf]}] "r"({leaf.text})')
        for k, (stream, path) in enumerate(zip(lifted.streams, paths, strict=True)):
            start = f"&{self.element(stream.buffer, stream.start + emitted.bases[k])}"
            const = "" if stream.stored else "const "
            operands.pointer(f"p{k}", start, const, bool(path.step or path.stride) or k in emitted.several)
        operands.inputs += [f'[{name}] "r"({text})' for text, name in strides.items()]
        lines, head = list(emitted.lines), "{"
        if count is not None:
            operands.counter("n", self.dims.text(count))
            lines = ["1:", *lines, "subs %[n], %[n], #1", "bne 1b"]
            head = "{" if prove_ge(count, 1) is True else f"if ({self.dims.text(count)} > 0) {{"
        operands.temporaries(emitted.temps, emitted.ordered)
        return operands.block(head, lines)

    def _stride(self, stream: thumb.Stream) -> str:
        return self.dims.text(stream.stride)

    def _path(self, stream: thumb.Stream, strides: Mapping[str, str], looped: bool) -> thumb.Path:
        stride = f"%[{strides[self._stride(stream)]}]" if stream.stride != 0 else ""
        return thumb.Path(stream.step if looped else 0, stride, stream.places if looped else 0)


class _Operands:
    """The operands of a statement, and what is declared for them. What changes shares no register with anything that
    is only read, whatever that holds."""

    def __init__(self, fresh: Callable[[str], str]) -> None:
        self.fresh = fresh
        self.declared: list[str] = []
        self.moving: list[tuple[str, str]] = []
        self.outputs: list[str] = []
        self.inputs: list[str] = []

    def output(self, operand: str, text: str, read: bool) -> None:
        """A variable that changes; ``read``: what it held before is used."""
        self.outputs.append(f'[{operand}] "{"+" if read else "="}&r"({text})')

    def pointer(self, operand: str, start: str, const: str, moves: bool) -> None:
        """The pointer of a stream."""
        if not moves:
            self.inputs.append(f'[{operand}] "r"({start})')
            return
        name = self.fresh(operand)
        self.moving.append((f"{const}void *{name}", start))
        self.output(operand, name, True)

    def counter(self, operand: str, count: str) -> None:
        """The register that counts turns."""
        name = self.fresh("turns")
        self.moving.append((f"int32_t {name}", count))
        self.output(operand, name, True)

    def temporaries(self, count: int, ordered: Set[str]) -> None:
        """The temporaries; those ``ordered`` have registers of their own, and so have pointers where more changes than
        compilers find registers for: GCC on a core with an FPU says then that constraints are impossible."""
        names = {f"t{k}": self.fresh(f"t{k}") for k in range(count)}
        fixed = [operand for operand in names if f"%[{operand}]" in ordered]
        free = [name for operand, name in names.items() if operand not in fixed]
        crowded = sum('"+' in output for output in self.outputs) > CHANGED
        spare = ORDERED[len(fixed) :] if crowded else ()
        for (variable, value), register in zip_longest(self.moving, spare[: len(self.moving)]):
            pinned = ("register ", f' __asm__("{register}")') if register else ("", "")
            self.declared.append(f"{variable.join(pinned)} = {value};")
        for operand, register in zip(fixed, ORDERED, strict=False):
            self.declared.append(f'register uint32_t {names[operand]} __asm__("{register}");')
        if free:
            self.declared.append(f"uint32_t {', '.join(free)};")
        for operand, name in names.items():
            self.output(operand, name, False)

    def block(self, head: str, lines: Sequence[str]) -> list[str]:
        """The block that holds the statement of ``lines``."""
        statement = ["__asm__ volatile(", *(f'    "{line}\\n"' for line in lines)]
        statement += [f"    : {', '.join(self.outputs)}", f"    : {', '.join(self.inputs)}"]
        statement.append('    : "cc", "memory");')
        return [head, *("    " + line for line in (*self.declared, *statement)), "}"]
