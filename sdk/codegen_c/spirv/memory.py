"""Buffers of a kernel in SPIR-V: operands in storage buffers, temporaries in registers or shared by a group.

Elements of 8 and 16 bits are read and written as such where the device can. Where it cannot they are parts of 32-bit
words: a store then clears and sets its bits by atomics, since other items may write the rest of the word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sdk.codegen_c.spirv.code import Code
from sdk.codegen_c.spirv.scalars import Scalars
from sdk.compiler.analysis.dependence import row_axis
from sdk.compiler.ir.loops import Buffer, Param
from sdk.compiler.ir.types import BOOL, F16, U32, DType
from sdk.compiler.sym import Dim, flat_index, floordiv, grain, max_value
from sdk.errors import BuildError

__all__ = ["MAX_PRIVATE", "Features", "Memory", "Place"]

MAX_PRIVATE: Final = 1 << 16  # bytes of one array of a work item
MAX_LOCAL: Final = 1 << 15  # bytes that a group shares: what every device has
_RELAXED, _DEVICE = 0, 1


@dataclass(frozen=True, slots=True)
class Features:
    """What a device can do with elements of buffers: access 8 or 16 bits."""

    storage8: bool = True
    storage16: bool = True


@dataclass(frozen=True, slots=True)
class Place:
    """A buffer: its variable, the class of storage, element type in memory, and for an operand where it begins, in
    elements; ``single`` where it is a variable rather than an array."""

    buffer: Buffer
    variable: int
    storage: str
    element: int
    begins: int | None = None
    packed: bool = False
    single: bool = False
    binding: int = 0
    read_only: bool = False


class Memory:
    """Emits accesses into ``code``."""

    def __init__(
        self,
        code: Code,
        scalars: Scalars,
        features: Features,
        aligned: frozenset[str] = frozenset(),
        bindings: Sequence[int] = (),
    ) -> None:
        self.code, self.words, self.scalars, self.features = code, code.words, scalars, features
        self.aligned, self.bindings, self.parts = aligned, bindings, frozenset[str]()
        self._vectors: dict[tuple[str, int], int] = {}
        self._parts: dict[str, list[int]] = {}
        self.places: dict[str, Place] = {}
        self.local_bytes = 0
        self._builtins: dict[int, int] = {}

    # --- declarations ----------------------------------------------------------------------------------------

    def push(self, count: int) -> Callable[[int], int]:
        """Declares so many words of push constants; ``push(k)`` reads one."""
        if count == 0:
            return lambda k: self.scalars.u32(0)
        variable = self.words.variable("push", self.words.push_block(count))
        pointer = self.words.pointer("push", self.words.uint())

        def read(k: int) -> int:
            at = self.code.op("AccessChain", pointer, variable, self.scalars.u32(k))
            return self.code.op("Load", self.words.uint(), at)

        return read

    def builtin(self, number: int, component: int) -> int:
        """A component of a vector that tells an item where it is."""
        type = self.words.vector(self.words.uint(), 3)
        if number not in self._builtins:
            variable = self._builtins[number] = self.words.variable("input", type)
            self.words.decorate(variable, "BuiltIn", number)
        whole = self.code.op("Load", type, self._builtins[number])
        return self.code.op("CompositeExtract", self.words.uint(), whole, component)

    def operand(self, param: Param, binding: int, offset: int) -> None:
        """Declares a parameter; ``offset`` is the word of bytes at which it begins."""
        binding = self.bindings[binding] if self.bindings else binding
        buffer, kind = param.buffer, param.buffer.dtype
        bits = max(kind.bits, 8)
        packed = (bits == 8 and not self.features.storage8) or (bits == 16 and not self.features.storage16)
        if packed or (bits == 32 and not kind.is_float):
            element, stride = self.words.uint(), 4
        elif bits < 32:
            self.words.need(f"StorageBuffer{bits}BitAccess")
            element, stride = self.words.uint(bits), bits // 8
        else:
            element, stride = self.scalars.type(kind.scalar), bits // 8
        variable = self._variable(element, stride, binding, param.mode == "read")
        shift = {8: 0, 16: 1, 32: 2, 64: 3}[bits]
        begins = self.code.op("ShiftRightLogical", self.words.uint(), offset, self.scalars.u32(shift))
        self.places[buffer.name] = Place(
            buffer, variable, "buffer", element, begins, packed, False, binding, param.mode == "read"
        )

    def _variable(self, element: int, stride: int, binding: int, read: bool) -> int:
        """What is bound, as an array of elements of a type."""
        variable = self.words.variable("buffer", self.words.block(element, stride))
        self.words.decorate(variable, "DescriptorSet", 0)
        self.words.decorate(variable, "Binding", binding)
        self.words.decorate(variable, "Aliased")
        if read:
            self.words.decorate(variable, "NonWritable")
        return variable

    def temporary(self, buffer: Buffer) -> None:
        """Declares an array of the item or, in space "local", of the group.

        Raises:
            BuildError: it has no upper bound, or is larger than devices have room for.
        """
        size = max_value(buffer.type.size)
        shared = buffer.space == "local"
        limit = MAX_LOCAL if shared else MAX_PRIVATE
        bytes = None if size is None else size * max(buffer.dtype.bits, 32) // 8 * buffer.dtype.lanes
        if size is None or bytes is None or bytes > limit:
            owner = "a group" if shared else "a work item"
            what = "has no upper bound" if bytes is None else f"takes {bytes} bytes"
            raise BuildError(f"the array {buffer.name} {what}, {owner} has {limit} bytes for one")
        element = self.words.uint() if buffer.dtype.kind == "b" else self.scalars.type(buffer.dtype.scalar)
        count = max(size, 1) * buffer.dtype.lanes
        if buffer.name in self.parts:
            self._parts[buffer.name] = [self.code.variable(element) for _ in range(count)]
            self.places[buffer.name] = Place(buffer, 0, "function", element)
            return
        single = count == 1
        type = element if single else self.words.array(element, count)
        if shared:
            self.local_bytes += bytes
            if self.local_bytes > MAX_LOCAL:
                raise BuildError(f"the arrays of a group take {self.local_bytes} bytes, devices have {MAX_LOCAL}")
            variable, storage = self.words.variable("workgroup", type), "workgroup"
        else:
            variable, storage = self.code.variable(type), "function"
        self.places[buffer.name] = Place(buffer, variable, storage, element, single=single)

    # --- accesses --------------------------------------------------------------------------------------------

    def place(self, name: str, index: tuple[Dim, ...], lanes: int, word: Callable[[Dim], int]) -> int:
        """The word that numbers the first scalar of an access in its buffer."""
        held = self.places[name]
        buffer = held.buffer
        if held.single:
            return self.scalars.u32(0)
        flat = flat_index(index, buffer.shape)
        if name in self._parts and isinstance(flat, int):
            return self.scalars.u32(flat * buffer.dtype.lanes)
        first = word(flat) if buffer.ring is None else self._in_ring(buffer, index, buffer.ring, word)
        if buffer.dtype.lanes > 1:
            first = self.scalars.op("IMul", U32, first, self.scalars.u32(buffer.dtype.lanes))
        if held.begins is not None:
            first = self.scalars.op("IAdd", U32, held.begins, first)
        return first

    def _in_ring(self, buffer: Buffer, index: tuple[Dim, ...], rows: int, word: Callable[[Dim], int]) -> int:
        """The same in a ring, whose row ``r`` lies in slot ``r mod rows``; rows are never negative."""
        axis = row_axis(buffer.shape)
        row = self.scalars.op("UMod", U32, word(index[axis]), self.scalars.u32(rows))
        inner: Dim = 1
        for extent in buffer.shape[axis + 1 :]:
            inner = inner * extent
        at = flat_index(index[axis + 1 :], buffer.shape[axis + 1 :])
        return self.scalars.op("IAdd", U32, self.scalars.op("IMul", U32, row, word(inner)), word(at))

    def after(self, first: int, lane: int) -> int:
        """The word that numbers a lane of an access."""
        number = self.words.value_of(first)
        if number is not None:
            return self.scalars.u32(number + lane)
        return self.scalars.op("IAdd", U32, first, self.scalars.u32(lane)) if lane else first

    def pointer(self, name: str, at: int) -> int:
        """A pointer to a scalar of a buffer."""
        held = self.places[name]
        type = self.words.pointer(held.storage, held.element)
        if held.single:
            return held.variable
        if name in self._parts:
            number = self.words.value_of(at)
            assert number is not None
            return self._parts[name][number]
        member = (self.scalars.u32(0),) if held.storage == "buffer" else ()
        return self.code.op("AccessChain", type, held.variable, *member, at)

    def load(self, name: str, at: int, kind: DType) -> int:
        """A scalar as a value of ``kind``."""
        held = self.places[name]
        stored = held.buffer.dtype.scalar
        if held.packed:
            word, shift = self._part(name, at, stored)
            whole = self.code.load(self.words.uint(), word)
            part = self.scalars.op("ShiftRightLogical", U32, whole, shift)
            return self._as_value(part, stored, kind)
        found = self.code.load(held.element, self.pointer(name, at))
        if held.storage == "buffer" and stored.bits < 32:
            return self._as_value(self.scalars.op("UConvert", U32, found), stored, kind)
        if stored.kind == "b":
            return self.scalars.compare("ne", U32, found, self.scalars.u32(0))
        return found if stored == kind else self._as_value(self.scalars.bits_of(found, stored), stored, kind)

    # --- vectors ---------------------------------------------------------------------------------------------

    def is_vector(self, name: str, index: tuple[Dim, ...], kind: DType) -> bool:
        """Whether an access is one of 4, 8 or 16 bytes that begin at a multiple of as many."""
        stored = self.places[name].buffer.dtype
        same = stored == kind.scalar and stored.bits <= 32 and stored.kind != "b" and kind.lanes > 1
        whole = same and kind.lanes * stored.bits in (32, 64, 128) and name in self.aligned
        return whole and grain(flat_index(index, self.places[name].buffer.shape)) % kind.lanes == 0

    def _vector(
        self, name: str, index: tuple[Dim, ...], kind: DType, word: Callable[[Dim], int]
    ) -> tuple[int, int, int]:
        """A pointer to a vector of whole words, its type, and that of a word; there may be one."""
        held, s = self.places[name], self.scalars
        assert held.begins is not None
        element = held.element if held.buffer.dtype.bits == 32 else self.words.uint()
        count = kind.lanes * held.buffer.dtype.bits // 32
        type = self.words.vector(element, count) if count > 1 else element
        if (name, count) not in self._vectors:
            self._vectors[name, count] = self._variable(type, 4 * count, held.binding, held.read_only)
        begins = s.op("ShiftRightLogical", U32, held.begins, s.u32(kind.lanes.bit_length() - 1))
        at = s.op("IAdd", U32, begins, word(floordiv(flat_index(index, held.buffer.shape), kind.lanes)))
        pointer = self.words.pointer("buffer", type)
        return self.code.op("AccessChain", pointer, self._vectors[name, count], s.u32(0), at), type, element

    def load_words(
        self, name: str, index: tuple[Dim, ...], kind: DType, word: Callable[[Dim], int]
    ) -> list[int]:
        """The words of a vector, elements where these are as large."""
        pointer, type, element = self._vector(name, index, kind, word)
        whole = self.code.load(type, pointer)
        count = kind.lanes * kind.bits // 32
        return [self.code.op("CompositeExtract", element, whole, k) for k in range(count)] if count > 1 else [whole]

    def load_vector(
        self, name: str, index: tuple[Dim, ...], kind: DType, word: Callable[[Dim], int]
    ) -> list[int]:
        """The elements of a vector."""
        words = self.load_words(name, index, kind, word)
        if kind.bits == 32:
            return words
        taken = "BitFieldSExtract" if kind.kind == "i" else "BitFieldUExtract"
        s, per = self.scalars, 32 // kind.bits
        return [
            s.op(taken, U32, words[k // per], s.u32(k % per * kind.bits), s.u32(kind.bits)) for k in range(kind.lanes)
        ]

    def store_vector(
        self, name: str, index: tuple[Dim, ...], kind: DType, values: list[int], word: Callable[[Dim], int]
    ) -> None:
        """Writes a vector."""
        self.store_words(name, index, kind, values if kind.bits == 32 else self._joined(kind, values), word)

    def store_words(
        self, name: str, index: tuple[Dim, ...], kind: DType, words: list[int], word: Callable[[Dim], int]
    ) -> None:
        """Writes the words of a vector."""
        pointer, type, _ = self._vector(name, index, kind, word)
        self.code.store(pointer, self.code.op("CompositeConstruct", type, *words) if len(words) > 1 else words[0])

    def _joined(self, kind: DType, values: list[int]) -> list[int]:
        """Narrow elements in words, the first in the lowest bits."""
        s, per = self.scalars, 32 // kind.bits
        mask = s.u32((1 << kind.bits) - 1)
        out = []
        for first in range(0, len(values), per):
            whole = s.op("BitwiseAnd", U32, values[first], mask)
            for k in range(1, per):
                part = s.op("BitwiseAnd", U32, values[first + k], mask)
                whole = s.op("BitwiseOr", U32, whole, s.op("ShiftLeftLogical", U32, part, s.u32(k * kind.bits)))
            out.append(whole)
        return out

    # --- scalars ---------------------------------------------------------------------------------------------

    def _as_value(self, word: int, stored: DType, kind: DType) -> int:
        """The lower bits of a word as a value of ``kind``, which has as many as what is stored."""
        s = self.scalars
        if kind.bits != stored.bits:
            raise BuildError(f"{kind} is read from an array of {stored}")
        if kind == BOOL:
            return s.compare("ne", U32, s.wrap(DType("u", 8), word), s.u32(0))
        if kind.is_float and kind != F16:
            return s.op("Bitcast", kind, word)
        return s.wrap(DType("u", 16) if kind == F16 else kind, word)

    def store(self, name: str, at: int, kind: DType, value: int) -> None:
        """Writes a value of ``kind``."""
        held, s = self.places[name], self.scalars
        stored = held.buffer.dtype.scalar
        if kind.bits != stored.bits:
            raise BuildError(f"{kind} is written to an array of {stored}")
        if kind == BOOL:
            value = s.word_of(value)
        if held.packed:
            self._store_part(name, at, stored, value)
            return
        if held.storage == "buffer" and stored.bits < 32:
            value = self.code.op("UConvert", held.element, value)
        elif stored != kind and not (stored.kind in "iu" and kind.kind in "iu"):
            value = s.bits_of(value, kind)
            value = s.op("Bitcast", stored, value) if stored.is_float and stored != F16 else value
        elif stored.bits < 32 and stored != kind:
            value = s.wrap(stored, value)
        self.code.store(self.pointer(name, at), value)

    def _part(self, name: str, at: int, stored: DType) -> tuple[int, int]:
        """The word that holds a scalar, and by how many bits to shift it."""
        s = self.scalars
        bits = max(stored.bits, 8)
        per = 32 // bits
        word = self.pointer(name, s.op("ShiftRightLogical", U32, at, s.u32(per.bit_length() - 1)))
        within = s.op("BitwiseAnd", U32, at, s.u32(per - 1))
        return word, s.op("ShiftLeftLogical", U32, within, s.u32(bits.bit_length() - 1))

    def _store_part(self, name: str, at: int, stored: DType, value: int) -> None:
        s = self.scalars
        word, shift = self._part(name, at, stored)
        mask = s.u32((1 << max(stored.bits, 8)) - 1)
        kept = s.op("Not", U32, s.op("ShiftLeftLogical", U32, mask, shift))
        put = s.op("ShiftLeftLogical", U32, s.op("BitwiseAnd", U32, value, mask), shift)
        device, relaxed = s.u32(_DEVICE), s.u32(_RELAXED)
        self.code.fresh("AtomicAnd", self.words.uint(), word, device, relaxed, kept)
        self.code.fresh("AtomicOr", self.words.uint(), word, device, relaxed, put)
