"""Where buffers of a kernel live in C, and how their elements are addressed."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from sdk.codegen_c.functions.dims import DimPrinter
from sdk.codegen_c.functions.thumb import Memory
from sdk.compiler.analysis.dependence import row_axis
from sdk.compiler.ir.loops import Buffer
from sdk.compiler.ir.types import DType
from sdk.compiler.sym import Dim, Var, flat_index, floordiv, mod, prove_eq

__all__ = ["Addresses", "Index", "Place", "is_mask"]

Index = tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a buffer lives: memory at ``c_name``, an array of ``element`` registers, or scalars by index."""

    buffer: Buffer
    c_name: str = ""
    element: DType | None = None
    scalars: dict[Index, str] = field(default_factory=dict)


class Addresses:
    """Prints offsets. ``starts`` gives the byte offset of each scratch buffer, ``packed`` are the parameters laid out
    for the kernel; ``slots`` are texts that stand for the variables which offsets of rings are made of."""

    def __init__(self, dims: DimPrinter, starts: Mapping[str, int], packed: Set[str]) -> None:
        self.dims, self.starts, self.packed = dims, starts, packed
        self.slots: dict[Var, str] = {}
        self.known: dict[tuple[int, Index, bool], tuple[Place, Memory | None]] = {}  # whose places live as long

    def offset(self, place: Place, index: Index, unit: int = 1) -> str:
        """The row-major offset of ``index`` in scalars (or groups of ``unit``); rows of a ring wrap."""
        buffer = place.buffer
        dims = list(index)
        if buffer.ring is not None:
            axis = row_axis(buffer.shape)
            wrapped = self.dims.slot(dims[axis], buffer.ring)
            slot = Var(f"slot of {wrapped}", 0, max(buffer.ring - 1, 1))
            self.slots[slot] = wrapped
            dims[axis] = slot.expr if buffer.ring > 1 else 0
        return self.dims.text(floordiv(flat_index(dims, buffer.shape) * buffer.dtype.lanes, unit))

    def whole(self, place: Place, index: Index) -> bool:
        """Whether an address is proved a multiple of 4: in scratch, or in constants laid out for this kernel."""
        buffer = place.buffer
        if buffer.ring is not None or not (buffer.space == "scratch" or buffer.name in self.packed):
            return False
        start = self.starts.get(buffer.name, 0)
        return prove_eq(mod(flat_index(index, buffer.shape) * buffer.dtype.nbytes + start, 4), 0) is True

    def memory(self, place: Place, index: Index, constant: bool) -> Memory | None:
        """Where an element lies, if not in a register, nor in a ring, whose rows wrap."""
        key = (id(place), index, constant)
        if key not in self.known:
            self.known[key] = place, self._memory(place, index, constant)
        return self.known[key][1]

    def _memory(self, place: Place, index: Index, constant: bool) -> Memory | None:
        buffer = place.buffer
        if place.element is not None or buffer.ring is not None or buffer.dtype.lanes > 1:
            return None
        offset = flat_index(index, buffer.shape) * buffer.dtype.nbytes
        whole = buffer.dtype.nbytes == 4 or self.whole(place, index)
        return Memory(buffer.name, offset, buffer.space == "scratch", constant, whole)

    def element(self, place: Place, offset: Dim) -> str:
        """The element so many bytes behind the start of a buffer."""
        return f"{place.c_name}[{self.dims.text(floordiv(offset, place.buffer.dtype.nbytes))}]"


def is_mask(type: DType) -> bool:
    """Whether values are lanes of bool: bytes in memory, the mask of a comparison in a register."""
    return type.kind == "b" and type.lanes > 1
