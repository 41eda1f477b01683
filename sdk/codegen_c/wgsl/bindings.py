"""Buffers of a kernel in WGSL: words of storage buffers, of which smaller elements are parts.

Items may write other parts of the same word, so narrow stores clear and set their bits by atomics; a buffer that has
them is one of atomic words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from sdk.codegen_c.spirv.code import Code
from sdk.codegen_c.spirv.memory import Features, Memory, Place
from sdk.codegen_c.spirv.scalars import Scalars
from sdk.codegen_c.spirv.words import BUILTINS
from sdk.codegen_c.wgsl.code import Text
from sdk.codegen_c.wgsl.names import Names
from sdk.compiler.ir.loops import Atomic, Buffer, Loops, Param
from sdk.compiler.ir.types import U32, DType
from sdk.compiler.ir.walk import walk
from sdk.compiler.sym import Dim, flat_index, floordiv, max_value
from sdk.errors import BuildError

__all__ = ["Bindings"]

MAX_PRIVATE: Final = 8192  # bytes of all variables of a function: what WGSL's translators promise
MAX_LOCAL: Final = 16384  # bytes that a group shares: WebGPU's default limit
_BUILTINS: Final = {
    BUILTINS["groups"]: "num_workgroups", BUILTINS["group"]: "workgroup_id", BUILTINS["local"]: "local_invocation_id",
    BUILTINS["global"]: "global_invocation_id",
}  # fmt: skip


class Bindings(Memory):
    """Emits accesses; operand k lies in the storage buffer bound as ``places[k]``."""

    def __init__(
        self, code: Code, scalars: Scalars, text: Text, names: Names, loops: Loops, places: Sequence[int],
        aligned: frozenset[str],
    ) -> None:  # fmt: skip
        super().__init__(code, scalars, Features(storage8=False, storage16=False), aligned)
        self.text, self.names, self.bound = text, names, places
        self.written = [
            any(p.mode != "read" for p, at in zip(loops.params, places, strict=True) if at == k)
            for k in range(max(places, default=-1) + 1)
        ]
        targets = {s.buffer for s in walk(loops.body) if isinstance(s, Atomic)}
        parted = [at for p, at in zip(loops.params, places, strict=True)
                  if p.buffer.name in targets or (p.mode != "read" and p.buffer.dtype.bits < 32)]  # fmt: skip
        self.atomic = frozenset(parted)
        self.head = [
            f"@group(0) @binding({k}) var<storage, {'read_write' if written else 'read'}> b{k}: "
            f"array<{'atomic<u32>' if k in self.atomic else 'u32'}>;"
            for k, written in enumerate(self.written)
        ]
        self._variables = [names.named(f"b{k}") for k in range(len(self.written))]
        text.atomic |= {self._variables[k] for k in self.atomic}
        self._private = 0

    def push(self, count: int) -> Callable[[int], int]:
        """Declares the uniform buffer of so many words, behind which one is 0."""
        self.head.append(
            f"@group(0) @binding({len(self.written)}) var<uniform> numbers: array<vec4<u32>, {count // 4 + 1}>;"
        )
        self.zero = f"numbers[{count // 4}].{'xyzw'[count % 4]}"
        word = self.names.named
        return lambda k: self.code.op("Load", self.words.uint(), word(f"numbers[{k // 4}].{'xyzw'[k % 4]}"))

    def builtin(self, number: int, component: int) -> int:
        """A component of a vector that tells an item where it is."""
        return self.names.named(f"{_BUILTINS[number]}.{'xyz'[component]}")

    def operand(self, param: Param, binding: int, offset: int) -> None:
        """Declares a parameter; ``offset`` is the word of bytes at which it begins."""
        buffer = param.buffer
        bits = max(buffer.dtype.bits, 8)
        if buffer.dtype.is_float and bits == 64:
            self.words.need("Float64")
        shift = {8: 0, 16: 1, 32: 2, 64: 3}[bits]
        begins = self.scalars.op("ShiftRightLogical", U32, offset, self.scalars.u32(shift)) if shift else offset
        variable = self._variables[self.bound[binding]]
        self.places[buffer.name] = Place(buffer, variable, "buffer", self.words.uint(), begins, bits < 32)

    def temporary(self, buffer: Buffer) -> None:
        """Declares an array of the item or, in space "local", of the group.

        Raises:
            BuildError: it has no upper bound, or all of them are larger than what there is room for.
        """
        super().temporary(buffer)
        if self.local_bytes > MAX_LOCAL:
            raise BuildError(f"the arrays of a group take {self.local_bytes} bytes, WebGPU promises {MAX_LOCAL}")
        if buffer.space != "local":
            self._private += (max_value(buffer.type.size) or 0) * max(buffer.dtype.bits, 32) // 8 * buffer.dtype.lanes
            if self._private > MAX_PRIVATE:
                raise BuildError(f"the arrays of a work item take {self._private} bytes, WGSL promises {MAX_PRIVATE}")

    def load(self, name: str, at: int, kind: DType) -> int:
        """A scalar as a value of ``kind``."""
        held = self.places[name]
        if held.storage != "buffer" or held.packed:
            return super().load(name, at, kind)
        read = partial(self.code.load, self.words.uint())
        if kind.bits != 64:
            return self._as_value(read(self.pointer(name, at)), held.buffer.dtype.scalar, kind)
        low, high = (read(self.pointer(name, word)) for word in self._halves(at))
        return self.code.fresh("CompositeConstruct", self.words.uint(64), low, high)

    def store(self, name: str, at: int, kind: DType, value: int) -> None:
        """Writes a value of ``kind``."""
        held, s = self.places[name], self.scalars
        if held.storage != "buffer" or held.packed or kind.bits < 32:
            super().store(name, at, kind, value)
        elif kind.bits == 64:
            for k, word in enumerate(self._halves(at)):
                part = self.code.op("CompositeExtract", self.words.uint(), value, k)
                self.code.store(self.pointer(name, word), part)
        else:
            self.code.store(self.pointer(name, at), s.bits_of(value, kind))

    def is_vector(self, name: str, index: tuple[Dim, ...], kind: DType) -> bool:
        """Whether an access is one of narrow elements that are whole words together."""
        return kind.bits < 32 and super().is_vector(name, index, kind)

    def load_words(self, name: str, index: tuple[Dim, ...], kind: DType, word: Callable[[Dim], int]) -> list[int]:
        """The words of a vector."""
        return [self.code.load(self.words.uint(), p) for p in self._pointers(name, index, kind, word)]

    def store_words(
        self, name: str, index: tuple[Dim, ...], kind: DType, words: list[int], word: Callable[[Dim], int]
    ) -> None:
        """Writes the words of a vector."""
        for pointer, value in zip(self._pointers(name, index, kind, word), words, strict=True):
            self.code.store(pointer, value)

    def _pointers(self, name: str, index: tuple[Dim, ...], kind: DType, word: Callable[[Dim], int]) -> list[int]:
        held, s, count = self.places[name], self.scalars, kind.lanes * kind.bits // 32
        assert held.begins is not None
        begins = s.op("ShiftRightLogical", U32, held.begins, s.u32((32 // kind.bits).bit_length() - 1))
        at = s.op("IAdd", U32, begins, word(floordiv(flat_index(index, held.buffer.shape), kind.lanes) * count))
        return [self.pointer(name, self.after(at, k)) for k in range(count)]

    def _halves(self, at: int) -> tuple[int, int]:
        """The words of an element of 64 bits."""
        first = self.scalars.op("ShiftLeftLogical", U32, at, self.scalars.u32(1))
        return first, self.scalars.op("IAdd", U32, first, self.scalars.u32(1))
