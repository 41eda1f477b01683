"""What an instruction is to C: the operation and types it is for, the capabilities it needs, the text that says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sdk.compiler.ir.intrinsics import INTRINSICS

__all__ = ["OWN", "Instruction", "InstructionSet", "expression", "function"]

# fmt: off
OWN: Final = (
    "loadn", "storen", "apart", "rescale_product",
    "clamp_i8", "clamp_u8", "clamp_i16", "half_i8", "half_u8", "half_i16",
)
# fmt: on


@dataclass(frozen=True, slots=True)
class Instruction:
    """The C text of each operation of ``ops`` where types fit and the target has every feature of ``needs``.

    What an operation computes is said in ``INTRINSICS``. ``OWN`` are those of the printer: "loadn" and "storen", the
    first lanes of a vector in memory; "apart", a vector read into scalars; "clamp_<type>", what the type holds that is
    nearest to an i32, and "half_<type>", the same of half of it, rounded down; "rescale_product", srdhm30 of the first
    two arguments shifted right by the third less one, and the fourth added.

    Attributes:
        ops: operations that the text is the same for.
        types: shell patterns of the result's type, then of the arguments'; the last one repeats.
        text: C, in which ``{0}`` is an argument, ``{0:int}`` one that must be a literal, ``@name`` a function or vector
            type, ``$T`` the result's type, ``$0`` the type of argument 0.
        needs: capabilities of boards, and "vectors" or "words": short vectors are vector registers, or packed in one
            32-bit word.
        small: it holds only where |argument 0| <= 2**30.
        functions: the C functions that the text calls, by name; in their text ``@@`` is their own name.
    """

    ops: tuple[str, ...]
    types: tuple[str, ...]
    text: str
    needs: frozenset[str]
    small: bool = False
    functions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InstructionSet:
    """The instructions of an architecture, in any order; ``functions`` are C functions that several of them use, or the
    printer by itself; ``header`` is the compiler's header that all of its functions need ("": none)."""

    instructions: tuple[Instruction, ...]
    functions: Mapping[str, str] = field(default_factory=dict)
    header: str = ""


def expression(
    ops: str, types: str, text: str, needs: str = "", *, small: bool = False, functions: Mapping[str, str] | None = None
) -> Instruction:
    """An instruction that is an expression of C; ``ops``, ``types`` and ``needs`` are words."""
    return Instruction(tuple(ops.split()), tuple(types.split()), text, frozenset(needs.split()), small, functions or {})


def function(
    name: str, ops: str, types: str, body: str, needs: str = "", *, call: str = "", small: bool = False
) -> Instruction:
    """An instruction that is a C function of the text ``body``, called with the operation's arguments in their order
    where ``call`` does not say how."""
    if not call:
        arity = INTRINSICS[ops.split()[0]].arity
        call = f"@{name}({', '.join(f'{{{k}}}' for k in range(arity))})"
    return expression(ops, types, call, needs, small=small, functions={name: body})
