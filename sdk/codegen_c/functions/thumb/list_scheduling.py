"""Orders a basic block and gives it registers: instructions of Thumb-2 with named operands of an asm statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

from sdk.codegen_c.functions.thumb.basic_block import Access, BasicBlock, Item, LiveIn, Node, Read, Step, Write

__all__ = ["REGISTERS", "Emitted", "Path", "emit"]

REGISTERS: Final = 13  # that compilers have to give, one being kept for the frame in code that is not optimised
AHEAD: Final = 8  # instructions whose reads are issued together
MANY: Final = 4  # words that one instruction reads, at most
WINDOW: Final = 16  # instructions that may be issued before others
_PAIR: Final = 1020  # bytes that LDRD and STRD reach
_NEAR: Final = 255  # bytes that a pointer can be moved by an access, or that one reaches backwards
_FAR: Final = 4095
_SCALES: Final = {1: 0, 2: 1, 4: 2, 8: 3}  # strides that an access is ahead of its pointer, by the shift that says so


@dataclass(frozen=True, slots=True)
class Emitted:
    """``lines`` of assembly; ``temps`` registers beside those of variables, live-ins and pointers; ``bases``: the bytes
    by which pointers start behind what offsets count from. The pointers ``several`` are moved
    by instructions that fill the temporaries ``ordered``, whose registers must have the order of their numbers."""

    lines: tuple[str, ...]
    temps: int
    bases: dict[int, int]
    several: frozenset[int]
    ordered: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Memory:
    """A line that reads or writes memory: one register, or two of neighbouring words. ``ahead`` is the register that is
    added to the address, shifted where it must be ("": none)."""

    access: Access
    registers: tuple[str, ...]
    store: bool
    ahead: str = ""


@dataclass(frozen=True, slots=True)
class Path:
    """How a pointer moves: ``step`` bytes with each iteration, or ``places`` strides of ``stride``, the
    operand that holds so many bytes ("": none)."""

    step: int = 0
    stride: str = ""
    places: int = 0


def emit(
    code: BasicBlock,
    results: Mapping[str, str],
    live_ins: Mapping[LiveIn, str],
    paths: Sequence[Path],
    counted: bool,
    killed: Set[LiveIn] = frozenset(),
    alone: bool = False,
) -> Emitted | None:
    """``code`` in instructions, or None where it needs more registers than there are, or addresses out of their reach.

    ``results`` names the operand of each result, ``live_ins`` that of each value from before, ``paths`` are those of
    the pointers; ``counted``: a register counts iterations, and pointers end where the next iteration begins. The
    operand of pointer ``k`` is ``%[p<k>]``, temporaries are ``%[t<k>]``. Nothing needs the values ``killed`` after
    their last use here: their registers may be changed then. With ``alone`` each instruction reads one word.
    """
    if len(set(code.results.values())) < len(code.results):
        return None  # one instruction fills one register
    strides = {path.stride for path in paths if path.stride}
    taken = len(set(results.values()) | set(live_ins.values()) | strides) + len(paths) + counted
    if taken > REGISTERS:
        return None
    for eager in (True, False):
        allocation = _Allocation(code, results, live_ins, killed, paths, REGISTERS - taken, alone, eager)
        if allocation.run():
            break
    else:
        return None
    if counted:
        allocation.iteration()
    return _addressed(allocation.lines, allocation.maximum, paths)


class _Allocation:
    """Issues items, the first that is ready first, or (not ``eager``) in order: sums that are begun early take
    registers that those before them may need. Values live in temporaries from their computation to their last use,
    reads may be dropped and read again."""

    def __init__(
        self,
        code: BasicBlock,
        results: Mapping[str, str],
        live_ins: Mapping[LiveIn, str],
        killed: Set[LiveIn],
        paths: Sequence[Path],
        temps: int,
        alone: bool,
        eager: bool,
    ) -> None:
        self.eager = eager
        self.killed = killed
        self.alone = alone
        self.paths = paths
        self.left = list(code.items)
        self.lines: list[str | _Memory] = []
        self.where: dict[Node, str] = {live_in: register for live_in, register in live_ins.items()}
        self.temps = [f"%[t{k}]" for k in range(temps)]
        self.free = list(self.temps)
        self.loose = {*self.temps, *(live_ins[live_in] for live_in in killed)}
        self.maximum = 0
        self.uses: dict[Node, int] = {}
        for item in self.left:
            for arg in dict.fromkeys(_args(item)):
                self.uses[arg] = self.uses.get(arg, 0) + 1
        self.operand = self._results(code, results, live_ins)
        self.reserved = {register: live_in for live_in, register in live_ins.items() if live_in.variable}
        self.places = [0] * len(paths)
        self.moved = [0] * len(paths)
        reads = [arg.access for item in code.items for arg in _args(item) if isinstance(arg, Read)]
        writes = [item.access for item in code.items if isinstance(item, Write)]
        self.offsets: dict[int, set[int]] = {}
        for access in (*reads, *writes):
            self.offsets.setdefault(access.pointer, set()).add(access.offset)
        self.runs = self._runs(reads)
        self.minimum = {a.pointer: min(b.offset for b in reads if b.pointer == a.pointer) for a in reads}

    def _runs(self, reads: Sequence[Access]) -> frozenset[int]:
        """The pointers of words that one instruction may read several of, where there are registers for that."""
        words = {(a.pointer, a.offset) for a in reads if a.whole and not a.width and not self.paths[a.pointer].stride}
        found = {s for s, at in words if all((s, at + 4 * k) in words for k in range(MANY))}
        return frozenset(found) if len(self.temps) > MANY + 1 and not self.alone else frozenset()

    def _results(self, code: BasicBlock, results: Mapping[str, str], live_ins: Mapping[LiveIn, str]) -> dict[Node, str]:
        """The register of a variable for the sums that end in it, each of which replaces the one before."""
        found: dict[Node, str] = {}
        ends = set(code.results.values())
        for name, result in code.results.items():
            node: Node = result
            while isinstance(node, Step):
                found[node] = results[name]
                if node.sum < 0:
                    break
                before = node.args[node.sum]
                if self.uses[before] != 1 or before in live_ins or before in ends:
                    break
                node = before
        return found

    def run(self) -> bool:
        """Issues all items; whether the registers were enough."""
        while self.left:
            item = self._next()
            if item is None or not all(self._resident(arg, item) for arg in _args(item)):
                return False
            self._read_ahead()
            self.left.remove(item)
            if isinstance(item, Write):
                self._write(item)
            elif not self._step(item):
                return False
        return True

    def iteration(self) -> None:
        """Moves the pointers that walk to where the next iteration begins."""
        for pointer, path in enumerate(self.paths):
            self._walk(pointer, path.places, {0})

    def _next(self) -> Item | None:
        """The first of the next items that needs nothing but what is in registers, or else the first; None where each
        would overwrite what another needs."""
        near = self.left[: WINDOW if self.eager else 1]
        ready = [item for item in near if all(arg in self.where for arg in _args(item)) and self._allowed(item)]
        settled = [item for item in ready if item in self.operand or (isinstance(item, Write) and self._complete(item))]
        in_place = [item for item in ready if isinstance(item, Step) and any(self._dies(arg) for arg in _args(item))]
        possible = [item for item in near if not any(isinstance(a, Step) and a not in self.where for a in _args(item))]
        return next(iter([*settled, *in_place]), next((item for item in possible if self._allowed(item)), None))

    def _complete(self, item: Write) -> bool:
        """Whether the word beside is not still to be computed."""
        other = self._beside(item)
        return other is None or other.value in self.where

    def _beside(self, item: Write) -> Write | None:
        """The store of the word behind that of ``item``, where one instruction can do both."""
        if item.access.width or not item.access.whole:
            return None
        behind = replace(item.access, offset=item.access.offset + 4)
        return next((i for i in self.left[:WINDOW] if isinstance(i, Write) and i.access == behind), None)

    def _allowed(self, item: Item) -> bool:
        """Whether no variable is overwritten whose value from before something else still needs."""
        if isinstance(item, Write) or self.operand.get(item) not in self.reserved:
            return True
        live_in = self.reserved[self.operand[item]]
        return self.uses[live_in] == (live_in in item.args)

    # --- values -------------------------------------------------------------------------------------------

    def _resident(self, node: Node, item: Item) -> bool:
        """Has a value in a register; reads are issued, two at a time where words follow each other."""
        if node in self.where:
            return True
        assert isinstance(node, Read), "steps stay until their last use"
        if not self.free and not self._drop(set(_args(item))):
            return False
        several = self._following(node)
        if several:
            registers = self._ordered()[: len(several)]
            for read, register in zip(several, registers, strict=True):
                self._take(read, register)
            self._memory(several[0].access, tuple(registers), False)
            self.moved[node.access.pointer] += 4 * len(several)
            return True
        other = self._partner(node)
        if other is None or len(self.free) < 2:
            self._memory(node.access, (self._take(node),), False)
            return True
        first, second = sorted((node, other), key=lambda n: n.access.offset)
        self._memory(first.access, (self._take(first), self._take(second)), False)
        return True

    def _memory(self, access: Access, registers: tuple[str, ...], store: bool) -> None:
        """Accesses memory; one instruction adds a number or a register to an address, not both."""
        single = len(registers) == 1 and len(self.offsets[access.pointer]) == 1
        self._walk(access.pointer, access.place, {0, *_SCALES} if single else {0})
        ahead = access.place - self.places[access.pointer]
        text = _shifted(self.paths[access.pointer].stride, ahead) if ahead else ""
        self.lines.append(_Memory(access, registers, store, text))

    def _walk(self, pointer: int, place: int, near: Set[int]) -> None:
        """Moves a pointer by whole strides until ``place`` is one of ``near`` ahead of it."""
        while (ahead := place - self.places[pointer]) not in near:
            name, sign = ("add", 1) if ahead > 0 else ("sub", -1)
            by = max(n for n in _SCALES if n <= abs(ahead))
            self.places[pointer] += sign * by
            stride = _shifted(self.paths[pointer].stride, by)
            self.lines.append(f"{name} %[p{pointer}], %[p{pointer}], {stride}")

    def _following(self, node: Read) -> list[Read]:
        """The words, three or more, of which ``node`` is one, that are wanted soon and lie where the pointer is."""
        access = node.access
        start = self.minimum[access.pointer] + self.moved[access.pointer]
        if access.pointer not in self.runs or access.offset < start:
            return []
        soon = {arg for item in self.left[:WINDOW] for arg in _args(item) if arg not in self.where}
        words = (Read(replace(access, offset=offset)) for offset in range(start, start + 4 * MANY, 4))
        several = list(takewhile(soon.__contains__, words))
        free = len(self._ordered())
        return several if 3 <= len(several) <= free and node in several else []

    def _partner(self, node: Read) -> Read | None:
        """The word beside ``node`` that is wanted soon, too."""
        if self.alone or not node.access.whole or node.access.width:
            return None
        soon = {arg for item in self.left[: 2 * WINDOW] for arg in _args(item) if arg not in self.where}
        for offset in (node.access.offset + 4, node.access.offset - 4):
            other = Read(replace(node.access, offset=offset))
            if other in soon:
                return other
        return None

    def _read_ahead(self) -> None:
        """Issues the reads of the next items too while there are registers: reads in a row take one cycle each."""
        steps = 0
        for item in self.left[:AHEAD]:
            steps += isinstance(item, Step) and item not in self.operand
            for arg in _args(item):
                if isinstance(arg, Read) and arg not in self.where:
                    patient = arg.access.pointer in self.runs and not self._following(arg)
                    if patient or len(self.free) < 2 + (steps > 0):
                        return
                    self._resident(arg, item)
                    if self.alone:
                        return  # the next one is issued beside the next product

    def _ordered(self) -> list[str]:
        """The free temporaries that one instruction may fill, in the order of their registers."""
        return [register for register in self.temps[:MANY] if register in self.free]

    def _take(self, node: Node, register: str = "") -> str:
        if not register:  # those that one instruction fills are kept for it
            others = (r for r in self.free if r not in self.temps[:MANY]) if self.runs else iter(())
            register = next(others, self.free[0])
        self.free.remove(register)
        if register in self.temps:
            self.maximum = max(self.maximum, self.temps.index(register) + 1)
        self.where[node] = register
        return register

    def _drop(self, keep: set[Node]) -> bool:
        """Gives up the read that is wanted last; it is read again then."""
        reads = [n for n in self.where if isinstance(n, Read) and n not in keep]
        if not reads:
            return False
        wanted = [arg for item in self.left for arg in _args(item)]
        self._release(max(reads, key=wanted.index))
        return True

    def _release(self, node: Node) -> None:
        register = self.where.pop(node)
        if register in self.loose:
            self.free.insert(0, register)

    def _dies(self, node: Node) -> bool:
        """Whether one more use is the last of a value in a temporary."""
        return self.uses[node] == 1 and self.where.get(node) in self.loose

    def _used(self, item: Item) -> None:
        """Counts the uses of an item; what has no more leaves its register."""
        for arg in dict.fromkeys(_args(item)):
            self.uses[arg] -= 1
            if not self.uses[arg] and (not isinstance(arg, LiveIn) or arg in self.killed):
                self._release(arg)

    # --- items --------------------------------------------------------------------------------------------

    def _step(self, item: Step) -> bool:
        args = [self.where[a] for a in item.args]
        self._used(item)
        if item in self.operand:
            self.where[item] = self.operand[item]
        elif self.free or self._drop(set()):
            self._take(item)
        else:
            return False
        self.lines.append(item.text.format(*args, d=self.where[item]))
        return True

    def _write(self, item: Write) -> None:
        """Stores one value, or two words that follow each other."""
        other = self._beside(item)
        registers: tuple[str, ...] = (self.where[item.value],)
        if other and other.value in self.where:
            registers = (*registers, self.where[other.value])
            self.left.remove(other)
            self._used(other)
        self._memory(item.access, registers, True)
        self._used(item)


def _shifted(register: str, times: int) -> str:
    """The register times a number of which shifts make it."""
    return f"{register}, lsl #{_SCALES[times]}" if times > 1 else register


def _args(item: Item) -> tuple[Node, ...]:
    return item.args if isinstance(item, Step) else (item.value,)


def _addressed(lines: list[str | _Memory], temps: int, paths: Sequence[Path]) -> Emitted | None:
    """The lines with addresses: LDM moves its pointer, or the last access does where one instruction
    can. None where something is further away than instructions reach."""
    bases, moves, at = {}, {}, {}
    several = {m.access.pointer for m in lines if isinstance(m, _Memory) and len(m.registers) > 2}
    for pointer, path in enumerate(paths):
        own = [k for k, m in enumerate(lines) if isinstance(m, _Memory) and m.access.pointer == pointer]
        offsets = [_memory(lines[k]).access.offset for k in own]
        last = _memory(lines[own[-1]])
        reach = _PAIR if len(last.registers) == 2 else _NEAR
        moved = path.step != 0 and not path.stride and abs(path.step) <= reach and pointer not in several
        moved = moved and max(offsets) - last.access.offset <= _PAIR and last.access.offset - min(offsets) <= _NEAR
        bases[pointer] = at[pointer] = last.access.offset if moved else min(offsets)
        if moved:
            moves[own[-1]] = path.step
    out = []
    for k, line in enumerate(lines):
        single = isinstance(line, _Memory) and len(line.registers) == 1
        if single and _memory(line).access.offset - at[_memory(line).access.pointer] < -_NEAR:
            return None
        out.append(line if isinstance(line, str) else _text(line, at, moves.get(k, 0)))
        if isinstance(line, _Memory) and len(line.registers) > 2:
            at[line.access.pointer] += 4 * len(line.registers)
    done = {_memory(lines[k]).access.pointer for k in moves}
    for pointer, path in enumerate(paths):
        left = path.step - (at[pointer] - bases[pointer])
        if abs(left) > _FAR:
            return None
        if path.step and pointer not in done and left:
            out.append(f"{'add' if left > 0 else 'sub'} %[p{pointer}], %[p{pointer}], #{abs(left)}")
    ordered = {r for m in lines if isinstance(m, _Memory) and len(m.registers) > 2 for r in m.registers}
    return Emitted(tuple(out), temps, bases, frozenset(several), frozenset(ordered))


def _memory(line: str | _Memory) -> _Memory:
    assert isinstance(line, _Memory)
    return line


def _text(memory: _Memory, bases: Mapping[int, int], move: int) -> str:
    access = memory.access
    at = access.offset - bases[access.pointer]
    name, pointer = ("str" if memory.store else "ldr"), f"%[p{access.pointer}]"
    width = access.width.removeprefix("s") if memory.store else access.width
    suffix = "d" if len(memory.registers) == 2 else width
    listed = ", ".join(memory.registers)
    if len(memory.registers) > 2:
        return f"ldmia {pointer}!, {{{listed}}}"
    if move:
        return f"{name}{suffix} {listed}, [{pointer}], #{move}"
    if memory.ahead:
        return f"{name}{suffix} {listed}, [{pointer}, {memory.ahead}]"
    return f"{name}{suffix} {listed}, [{pointer}{f', #{at}' if at else ''}]"
