"""Layouts: how the elements of a logical array are stored, as steps that each make another array of the one before.

Constants packed for a kernel, tensors blocked by channels and images of texels are values of one type. From it follow
the stored type of a logical one and the stored index of a logical one; ``packing`` moves the elements themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final, assert_never

from sdk.compiler.ir.types import DType, TensorType
from sdk.compiler.sym import Dim, ceildiv, dmax, dmin, flat_index, floordiv, mod, product, prove_eq
from sdk.errors import BuildError

__all__ = [
    "ROW_MAJOR",
    "Fuse",
    "Interleave",
    "Join",
    "Layout",
    "Pad",
    "Permute",
    "Records",
    "Scale",
    "Step",
    "Tile",
    "Widen",
]

Shape = tuple[Dim, ...]
JOINED_BITS: Final = 32  # of the widest word that elements are joined in


@dataclass(frozen=True, slots=True)
class Permute:
    """Axis ``k`` of what is stored is axis ``order[k]``."""

    order: tuple[int, ...]

    @classmethod
    def identity(cls, rank: int) -> Permute:
        """The permutation that moves nothing."""
        return cls(tuple(range(rank)))

    @property
    def is_identity(self) -> bool:
        """Whether nothing moves."""
        return self.order == tuple(range(len(self.order)))

    def inverse(self) -> Permute:
        """What undoes this one."""
        return Permute(tuple(self.order.index(k) for k in range(len(self.order))))

    def then(self, second: Permute) -> Permute:
        """This one, then ``second``, as one."""
        return Permute(tuple(self.order[k] for k in second.order))

    def shape(self, shape: Sequence[Dim]) -> Shape:
        """The shape that a tensor of ``shape`` has then."""
        return tuple(shape[k] for k in self.order)


@dataclass(frozen=True, slots=True)
class Fuse:
    """Axes ``first`` to ``last``, which counts from the end where it is negative, become one; where there is none
    between them, one of extent 1."""

    first: int
    last: int

    def end(self, rank: int) -> int:
        """The axis behind the last one, of ``rank`` axes."""
        return self.last + 1 if self.last >= 0 else rank + self.last + 1


@dataclass(frozen=True, slots=True)
class Tile:
    """An axis is cut in tiles of ``size``: in its place stands the number of the tile, and a new last axis is the
    place in it. The last tile is filled up with zeros."""

    axis: int
    size: int


@dataclass(frozen=True, slots=True)
class Pad:
    """An axis is filled up with zeros to a multiple."""

    axis: int
    multiple: int


@dataclass(frozen=True, slots=True)
class Interleave:
    """An axis is cut in ``factor`` equal runs, and stored are the first elements of all runs, then the second ones: of
    four elements and a factor of two in the order 0, 2, 1, 3."""

    axis: int
    factor: int


@dataclass(frozen=True, slots=True)
class Join:
    """So many neighbours along an axis are one integer of type ``dtype``: the sum of each times 2 to the power of where
    its bits begin, the first in the lowest."""

    axis: int
    count: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Widen:
    """Elements are converted to a type that has all of their values."""

    dtype: DType


@dataclass(frozen=True, slots=True)
class Scale:
    """Integers are multiplied by 2 to the power of ``bits``; where ``by`` names a vector, a parameter beside this one,
    those of row ``k`` of the first axis by 2 to the power of ``bits`` less its element ``k``, or its only one."""

    bits: int
    by: str = ""


@dataclass(frozen=True, slots=True)
class Records:
    """The records along an axis, whose elements are the next axis, become one axis with it: part by part, each of all
    records in turn. ``fields`` are (first element, count, size) of parts of ``size`` elements each, one field behind
    the other, that are a record together: ``(0, 1, 2, 2, 4, 4)`` are its first two elements, then fours."""

    axis: int
    fields: tuple[int, ...]

    @property
    def parts(self) -> tuple[tuple[int, int, int], ...]:
        """The fields, a tuple for each."""
        return tuple(zip(self.fields[::3], self.fields[1::3], self.fields[2::3], strict=True))

    @property
    def width(self) -> int:
        """Elements of a record."""
        return sum(count * size for _, count, size in self.parts)


Step = Permute | Fuse | Tile | Pad | Interleave | Join | Widen | Scale | Records


@dataclass(frozen=True, slots=True)
class Layout:
    """How a logical array is stored: what the steps make of it one after the other; without steps as it is, row-major.

    Raises:
        BuildError: a step that applies to no array.
    """

    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        for step in self.steps:
            if not _sound(step):
                raise BuildError(f"{_spelled(step)} is no step of a layout")

    def __str__(self) -> str:
        return " ".join(map(_spelled, self.steps)) or "row-major"

    def then(self, *steps: Step) -> Layout:
        """What is stored so, stored by more steps."""
        return Layout((*self.steps, *steps))

    def stored(self, type: TensorType) -> TensorType:
        """The type of what is stored of an array of ``type``.

        Raises:
            BuildError: a step does not apply to it.
        """
        for step in self.steps:
            dtype = _dtype(step, type.dtype)
            if dtype is None:
                raise BuildError(f"{_spelled(step)} cannot store elements of type {type.dtype}")
            type = TensorType(dtype, _stored(step, type.shape))
        return type

    def index(self, index: Sequence[Dim], shape: Sequence[Dim]) -> Shape:
        """Where the element at ``index`` of an array of ``shape`` is stored; joined ones are at one place.

        Raises:
            BuildError: a step does not apply to the shape.
        """
        at, held = tuple(index), tuple(shape)
        for step in self.steps:
            after = _stored(step, held)
            at, held = _moved(step, at, held), after
        return at


ROW_MAJOR: Final = Layout()


def _spelled(step: Step) -> str:
    """A step as text: ``tile(1, 4)``."""
    given = (getattr(step, f.name) for f in fields(step))
    args = [a for value in given for a in (value if isinstance(value, tuple) else (value,))]
    return f"{type(step).__name__.lower()}({', '.join(str(a) for a in args if a != '')})"


def _sound(step: Step) -> bool:
    """Whether there are arrays that the step applies to."""
    match step:
        case Permute(order):
            return sorted(order) == list(range(len(order)))
        case Fuse(first, last):
            return first >= 0 and (last < 0 or last >= first - 1)
        case Tile(axis, count) | Pad(axis, count) | Interleave(axis, count):
            return axis >= 0 and count >= 1
        case Join(axis, count, dtype):
            whole = dtype.kind in "iu" and dtype.lanes == 1 and dtype.bits <= JOINED_BITS
            return whole and axis >= 0 and count >= 1 and dtype.bits % count == 0
        case Widen(dtype):
            return dtype.lanes == 1
        case Scale(bits):
            return 0 <= bits < JOINED_BITS
        case Records(axis, fields):
            return axis >= 0 and bool(fields) and len(fields) % 3 == 0 and _is_whole(step)
        case _:
            assert_never(step)


def _is_whole(step: Records) -> bool:
    """Whether the fields of records are all of their elements, each once."""
    at = 0
    for first, count, size in sorted(step.parts):
        if first != at or count < 1 or size < 1:
            return False
        at += count * size
    return True


def _dtype(step: Step, dtype: DType) -> DType | None:
    """The type of the elements that a step makes of some; None where it cannot."""
    match step:
        case Join(_, count, joined):
            return joined if dtype.kind in "iu" and dtype.bits * count <= joined.bits else None
        case Scale():
            return dtype if dtype.kind in "iu" and dtype.lanes == 1 else None
        case Widen(wide):
            return wide if dtype.lanes == 1 and _has_all(wide, dtype) else None
        case Permute() | Fuse() | Tile() | Pad() | Interleave() | Records():
            return dtype
        case _:
            assert_never(step)


def _has_all(wide: DType, dtype: DType) -> bool:
    """Whether a type has all values of another."""
    if not {wide.kind, dtype.kind} <= {"i", "u"}:
        return wide.kind == dtype.kind and wide.bits >= dtype.bits
    (lo, hi), (minimum, maximum) = wide.limits, dtype.limits
    return lo <= minimum and maximum <= hi


def _stored(step: Step, shape: Shape) -> Shape:
    """The shape that a step makes of one.

    Raises:
        BuildError: the step does not apply to it.
    """
    made = _shape(step, shape)
    if made is None:
        raise BuildError(f"{_spelled(step)} cannot store an array of shape [{', '.join(map(str, shape))}]")
    return made


def _shape(step: Step, shape: Shape) -> Shape | None:
    rank = len(shape)
    match step:
        case Permute(order):
            return step.shape(shape) if len(order) == rank else None
        case Fuse(first):
            end = step.end(rank)
            return (*shape[:first], product(shape[first:end]), *shape[end:]) if first <= end <= rank else None
        case Widen():
            return shape
        case Scale():
            return shape if shape else None
        case Records(axis):
            if axis + 2 > rank or shape[axis + 1] != step.width:
                return None
            return (*shape[:axis], shape[axis] * step.width, *shape[axis + 2 :])
        case Tile() | Pad() | Interleave() | Join():
            if step.axis >= rank:
                return None
        case _:
            assert_never(step)
    before, extent, after = shape[: step.axis], shape[step.axis], shape[step.axis + 1 :]
    match step:
        case Tile(_, size):
            return (*before, ceildiv(extent, size), *after, size)
        case Pad(_, multiple):
            return (*before, ceildiv(extent, multiple) * multiple, *after)
        case Interleave(_, factor):
            return shape if prove_eq(mod(extent, factor), 0) is True else None
        case Join(_, count):
            return (*before, floordiv(extent, count), *after) if prove_eq(mod(extent, count), 0) is True else None
        case _:
            assert_never(step)


def _moved(step: Step, index: Shape, shape: Shape) -> Shape:
    """Where a step puts the element at ``index`` of an array that it applies to."""
    match step:
        case Permute():
            return step.shape(index)
        case Fuse(first):
            end = step.end(len(shape))
            return (*index[:first], flat_index(index[first:end], shape[first:end]), *index[end:])
        case Pad() | Widen() | Scale():
            return index
        case Records(axis):
            return (*index[:axis], _in_parts(step, index[axis], index[axis + 1], shape[axis]), *index[axis + 2 :])
        case Tile() | Interleave() | Join():
            pass
        case _:
            assert_never(step)
    before, at, after = index[: step.axis], index[step.axis], index[step.axis + 1 :]
    match step:
        case Tile(_, size):
            return (*before, floordiv(at, size), *after, mod(at, size))
        case Interleave(axis, factor):
            run = floordiv(shape[axis], factor)
            return (*before, mod(at, run) * factor + floordiv(at, run), *after)
        case Join(_, count):
            return (*before, floordiv(at, count), *after)
        case _:
            assert_never(step)


def _in_parts(step: Records, record: Dim, at: Dim, records: Dim) -> Dim:
    """Where an element of a record stands among the parts of all records."""
    before = 0
    place: Dim = 0
    for first, count, size in step.parts:
        inside = at - first
        here = before * records + floordiv(inside, size) * size * records + record * size + mod(inside, size)
        if isinstance(inside, int):
            place += here if 0 <= inside < count * size else 0
        else:
            last = inside - count * size
            place += (dmin(dmax(inside + 1, 0), 1) - dmin(dmax(last + 1, 0), 1)) * here
        before += count * size
    return place
