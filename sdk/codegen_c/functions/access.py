"""Buffers of a loops function in C: declared as pointers, arrays or scalars, read and written by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from sdk.codegen_c.functions.dims import ATOM, UNARY, DimPrinter
from sdk.codegen_c.functions.expr import CValue, ValuePrinter
from sdk.codegen_c.functions.instructions.lookup import instruction_text
from sdk.codegen_c.functions.names import Scope, scalar_name
from sdk.codegen_c.functions.places import Addresses, Index, Place, is_mask
from sdk.codegen_c.functions.unit import Unit
from sdk.codegen_c.functions.wide import accesses, follow, parts, register_uses, straight_runs
from sdk.compiler.ir.loops import Atomic, Block, Buffer, Let, Load, Stmt, Store
from sdk.compiler.ir.types import I8, DType
from sdk.compiler.ir.walk import walk
from sdk.compiler.sym import flat_index, floordiv, product
from sdk.errors import BuildError

__all__ = ["Accesses"]

_LOCAL_BYTES: Final = 64


class Accesses:
    """What declares the buffers of a function, and reads and writes them.

    ``places`` are those in scope, ``pending`` the C types of scalars that their first store declares, ``cursors`` the
    pointers that walk over what wide reads read, ``hoisted`` the variables of what was read before a loop, ``wide`` the
    register buffers of wide reads. ``scratch`` gives the byte offset of each scratch buffer; ``line`` takes a line of
    C.
    """

    def __init__(
        self, unit: Unit, dims: DimPrinter, addresses: Addresses, scope: Scope, scratch: Mapping[str, int],
        line: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.unit = unit
        self.dims = dims
        self.addresses = addresses
        self.scope = scope
        self.offsets = scratch
        self.values = ValuePrinter(unit, dims, self.load, lambda name: scope.lookup(("let", name)))
        self.places: dict[str, Place] = {}
        self.pending: dict[tuple[str, Index], str] = {}
        self.cursors: dict[str, str] = {}
        self.hoisted: dict[tuple[str, Index], str] = {}
        self.wide: frozenset[str] = frozenset()
        self._line = line
        self._found: dict[int, tuple[Stmt, tuple[Load | Store | Atomic, ...]]] = {}

    def declare(self, buffer: Buffer, rest: tuple[Stmt, ...]) -> None:
        """Declares a buffer for ``rest``, what follows in its block; one that nothing there uses is left out.

        Raises:
            BuildError: an array of more than the stack takes, or a register buffer of several types.
        """
        if not any(node.buffer == buffer.name for _, nodes in self._with_accesses(rest) for node in nodes):
            return
        if buffer.space == "register":
            self.places[buffer.name] = self._registers(buffer, rest)
            return
        c_name = self.scope.declare(("buffer", buffer.name), buffer.name)
        self.places[buffer.name] = Place(buffer, c_name)
        if buffer.space == "scratch":
            type = self.unit.alias_type(buffer.dtype)
            offset = self.offsets[buffer.name]
            start = f"(scratch + {offset})" if offset else "scratch"
            cast = f"({type} *)" if buffer.dtype.nbytes == 1 else f"({type} *)(void *)"
            cast = "" if type == "uint8_t" else cast
            self._line(f"{type} *const {c_name} = {cast}{start};")
            return
        size = buffer.type.max_bytes
        if size > _LOCAL_BYTES:
            raise BuildError(f"local array {buffer.name} has {size} bytes; the stack takes at most {_LOCAL_BYTES}")
        self._line(f"{scalar_name(buffer.dtype)} {c_name}[{size // buffer.dtype.scalar.nbytes}];")

    def _with_accesses(self, stmts: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, tuple[Load | Store | Atomic, ...]]]:
        """Statements with their accesses, which are found once: every buffer of a block asks for them."""
        for stmt in stmts:
            if id(stmt) not in self._found:
                self._found[id(stmt)] = stmt, accesses(stmt)  # with the statement, so that no other gets its id
            yield self._found[id(stmt)]

    def _registers(self, buffer: Buffer, rest: tuple[Stmt, ...]) -> Place:
        """Scalars where every index is a constant and every access has one type, else an array.

        A scalar whose first use is a plain store in this block is declared there."""
        uses, types = register_uses(buffer, self._with_accesses(rest), buffer.name in self.wide)
        constant = all(isinstance(d, int) for index in uses for d in index)
        if len(types) != 1:
            raise BuildError(f"register buffer {buffer.name} is used as {' and '.join(sorted(map(str, types)))}")
        (element,) = types
        type = self._mask_type(buffer, element, rest) if is_mask(element) else self.unit.value_type(element)
        if not constant:
            c_name = self.scope.declare(("buffer", buffer.name), buffer.name)
            count = floordiv(product(buffer.shape) * buffer.dtype.lanes, element.lanes)
            self._line(f"{type} {c_name}[{self.dims.text(count)}];")
            return Place(buffer, c_name, element)
        scalars: dict[Index, str] = {}
        for index, direct in uses.items():
            name = "_".join([buffer.name, *(str(d) for d in index if len(index) > 0)])
            scalars[index] = self.scope.declare(("register", buffer.name, index), name)
            if direct:
                self.pending[buffer.name, index] = type
            else:
                self._line(f"{type} {scalars[index]};")
        return Place(buffer, "", element, scalars)

    def _mask_type(self, buffer: Buffer, element: DType, rest: tuple[Stmt, ...]) -> str:
        """The C type of a register of lanes of bool: the mask that is stored first."""
        for node in walk(rest):
            if isinstance(node, Let):
                self.values.bound.setdefault(node.name, node.value)
        stores = [n for n in walk(rest) if isinstance(n, Store) and n.buffer == buffer.name]
        self.values.masks[buffer.name] = bits = self.values.mask_bits(stores[0].value) if stores else 8
        return self.unit.vector_type(f"i{bits}x{element.lanes}")

    def point(self, block: Block) -> None:
        """Declares a pointer that walks over what wide reads of a block read, where they follow each other."""
        for name, reads in straight_runs(block, self.wide).items():
            place, type = self.places[name], reads[0].dtype
            known = instruction_text("apart", (type,), self.unit.features)
            if name in self.cursors or known is None or place.buffer.ring is not None:
                continue
            offsets = [flat_index(read.index, place.buffer.shape) for read in reads]
            if all(read.dtype == type for read in reads) and follow(offsets, type.lanes):
                cursor = self.scope.declare(("cursor", name), f"{name}_next")
                at = f"{place.c_name}[{self.addresses.offset(place, reads[0].index)}]"
                self._line(f"const {scalar_name(type)} *{cursor} = &{at};")
                self.cursors[name] = cursor

    def _wide_read(self, load: Load, names: list[str]) -> None:
        """Reads a vector into scalars."""
        known = instruction_text("apart", (load.dtype,), self.unit.features)
        if known and load.buffer in self.cursors:
            into = ", ".join(f"&{name}" for name in names)
            self._line(f"{self.unit.expand(known)}(&{self.cursors[load.buffer]}, {into});")
            return
        *outer, last = load.index
        for k, name in enumerate(names):
            one = replace(load, index=(*outer, last + k), dtype=load.dtype.scalar)
            self._line(f"{name} = {self.values.assigned(one)};")

    def store(self, stmt: Store) -> None:
        """Writes a value, or the lanes that a wide read gives."""
        place = self.places[stmt.buffer]
        if stmt.buffer in self.wide and isinstance(stmt.value, Load):
            self._wide_read(stmt.value, [place.scalars[index] for index in parts(stmt)])
            return
        kind = stmt.value.dtype
        if is_mask(kind) and place.element is None:
            kind, value = I8.with_lanes(kind.lanes), self.values.bytes_of(stmt.value)
        elif is_mask(kind):
            value = self.values.mask(stmt.value, self.values.masks[stmt.buffer])
        else:
            value = self.values.assigned(stmt.value)
        if stmt.count is not None:
            at = f"{place.c_name}[{self.addresses.offset(place, stmt.index)}]"
            helper = self._first_lanes("storen", kind)
            self._line(f"{helper}(&{at}, {self.dims.text(stmt.count)}, {value});")
            return
        declared = self.pending.pop((stmt.buffer, stmt.index), None)
        if declared:
            self._line(f"{declared} {place.scalars[stmt.index]} = {value};")
            return
        self._line(f"{self._target(place, stmt.index, kind, store=True).text} = {value};")

    def load(self, load: Load) -> CValue:
        """An element, a vector, or its first lanes, as they are read."""
        if (load.buffer, load.index) in self.hoisted:
            return CValue(self.hoisted[load.buffer, load.index], ATOM)
        place = self.places[load.buffer]
        if is_mask(load.dtype) and place.element is None:  # bytes of 0 and 1 become masks
            signs = self.load(replace(load, dtype=I8.with_lanes(load.dtype.lanes)))
            return CValue(f"-{signs.text}", UNARY)
        if load.count is not None:
            at = f"{place.c_name}[{self.addresses.offset(place, load.index)}]"
            helper = self._first_lanes("loadn", load.dtype)
            return CValue(f"{helper}(&{at}, {self.dims.text(load.count)})", ATOM)
        target = self._target(place, load.index, load.dtype, store=False)
        if place.element is None and load.dtype.lanes == 1 and load.dtype != place.buffer.dtype.scalar:
            return CValue(f"({scalar_name(load.dtype)}){target.text}", UNARY)
        return target

    def _first_lanes(self, name: str, type: DType) -> str:
        """The helper that loads or stores the first lanes of a vector."""
        known = instruction_text(name, (type,), self.unit.features)
        if not known and self.unit.is_word(type):
            raise BuildError(f"{name} of {type} in a word has no instruction")
        return self.unit.expand(known) if known else self.unit.helper(f"{name}_{type}")

    def _target(self, place: Place, index: Index, type: DType, store: bool) -> CValue:
        """The C lvalue of ``index``."""
        if place.scalars:
            return CValue(place.scalars[index], ATOM)
        if place.element is not None:
            return CValue(f"{place.c_name}[{self.addresses.offset(place, index, place.element.lanes)}]", ATOM)
        at = f"{place.c_name}[{self.addresses.offset(place, index)}]"
        if type.lanes == 1:
            return CValue(at, ATOM)
        masks = place.buffer.dtype.kind == "b"  # whose bytes become lanes of a vector, never one word
        whole = not masks and self.addresses.whole(place, index)
        element = place.buffer.dtype
        memory = self.unit.vector_type(f"{type}_mem") if masks else self.unit.memory_type(type, element, whole)
        return CValue(f"*({'' if store else 'const '}{memory} *)&{at}", UNARY)
