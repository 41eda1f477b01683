"""What an instruction is to C: the operation and types it is for, the capabilities it needs, the text that says it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from sdk.codegen_c.functions.instructions.operations import OWN
from sdk.compiler.ir.intrinsics import INTRINSICS

__all__ = ["Instruction", "InstructionSet", "Line", "expression", "filled", "function", "line"]

_HOLE: Final = re.compile(r"\{(\d)(?::([^}]+))?\}")


@dataclass(frozen=True, slots=True)
class Instruction:
    """The C text and the assembly of each operation of ``ops`` where types fit and the target has every feature of
    ``needs``. What an operation computes is said in ``INTRINSICS`` and ``OWN``, or for those of ``MEMORY`` there.

    Attributes:
        ops: operations that the text is the same for.
        types: shell patterns of the result's type, then of the arguments'; the last one repeats.
        text: C, in which ``{0}`` is an argument, ``{0:int}`` one that must be a literal, ``@name`` a function or vector
            type, ``$T`` the result's type, ``$0`` the type of argument 0. "": C has it as assembly only.
        needs: capabilities of boards, and "vectors" or "words": short vectors are vector registers, or packed in one
            32-bit word.
        small: it holds only where |argument 0| <= 2**30.
        functions: the C functions that the text calls, by name; in their text ``@@`` is their own name.
        assembly: the line of assembly that does it, as list scheduling places it ("": none, or several): ``{d}`` is the
            register of the result, ``{0}`` that of an argument, ``{1:1..31}`` a literal of that range, ``{3:b|t}`` the
            letter that a literal chooses.
        products: how many products the line adds to argument 0; where any, the result best replaces that.
    """

    ops: tuple[str, ...]
    types: tuple[str, ...]
    text: str
    needs: frozenset[str]
    small: bool = False
    functions: Mapping[str, str] = field(default_factory=dict)
    assembly: str = ""
    products: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """A line of assembly whose literals are filled in: ``{d}`` in its ``text`` is the register of the result, ``{0}``,
    ``{1}`` … are those of the arguments ``args`` of the operation, in the order in which they appear."""

    text: str
    args: tuple[int, ...]
    products: int


@dataclass(frozen=True, slots=True)
class InstructionSet:
    """The instructions of an architecture, in any order; ``functions`` are C functions that several of them use, or the
    printer by itself; ``header`` is the compiler's header that all of its functions need ("": none)."""

    instructions: tuple[Instruction, ...]
    functions: Mapping[str, str] = field(default_factory=dict)
    header: str = ""


def expression(
    ops: str,
    types: str,
    text: str,
    needs: str = "",
    *,
    small: bool = False,
    functions: Mapping[str, str] | None = None,
    assembly: str = "",
    products: int = 0,
) -> Instruction:
    """An instruction that is an expression of C; ``ops``, ``types`` and ``needs`` are words."""
    words = tuple(ops.split()), tuple(types.split())
    return Instruction(*words, text, frozenset(needs.split()), small, functions or {}, assembly, products)


def function(
    name: str,
    ops: str,
    types: str,
    body: str,
    needs: str = "",
    *,
    call: str = "",
    small: bool = False,
    assembly: str = "",
    products: int = 0,
) -> Instruction:
    """An instruction that is a C function of the text ``body``, called with the operation's arguments in their order
    where ``call`` does not say how."""
    if not call:
        first = ops.split()[0]
        arity = (OWN[first] if first in OWN else INTRINSICS[first]).arity
        call = f"@{name}({', '.join(f'{{{k}}}' for k in range(arity))})"
    own = {name: body}
    return expression(ops, types, call, needs, small=small, functions=own, assembly=assembly, products=products)


def line(ops: str, types: str, assembly: str, needs: str, products: int = 0) -> Instruction:
    """An instruction for which C has an operator, or nothing shorter than several: its assembly only."""
    return expression(ops, types, "", needs, assembly=assembly, products=products)


def filled(one: Instruction, literals: Sequence[int | None]) -> Line | None:
    """The assembly of an instruction where arguments are ``literals`` (None: registers); None where it takes no such
    literal, or needs one."""
    order: list[int] = []
    for match in _HOLE.finditer(one.assembly):
        k, literal = int(match[1]), literals[int(match[1])]
        if match[2] and (literal is None or literal not in _allowed(match[2])):
            return None
        if not match[2] and k not in order:
            order.append(k)

    def put(match: re.Match[str]) -> str:
        return _allowed(match[2])[literals[int(match[1])] or 0] if match[2] else f"{{{order.index(int(match[1]))}}}"

    return Line(_HOLE.sub(put, one.assembly), tuple(order), one.products) if one.assembly else None


@lru_cache(maxsize=256)
def _allowed(spec: str) -> dict[int, str]:
    """The text of each literal that a place in a line takes."""
    lo, dots, hi = spec.partition("..")
    return {k: str(k) for k in range(int(lo), int(hi) + 1)} if dots else dict(enumerate(spec.split("|")))
