"""Hot loops and straight runs of a kernel as assembly statements of GNU C, where the core has instructions for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
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
TURNS: Final = 8  # turns written out, at most
ORDERED: Final = ("r8", "r9", "r10", "r11")  # temporaries that one instruction fills: those that others can spare best
FEW: Final = 8  # products that are worth a statement of their own

Element = Callable[[str, Dim], str]


@dataclass(frozen=True, slots=True)
class Regions:
    """Prints regions of a function as assembly; everything else of it stays C. ``element`` is the C text of the element
    so many bytes behind the start of a buffer, ``fresh`` a name that nothing has."""

    loops: Loops
    dims: DimPrinter
    names: thumb.Names
    element: Element
    fresh: Callable[[str], str]
    small: bool

    def loop(self, stmt: For) -> list[str]:
        """The lines of a loop; none where it has no form in assembly."""
        if stmt.kind != "serial" or stmt.until is not None:
            return []
        trip = stmt.hi - stmt.lo
        most = SHORT if self.small else LONG
        for turns in self._turns(trip):
            count = floordiv(trip, turns) if turns != trip else None
            lines = self._best(partial(thumb.lift, stmt.body.body, self.names, stmt, turns), count)
            if lines and (turns == 1 or len(lines) <= most):
                return lines
        return []

    def run(self, stmts: Sequence[Stmt], own: Set[str]) -> tuple[int, list[str]]:
        """How many of ``stmts``, all that are left of a block that declares the buffers ``own``, have a form in assembly
        together, and their lines."""
        straight = len(list(takewhile(lambda stmt: thumb.straight(stmt, self.names), stmts)))
        sums = len(list(takewhile(self._is_sum, stmts[:straight])))
        for count in dict.fromkeys((straight, sums)):
            dead = own - {n.buffer for n in walk(tuple(stmts[count:])) if isinstance(n, Load)}
            lifted = thumb.lift(stmts[:count], self.names, dead=dead)
            if lifted is not None and (lifted.products >= FEW or lifted.writes >= FEW // 2):
                lines = self._best(partial(thumb.lift, stmts[:count], self.names, dead=dead), None)
                if lines:
                    return count, lines
        return 0, []

    def _best(self, lift: Callable[..., thumb.Lifted | None], count: Dim | None) -> list[str]:
        """The lines of what ``lift`` lifts, with many pointers or with few that walk: what is shorter."""
        many = lift()
        if many is None:
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
        return [n for n in range(TURNS, 1, -1) if whole and whole % n == 0] + [1]

    def _trips(self, trip: Dim) -> list[int]:
        """The trip counts of the functions that share this one; none where they depend on more than its dims."""
        if not self.loops.instances or not free_vars(trip) <= set(self.loops.dims):
            return []
        return [evaluate(trip, dict(zip(self.loops.dims, numbers, strict=True))) for numbers in self.loops.instances]

    # --- the statement ------------------------------------------------------------------------------------

    def _path(self, stream: thumb.Stream, strides: Mapping[str, str], looped: bool) -> thumb.Path:
        stride = f"%[{strides[self.dims.text(stream.stride)]}]" if stream.stride != 0 else ""
        return thumb.Path(stream.step if looped else 0, stride, stream.places if looped else 0)

    def _lines(self, lifted: thumb.Lifted, count: Dim | None) -> list[str]:
        """A block with the statement, run ``count`` times (None: once); none where it takes more registers than there
        are."""
        code = lifted.code
        changed = {leaf.text for leaf in code.leaves if leaf.variable}
        variables = list(dict.fromkeys([*code.results, *sorted(changed)]))
        homes = {name: f"s{k}" for k, name in enumerate(variables)}
        values = {leaf: f"c{k}" for k, leaf in enumerate(leaf for leaf in code.leaves if not leaf.variable)}
        leaves = {leaf: f"%[{homes[leaf.text] if leaf.variable else values[leaf]}]" for leaf in code.leaves}
        strides = {text: f"w{k}" for k, text in enumerate(dict.fromkeys(self.dims.text(s.stride) for s in lifted.streams))}
        paths = [self._path(stream, strides, count is not None) for stream in lifted.streams]
        emitted = thumb.emit(
            code, {name: f"%[{home}]" for name, home in homes.items()}, leaves, paths, count is not None, lifted.spent
        )
        if emitted is None:
            return []
        pointers = [f"&{self.element(s.buffer, s.start + emitted.bases[k])}" for k, s in enumerate(lifted.streams)]
        temps = {f"t{k}": self.fresh(f"t{k}") for k in range(emitted.temps)}
        outputs = [
            f'[{homes[name]}] "{"+&" if name in changed else "=&"}r"({name})' for name in code.results
        ]
        outputs += [f'[{homes[leaf.text]}] "+&r"({leaf.text})' for leaf in code.leaves if leaf in lifted.spent]
        kept = {leaf.text for leaf in code.leaves if leaf.variable} - {leaf.text for leaf in lifted.spent}
        inputs = [f'[{homes[name]}] "r"({name})' for name in variables if name in kept - set(code.results)]
        inputs += [f'[{name}] "r"({leaf.text})' for leaf, name in values.items()]
        declared = []
        for k, (stream, pointer) in enumerate(zip(lifted.streams, pointers, strict=True)):
            if paths[k].step or paths[k].stride or k in emitted.several:
                name = self.fresh(f"p{k}")
                declared.append(f"{'' if stream.stored else 'const '}void *{name} = {pointer};")
                outputs.append(f'[p{k}] "+&r"({name})')
            else:
                inputs.append(f'[p{k}] "r"({pointer})')
        used = {path.stride for path in paths}
        inputs += [f'[{name}] "r"({text})' for text, name in strides.items() if f"%[{name}]" in used]
        lines = list(emitted.lines)
        if count is not None:
            name = self.fresh("turns")
            declared.append(f"int32_t {name} = {self.dims.text(count)};")
            outputs.append(f'[n] "+&r"({name})')
            lines = ["1:", *lines, "subs %[n], %[n], #1", "bne 1b"]
        outputs += [f'[{t}] "=&r"({name})' for t, name in temps.items()]
        ordered = [name for operand, name in temps.items() if f"%[{operand}]" in emitted.ordered]
        declared += [f'register uint32_t {n} __asm__("{r}");' for n, r in zip(ordered, ORDERED, strict=False)]
        free = [name for name in temps.values() if name not in ordered]
        if free:
            declared.append(f"uint32_t {', '.join(free)};")
        head = "{" if count is None or prove_ge(count, 1) is True else f"if ({self.dims.text(count)} > 0) {{"
        clobbers = '"cc", "memory"' if count is not None else '"memory"'
        text = [f'"{line}\\n"' for line in lines]
        statement = [*declared, "__asm__ volatile(", *("    " + line for line in text)]
        statement += [f"    : {', '.join(outputs)}", f"    : {', '.join(inputs)}", f"    : {clobbers});"]
        return [head, *("    " + line for line in statement), "}"]
