"""One C file in the making: the target's features, and the vector types and helpers its code has used."""

from __future__ import annotations

import re
from typing import Final

from sdk.codegen_c.functions.helpers import helper_header, helper_text
from sdk.codegen_c.functions.instructions.mve import compared
from sdk.codegen_c.functions.names import scalar_name
from sdk.compiler.ir.types import DType, dtype
from sdk.compiler.machines.lookup import machine_for
from sdk.compiler.schedules.validate import Check
from sdk.errors import BuildError

__all__ = ["Unit"]

_LANES: Final = re.compile(r"([iuf]\d+x\d+)(_mem)?")


class Unit:
    """Collects what a file needs ahead of its functions.

    ``isa`` holds the board's capabilities, ``machine`` is what they make; ``features`` adds "vectors" or "words":
    whether short vectors live in vector registers, or four bytes in one 32-bit word. ``check`` is how much its
    assembly is tried.
    """

    def __init__(self, prefix: str, isa: frozenset[str], check: Check = "sample") -> None:
        self.prefix = prefix
        self.check: Check = check
        self.machine = machine_for(isa)
        self.features = isa | {"vectors" if self.machine.vector_bytes else "words"}
        self._typedefs: dict[str, str] = {}
        self._helpers: dict[str, str] = {}
        self._externs: dict[str, str] = {}
        self._headers: dict[str, None] = {}
        self.vectors_used = False
        self.floats_used = False

    def is_word(self, type: DType) -> bool:
        """Whether values of this type are packed in a ``uint32_t``."""
        return (
            "words" in self.features and type.lanes > 1 and not type.is_float and type.lanes * type.bits == 32
        )

    def compares_apart(self, name: str) -> bool:
        """Whether compilers must not look through the masks of comparisons in ``name``, a type or a helper of it."""
        return "mve" in self.features and ("f32x4" in name or name.startswith("first_"))

    def value_type(self, type: DType) -> str:
        """The C type of a value, not of lanes of bool: those have the mask type of a comparison."""
        if type.lanes == 1:
            return scalar_name(type)
        return "uint32_t" if self.is_word(type) else self.vector_type(str(type))

    def vector_type(self, name: str) -> str:
        """The GNU vector type ``name``, e.g. "i32x8"; with "_mem" its form for unaligned, aliasing access, with "_of"
        that for access to elements of its own type, which are aligned."""
        full = f"{self.prefix}_{name}"
        if full not in self._typedefs:
            kind, _, use = name.partition("_")
            lanes = dtype(kind)
            align = {"": 0, "mem": 1, "of": lanes.scalar.nbytes}[use]
            extra = f", aligned({align}), may_alias" if align else ""
            size = f"vector_size({lanes.nbytes}){extra}"
            self._typedefs[full] = f"typedef {scalar_name(lanes)} {full} __attribute__(({size}));"
            self.vectors_used = True
        return full

    def memory_type(self, type: DType, element: DType, whole: bool = False) -> str:
        """The C type to read or write lanes of memory of ``element`` through, aliasing anything: as aligned as those
        are, words at ``whole`` ones.

        LLVM 22 has no masked store to unaligned words for Cortex-M55, which it makes of a choice between a value and
        what was there.
        """
        if not self.is_word(type):
            own = type.scalar == element.scalar and element.nbytes > 1
            return self.vector_type(f"{type}_{'of' if own else 'mem'}")
        full, align = (f"{self.prefix}_word", 4) if whole else (f"{self.prefix}_word_mem", 1)
        self._typedefs.setdefault(full, f"typedef uint32_t {full} __attribute__((aligned({align}), may_alias));")
        return full

    def alias_type(self, type: DType) -> str:
        """The C type of elements in memory that other types share: scratch space."""
        name = scalar_name(type)
        if type.nbytes == 1:
            return name  # character types alias anything already
        full = f"{self.prefix}_{type.scalar}_mem"
        self._typedefs.setdefault(full, f"typedef {name} {full} __attribute__((may_alias));")
        return full

    def helper(self, name: str) -> str:
        """The C name of a helper function; its text, and what that uses, join the file on first use."""
        full = f"{self.prefix}_{name}"
        if full not in self._helpers:
            self._helpers[full] = ""  # holds the place: a helper never needs itself
            text = helper_text(name)
            text = self.expand(compared(text) if self.compares_apart(name) else text)
            header = helper_header(name)
            if header:
                self._headers[header] = None
            del self._helpers[full]
            self._helpers[full] = text
        return full

    def expand(self, text: str) -> str:
        """``text`` with every ``@name`` replaced by the C name of that vector type or helper."""

        def one(match: re.Match[str]) -> str:
            name = match[1]
            return self.vector_type(name) if _LANES.fullmatch(name) else self.helper(name)

        return re.sub(r"@(\w+)", one, text)

    def extern(self, symbol: str, parameters: tuple[str, ...]) -> str:
        """Declares a library function; one symbol keeps one signature.

        Raises:
            BuildError: two calls disagree on the types of the arguments.
        """
        text = f"extern void {symbol}({', '.join(parameters) or 'void'});"
        if self._externs.setdefault(symbol, text) != text:
            raise BuildError(f"library symbol {symbol} is called with different argument types", why=text)
        return symbol

    def helpers(self) -> tuple[str, ...]:
        """The helper functions that were used, each behind those it calls."""
        return tuple(self._helpers.values())

    def preamble(self) -> str:
        """Pragmas, vector types, declarations and helpers, in the order of their first need; "" for none."""
        blocks = ["\n".join(f"#include <{header}>" for header in self._headers)]
        if self.vectors_used:
            # gcc notes that wide vectors pass differently on other machines; all functions here are static.
            blocks.append(
                "#if defined(__GNUC__) && !defined(__clang__)\n"
                '#pragma GCC diagnostic ignored "-Wpsabi"\n'
                "#endif"
            )
        if self.floats_used:
            blocks.append("#if defined(__clang__)\n#pragma STDC FP_CONTRACT OFF\n#endif")
        blocks.append("\n".join([*self._typedefs.values(), *self._externs.values()]))
        blocks += self._helpers.values()
        return "\n\n".join(b for b in blocks if b)
