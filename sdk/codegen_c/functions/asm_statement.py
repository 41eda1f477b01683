"""A statement of inline assembly in GNU C: its lines, its operands, and what each of them holds before."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Final

from sdk.compiler.ir.loops import ValueExpr
from sdk.compiler.sym import Dim

__all__ = ["COUNTER", "Operand", "Operands", "Pointer", "Statement"]

ORDERED: Final = ("r8", "r9", "r10", "r11")  # temporaries that one instruction fills: those that others can spare best
ALL: Final = 13  # operands with which a statement has every register that there is
CHANGED: Final = 7  # variables that a statement reads and changes for which compilers find registers by themselves
COUNTER: Final = "n"  # the operand that counts iterations


@dataclass(frozen=True, slots=True)
class Pointer:
    """The address so many bytes behind the start of a buffer."""

    buffer: str
    offset: Dim


@dataclass(frozen=True, slots=True)
class Operand:
    """``%[name]`` with its constraint, and the C text it stands for. ``holds`` is what that is before the statement: a
    value, a number of bytes or iterations, an address; None for what is only written."""

    name: str
    constraint: str
    text: str
    holds: ValueExpr | Dim | Pointer | None

    def __str__(self) -> str:
        return f'[{self.name}] "{self.constraint}"({self.text})'


@dataclass(frozen=True, slots=True)
class Statement:
    """``lines`` of assembly over ``operands``; ``declared`` are the variables of its own. It is skipped unless
    ``guard`` (C text; empty: never skipped) holds, and does ``count`` iterations (None: it is no loop), of
    ``unrolled`` iterations of the loop that it stands for each."""

    lines: tuple[str, ...]
    operands: tuple[Operand, ...]
    declared: tuple[str, ...]
    count: Dim | None
    unrolled: int
    guard: str

    @property
    def height(self) -> int:
        """The lines of its block."""
        return len(self.printed())

    def printed(self) -> list[str]:
        """The block of C that holds the statement."""
        outputs, inputs = ([str(o) for o in self.operands if (o.constraint != "r") == out] for out in (True, False))
        text = ["__asm__ volatile(", *(f'    "{line}\\n"' for line in self.lines)]
        text += [f"    : {', '.join(outputs)}", f"    : {', '.join(inputs)}"]
        text.append('    : "cc", "memory");')
        head = f"if ({self.guard}) {{" if self.guard else "{"
        return [head, *("    " + line for line in (*self.declared, *text)), "}"]


class Operands:
    """Collects the operands of a statement, and what is declared for them. What changes shares no register with
    anything that is only read, whatever that holds."""

    def __init__(self, fresh: Callable[[str], str]) -> None:
        self.fresh = fresh
        self.declared: list[str] = []
        self.moving: list[tuple[str, str]] = []
        self.starts: dict[str, str] = {}  # the C types of pointers that stay
        self.outputs: list[Operand] = []
        self.inputs: list[Operand] = []

    def all(self) -> tuple[Operand, ...]:
        """The operands, those that change first."""
        return (*self.outputs, *self.inputs)

    def variable(self, name: str, text: str, holds: ValueExpr | None) -> None:
        """A variable of the C around that changes; None: what it held before is not used."""
        self.outputs.append(Operand(name, "=&r" if holds is None else "+&r", text, holds))

    def value(self, name: str, text: str, holds: ValueExpr | Dim) -> None:
        """A value that is only read."""
        self.inputs.append(Operand(name, "r", text, holds))

    def pointer(self, name: str, start: str, holds: Pointer, const: str, moves: bool) -> None:
        """An induction pointer."""
        if moves:
            self._moving(name, f"{const}void *", name, start, holds)
        else:
            self.inputs.append(Operand(name, "r", start, holds))
            self.starts[name] = f"{const}void *"

    def filled(self, names: Sequence[str]) -> None:
        """Registers that the statement fills itself."""
        if names:
            fresh = [self.fresh(name) for name in names]
            self.declared.append(f"uint32_t {', '.join(fresh)};")
            self.outputs += [Operand(name, "=&r", text, None) for name, text in zip(names, fresh, strict=True)]

    def counter(self, text: str, count: Dim) -> None:
        """The register that counts iterations."""
        self._moving(COUNTER, "int32_t ", "iterations", text, count)

    def _moving(self, name: str, type: str, stem: str, start: str, holds: Dim | Pointer) -> None:
        variable = self.fresh(stem)
        self.moving.append((f"{type}{variable}", start))
        self.outputs.append(Operand(name, "+&r", variable, holds))

    def temporaries(self, count: int, ordered: Set[str]) -> None:
        """The temporaries; those ``ordered`` have registers of their own, and so have pointers where more changes than
        compilers find registers for, or where there is no register beside: GCC on a core with an FPU says then that
        constraints are impossible."""
        names = {f"t{k}": self.fresh(f"t{k}") for k in range(count)}
        fixed = [operand for operand in names if f"%[{operand}]" in ordered]
        free = [name for operand, name in names.items() if operand not in fixed]
        crowded = sum(output.constraint[0] == "+" for output in self.outputs) > CHANGED
        spare: Sequence[str] = ORDERED[len(fixed) :] if crowded else ()
        for (variable, value), register in zip_longest(self.moving, spare[: len(self.moving)]):
            pinned = ("register ", f' __asm__("{register}")') if register else ("", "")
            self.declared.append(f"{variable.join(pinned)} = {value};")
        if not self.moving and len(self.outputs) + len(self.inputs) + count >= ALL:
            self._pin(ORDERED[len(fixed) :])
        for operand, register in zip(fixed, ORDERED, strict=False):
            self.declared.append(f'register uint32_t {names[operand]} __asm__("{register}");')
        if free:
            self.declared.append(f"uint32_t {', '.join(free)};")
        self.outputs += [Operand(operand, "=&r", name, None) for operand, name in names.items()]

    def _pin(self, registers: Sequence[str]) -> None:
        """Gives pointers that stay registers of their own."""
        for (name, type), register in zip(self.starts.items(), registers, strict=False):
            k = next(k for k, operand in enumerate(self.inputs) if operand.name == name)
            variable = self.fresh(name)
            self.declared.append(f'register {type}{variable} __asm__("{register}") = {self.inputs[k].text};')
            self.inputs[k] = replace(self.inputs[k], text=variable)
