"""Finds instructions: of those in the files of this folder that fit, the one that needs most."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from sdk.codegen_c.functions.instructions.model import Instruction, InstructionSet, Line, filled
from sdk.compiler.ir.types import DType

__all__ = ["FUNCTIONS", "HEADERS", "INSTRUCTION_SETS", "assembly_line", "fits", "in_order", "instruction_text"]


def in_order(instructions: Iterable[Instruction]) -> tuple[Instruction, ...]:
    """Instructions in the order in which they are asked: those that need most first, then those for small arguments,
    then those that hold a literal."""
    return tuple(sorted(instructions, key=lambda one: (-len(one.needs), not one.small, ":" not in one.assembly)))


def _found() -> Iterator[tuple[str, InstructionSet]]:
    """``SET`` of every module of this folder that has one."""
    package = importlib.import_module("sdk.codegen_c.functions.instructions")
    for name in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
        if name != "lookup":
            found = getattr(importlib.import_module(f"sdk.codegen_c.functions.instructions.{name}"), "SET", None)
            if found is not None:
                yield name, found


INSTRUCTION_SETS: Final = dict(_found())
# C functions of all sets by name, and the header that each needs
FUNCTIONS: Final = {
    name: text
    for own in INSTRUCTION_SETS.values()
    for functions in (own.functions, *(one.functions for one in own.instructions))
    for name, text in functions.items()
}
HEADERS: Final = {
    name: own.header
    for own in INSTRUCTION_SETS.values()
    if own.header
    for functions in (own.functions, *(one.functions for one in own.instructions))
    for name in functions
}


def _by_operation() -> dict[str, tuple[Instruction, ...]]:
    """The instructions of each operation, in order."""
    every = in_order(one for own in INSTRUCTION_SETS.values() for one in own.instructions)
    ops = dict.fromkeys(op for one in every for op in one.ops)
    return {op: tuple(one for one in every if op in one.ops) for op in ops}


_BY_OPERATION: Final = _by_operation()


def fits(one: Instruction, types: tuple[DType, ...]) -> bool:
    """Whether an instruction is for these types: the result's, then the arguments'."""
    padded = one.types + one.types[-1:] * (len(types) - len(one.types))
    return all(fnmatchcase(str(type), pattern) for type, pattern in zip(types, padded, strict=False))


@lru_cache(maxsize=4096)
def instruction_text(op: str, types: tuple[DType, ...], features: frozenset[str], small: bool = False) -> str | None:
    """The C text of ``op`` with these types (the result's first) on a target with ``features``; ``small``: argument 0
    is at most 2**30. None where no instruction is declared: it is an ordinary operator of C, or has none."""
    for one in _BY_OPERATION.get(op, ()):
        if one.text and one.needs <= features and (small or not one.small) and fits(one, types):
            text = one.text.replace("$T", str(types[0]))
            for k, type in enumerate(types[1:]):
                text = text.replace(f"${k}", str(type))
            return text
    return None


def assembly_line(
    op: str, types: tuple[DType, ...], features: frozenset[str], literals: tuple[int | None, ...]
) -> Line | None:
    """The line of assembly for ``op`` with these types (the result's first) on a target with ``features``, where
    arguments are ``literals`` (None: registers); None where no instruction does it in one line."""
    for one in _BY_OPERATION.get(op, ()):
        if one.needs <= features and fits(one, types):
            found = filled(one, literals)
            if found is not None:
                return found
    return None
