"""What identities are called in WGSL: types, constants and variables as text; all integers are ``u32``.

The kernel's statements and values are emitted as for SPIR-V, instruction by instruction; here an identity stands for a
piece of text instead of a number of a module. Integers of 64 bits, which WGSL has none of, are pairs of words.
"""

from __future__ import annotations

import math
import struct
from typing import Final

import numpy as np

from sdk.codegen_c.spirv.words import Words
from sdk.errors import BuildError

__all__ = ["PAIR", "Names"]

PAIR: Final = "vec2<u32>"  # an integer of 64 bits: the lower word, the upper


class Names(Words):
    """The texts of identities, and what stands outside of the kernel's function."""

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}
        self.types: dict[int, str] = {}  # of values
        self.literals: set[int] = set()
        self.declared: list[str] = []
        self._named: dict[str, int] = {}
        super().__init__()

    def named(self, text: str, type: str = "u32") -> int:
        """The identity of what has a name."""
        if text not in self._named:
            self._named[text] = self.set(self.new(), text, type)
        return self._named[text]

    def set(self, identity: int, text: str, type: str) -> int:
        """Says what an identity stands for."""
        self.texts[identity], self.types[identity] = text, type
        return identity

    def need(self, capability: str) -> None:
        """Refuses what no browser has.

        Raises:
            BuildError: f64.
        """
        if capability == "Float64":
            raise BuildError("WGSL has no floating-point numbers of 64 bits")

    def decorate(self, target: int, what: str, *values: int) -> None:
        """Nothing: what is exact is written so."""

    def _once(self, name: str, *operands: int, typed: bool = False) -> int:
        found = super()._once(name, *operands, typed=typed)
        if found not in self.texts:
            if typed:
                type = self.texts[operands[0]]
                self.set(found, self._literal(name, type, operands[1:]), type)
                self.literals.add(found)
            else:
                self.texts[found] = self._type(name, operands)
        return found

    def _type(self, name: str, operands: tuple[int, ...]) -> str:
        match name:
            case "TypeBool":
                return "bool"
            case "TypeInt":
                return PAIR if operands[0] == 64 else "u32"
            case "TypeFloat":
                return "f32"
            case "TypeArray":
                return f"array<{self.texts[operands[0]]}, {self.value_of(operands[1])}>"
            case "TypeStruct":  # the result of a wide product
                return PAIR
            case "TypePointer":
                return self.texts[operands[1]]
        return ""

    def _literal(self, name: str, type: str, parts: tuple[int, ...]) -> str:
        if name in ("ConstantTrue", "ConstantFalse"):
            return name.removeprefix("Constant").lower()
        if type == PAIR:
            return f"{PAIR}({parts[0]}u, {parts[1]}u)"
        if type == "u32":
            return f"{parts[0]}u"
        (value,) = struct.unpack("<f", struct.pack("<I", parts[0]))
        if not math.isfinite(value):  # no literal is infinite, nor may a constant become so: `zero` is none
            return f"bitcast<f32>({parts[0]}u | zero())"
        if (value == 0 and parts[0]) or 0 < abs(value) < 2.0**-126:
            return f"bitcast<f32>({parts[0]}u)"
        return f"{np.float32(value)!s}f"

    def variable(self, storage: str, to: int) -> int:
        """A variable that a group shares."""
        assert storage == "workgroup"
        found = self.new()
        self.declared.append(f"var<workgroup> v{found}: {self.texts[to]};")
        return self.set(found, f"v{found}", self.texts[to])

    def group_size(self, sizes: tuple[int | None, int | None, int | None], usual: tuple[int, int, int]) -> list[int]:
        """The size of a work group, which the text fixes."""
        return [self.number(size) for size in usual]
