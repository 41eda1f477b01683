"""Orders straight code and gives it registers: instructions of Thumb-2 with named operands of an asm statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from sdk.codegen_c.thumb.code import Access, Code, Item, Leaf, Node, Read, Step, Write

__all__ = ["REGISTERS", "Emitted", "emit"]

REGISTERS: Final = 13  # that compilers have to give, one being kept for the frame in code that is not optimised
AHEAD: Final = 8  # instructions whose reads are issued together
_PAIR: Final = 1020  # bytes that LDRD and STRD reach
_NEAR: Final = 255  # bytes that a pointer can be moved by an access, or that one reaches backwards
_FAR: Final = 4095


@dataclass(frozen=True, slots=True)
class Emitted:
    """``lines`` of assembly; ``temps`` registers beside those of variables, leaves and streams; ``bases``: the bytes
    by which pointers of streams start behind what offsets count from."""

    lines: tuple[str, ...]
    temps: int
    bases: dict[int, int]


@dataclass(frozen=True, slots=True)
class _Memory:
    """A line that reads or writes memory: one register, or two of neighbouring words."""

    access: Access
    registers: tuple[str, ...]
    store: bool


def emit(
    code: Code, homes: Mapping[str, str], leaves: Mapping[Leaf, str], steps: Mapping[int, int], counted: bool
) -> Emitted | None:
    """``code`` in instructions, or None where it needs more registers than there are.

    ``homes`` names the operand of each result, ``leaves`` that of each value from before; ``steps`` the bytes by
    which the pointer of each stream moves (0: not at all), ``counted`` whether a register counts turns. The operand of stream ``k`` is ``%[p<k>]``, temporaries are
    ``%[t<k>]``.
    """
    taken = len(set(homes.values()) | set(leaves.values())) + len(steps)
    allocation = _Allocation(code, homes, leaves, REGISTERS - taken - counted)
    if not allocation.run():
        return None
    return _addressed(allocation.lines, allocation.most, steps)


class _Allocation:
    """Walks over the items; values live in temporaries from their computation to their last use, reads may be
    dropped and read again."""

    def __init__(self, code: Code, homes: Mapping[str, str], leaves: Mapping[Leaf, str], temps: int) -> None:
        self.items = code.items
        self.lines: list[str | _Memory] = []
        self.where: dict[Node, str] = dict(leaves)
        self.free = [f"%[t{k}]" for k in range(temps)]
        self.most = 0
        self.uses: dict[Node, list[int]] = {}
        for at, item in enumerate(self.items):
            for arg in _args(item):
                self.uses.setdefault(arg, []).append(at)
        self.home = self._homes(code, homes, leaves)

    def _homes(self, code: Code, homes: Mapping[str, str], leaves: Mapping[Leaf, str]) -> dict[Node, str]:
        """The register of a variable for the sums that end in it, each of which replaces the one before."""
        found: dict[Node, str] = {}
        for name, result in code.results.items():
            node: Node = result
            while isinstance(node, Step):
                found[node] = homes[name]
                if node.sum < 0:
                    break
                before = node.args[node.sum]
                if len(self.uses[before]) != 1 or before in leaves:
                    break
                node = before
        return found

    def run(self) -> bool:
        """Issues all items; whether the registers were enough."""
        if any(self._overwritten(leaf, register) for leaf, register in self.where.items()):
            return False
        at = 0
        while at < len(self.items):
            item = self.items[at]
            if not all(self._resident(arg, at) for arg in _args(item)):
                return False
            self._read_ahead(at)
            if isinstance(item, Write):
                at += self._write(item, at)
                continue
            if not self._step(item, at):
                return False
            at += 1
        return True

    def _overwritten(self, leaf: Node, register: str) -> bool:
        """Whether a variable changes before the last use of what it held."""
        writes = [at for at, item in enumerate(self.items) if isinstance(item, Step) and self.home.get(item) == register]
        return bool(writes) and self.uses[leaf][-1] > writes[0]

    # --- values -------------------------------------------------------------------------------------------

    def _resident(self, node: Node, at: int) -> bool:
        """Has a value in a register; reads are issued, two at a time where words follow each other."""
        if node in self.where:
            return True
        assert isinstance(node, Read), "steps stay until their last use"
        keep = set(_args(self.items[at]))
        if not self.free and not self._drop(at, keep):
            return False
        other = self._partner(node, at)
        if other is None or len(self.free) < 2:
            self.lines.append(_Memory(node.access, (self._take(node),), False))
            return True
        first, second = sorted((node, other), key=lambda n: n.access.offset)
        self.lines.append(_Memory(first.access, (self._take(first), self._take(second)), False))
        return True

    def _partner(self, node: Read, at: int) -> Read | None:
        """The word beside ``node`` that is wanted soon, too."""
        if not node.access.whole or node.access.width:
            return None
        for offset in (node.access.offset + 4, node.access.offset - 4):
            other = Read(replace(node.access, offset=offset))
            if other not in self.where and any(at <= use < at + 2 * AHEAD for use in self.uses.get(other, ())):
                return other
        return None

    def _read_ahead(self, at: int) -> None:
        """Issues the reads of the next items too while there are registers: reads in a row take one cycle each."""
        for later in range(at + 1, min(at + AHEAD, len(self.items))):
            item = self.items[later]
            for arg in _args(item):
                if isinstance(arg, Read) and arg not in self.where:
                    if len(self.free) < 2 + self._temporaries(at, later):
                        return
                    self._resident(arg, later)

    def _temporaries(self, at: int, end: int) -> int:
        """Registers that the items up to ``end`` need for what they make."""
        return sum(isinstance(i, Step) and i not in self.home for i in self.items[at : end + 1])

    def _take(self, node: Node) -> str:
        register = self.free.pop(0)
        self.most = max(self.most, int(register[3:-1]) + 1)
        self.where[node] = register
        return register

    def _drop(self, at: int, keep: set[Node]) -> bool:
        """Gives up the read that is wanted last; it is read again then."""
        reads = [n for n in self.where if isinstance(n, Read) and n not in keep]
        if not reads:
            return False
        self._release(max(reads, key=lambda n: next(use for use in self.uses[n] if use >= at)))
        return True

    def _release(self, node: Node) -> None:
        register = self.where.pop(node)
        if register.startswith("%[t"):
            self.free.insert(0, register)

    def _release_dead(self, item: Item, at: int) -> None:
        for arg in dict.fromkeys(_args(item)):
            if arg in self.where and self.uses[arg][-1] <= at and not isinstance(arg, Leaf):
                self._release(arg)

    # --- items --------------------------------------------------------------------------------------------

    def _step(self, item: Step, at: int) -> bool:
        args = [self.where[a] for a in item.args]
        self._release_dead(item, at)
        if item in self.home:
            self.where[item] = self.home[item]
        elif self.free or self._drop(at + 1, set()):
            self._take(item)
        else:
            return False
        self.lines.append(item.text.format(*args, d=self.where[item]))
        return True

    def _write(self, item: Write, at: int) -> int:
        """Stores one value, or two that follow each other; how many items that were."""
        following = self.items[at + 1] if at + 1 < len(self.items) else None
        registers = (self.where[item.value],)
        if (
            isinstance(following, Write)
            and item.access.whole
            and not item.access.width
            and following.access == replace(item.access, offset=item.access.offset + 4)
            and following.value in self.where
        ):
            registers = (*registers, self.where[following.value])
            self.lines.append(_Memory(item.access, registers, True))
            self._release_dead(item, at)
            self._release_dead(following, at + 1)
            return 2
        self.lines.append(_Memory(item.access, registers, True))
        self._release_dead(item, at)
        return 1


def _args(item: Item) -> tuple[Node, ...]:
    return item.args if isinstance(item, Step) else (item.value,)


def _addressed(lines: list[str | _Memory], temps: int, steps: Mapping[int, int]) -> Emitted:
    """The lines with addresses: the last access of a stream moves its pointer where one instruction can."""
    bases, moves = {}, {}
    for stream, step in steps.items():
        own = [k for k, m in enumerate(lines) if isinstance(m, _Memory) and m.access.stream == stream]
        offsets = [_memory(lines[k]).access.offset for k in own]
        last = _memory(lines[own[-1]])
        reach = _PAIR if len(last.registers) == 2 else _NEAR
        moved = step != 0 and abs(step) <= reach and max(offsets) - last.access.offset <= _PAIR
        moved = moved and last.access.offset - min(offsets) <= _NEAR
        bases[stream] = last.access.offset if moved else min(offsets)
        if moved:
            moves[own[-1]] = step
    out = [line if isinstance(line, str) else _spelled(line, bases, moves.get(k, 0)) for k, line in enumerate(lines)]
    done = {_memory(lines[k]).access.stream for k in moves}
    for stream, step in steps.items():
        if step and stream not in done:
            out.append(f"add %[p{stream}], %[p{stream}], #{step}")
    return Emitted(tuple(out), temps, bases)


def _memory(line: str | _Memory) -> _Memory:
    assert isinstance(line, _Memory)
    return line


def _spelled(memory: _Memory, bases: Mapping[int, int], move: int) -> str:
    access = memory.access
    at = access.offset - bases[access.stream]
    name, pointer = ("str" if memory.store else "ldr"), f"%[p{access.stream}]"
    width = access.width.removeprefix("s") if memory.store else access.width
    suffix = "d" if len(memory.registers) == 2 else width
    listed = ", ".join(memory.registers)
    if move:
        return f"{name}{suffix} {listed}, [{pointer}], #{move}"
    return f"{name}{suffix} {listed}, [{pointer}{f', #{at}' if at else ''}]"
