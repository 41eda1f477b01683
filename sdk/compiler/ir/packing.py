"""Arrays in a layout: the elements of a logical array moved to where they are stored, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, assert_never

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.layout import Fuse, Interleave, Join, Layout, Pad, Permute, Records, Scale, Step, Tile, Widen
from sdk.compiler.ir.types import SCALARS, TensorType
from sdk.errors import BuildError

__all__ = ["pack_array", "unpack_array"]

Array = NDArray[Any]
_MAX_SCALED: Final = 31  # powers of 2
_WORDS: Final = {2: np.uint16, 4: np.uint32, 8: np.uint64}  # by bytes


def pack_array(data: Array, layout: Layout, beside: Mapping[str, Array] | None = None) -> Array:
    """A logical array as it is stored in a layout; ``beside`` are the vectors that steps name.

    Raises:
        BuildError: a step does not apply to it, or elements that it joins or scales do not fit their type.
    """
    kind = next(t for t in SCALARS.values() if t.numpy == data.dtype)
    for step, type in zip(layout.steps, _types(layout, TensorType(kind, data.shape))[1:], strict=True):
        data = _packed(data, step, type, beside or {})
    return np.asarray(data, order="C")


def unpack_array(
    stored: Array, layout: Layout, type: TensorType, beside: Mapping[str, Array] | None = None
) -> Array:
    """The logical array of ``type`` that is stored in a layout; ``beside`` are the vectors that steps name.

    Raises:
        BuildError: a step does not apply to it.
    """
    types = _types(layout, type)
    for step, before in zip(reversed(layout.steps), reversed(types[:-1]), strict=True):
        stored = _unpacked(stored, step, before, beside or {})
    return np.asarray(stored, order="C")


def _types(layout: Layout, type: TensorType) -> list[TensorType]:
    """The type of the logical array, and that after each step."""
    found = [type]
    for step in layout.steps:
        found.append(Layout((step,)).stored(found[-1]))
    return found


def _packed(data: Array, step: Step, type: TensorType, beside: Mapping[str, Array]) -> Array:
    """What a step makes of an array: one of ``type``."""
    match step:
        case Permute(order):
            return data.transpose(order)
        case Fuse():
            return data.reshape(type.static_shape)
        case Tile(axis, size):
            return np.moveaxis(_runs(_padded(data, axis, size), axis, size), axis + 1, -1)
        case Pad(axis, multiple):
            return _padded(data, axis, multiple)
        case Interleave(axis, factor):
            return _turned(data, axis, factor)
        case Join(axis, count, dtype):
            parts = np.moveaxis(_runs(data, axis, count), axis + 1, 0).astype(np.int64)
            words = sum(part << k * (dtype.bits // count) for k, part in enumerate(parts))
            return _fitting(np.asarray(words), step)
        case Widen(dtype):
            return data.astype(dtype.numpy)
        case Scale():
            scaled = data.astype(np.int64) << _powers(step, data.shape, beside)
            return _in_range(scaled, type, f"{step.bits} bits do not scale these elements in")
        case Records():
            return _by_parts(data, step, type)
        case _:
            assert_never(step)


def _by_parts(data: Array, step: Records, type: TensorType) -> Array:
    """Records part by part."""
    out = np.empty(type.static_shape, data.dtype)
    axis, records, at = step.axis, data.shape[step.axis], 0
    for first, count, size in step.parts:
        width = count * size
        chosen = data[(*(slice(None),) * (axis + 1), slice(first, first + width))]
        placed = out[(*(slice(None),) * axis, slice(at * records, (at + width) * records))]
        lead, rest = data.shape[:axis], data.shape[axis + 2 :]
        word = _WORDS.get(size * data.itemsize)
        if word and not rest and chosen.strides[-1] == data.itemsize:  # a part is moved as one number
            source = np.moveaxis(chosen.view(word), axis, axis + 1)
            placed.reshape(*lead, count * records * size).view(word).reshape(*lead, count, records)[...] = source
        else:
            source = np.moveaxis(chosen.reshape(*lead, records, count, size, *rest), axis, axis + 1)
            placed.reshape(*lead, count, records, size, *rest)[...] = source
        at += width
    return out


def _unpacked(data: Array, step: Step, type: TensorType, beside: Mapping[str, Array]) -> Array:
    """The array of ``type`` that a step made ``data`` of."""
    shape = type.static_shape
    match step:
        case Permute():
            return data.transpose(step.inverse().order)
        case Fuse():
            return data.reshape(shape)
        case Tile(axis, size):
            tiles = np.moveaxis(data, -1, axis + 1)
            whole = tiles.reshape(*shape[:axis], tiles.shape[axis] * size, *shape[axis + 1 :])
            return _cut(whole, shape)
        case Pad():
            return _cut(data, shape)
        case Interleave(axis, factor):
            return _turned(data, axis, shape[axis] // factor)
        case Join(axis, count, dtype):
            return _parted(data, axis, count, dtype.bits // count, type)
        case Widen():
            return data.astype(type.dtype.numpy)
        case Scale():
            return (data.astype(np.int64) >> _powers(step, data.shape, beside)).astype(type.dtype.numpy)
        case Records():
            return _from_parts(data, step, type)
        case _:
            assert_never(step)


def _from_parts(stored: Array, step: Records, type: TensorType) -> Array:
    """Records that are stored part by part."""
    out = np.empty(type.static_shape, stored.dtype)
    axis, at = step.axis, 0
    lead, records, rest = out.shape[:axis], out.shape[axis], out.shape[axis + 2 :]
    for first, count, size in step.parts:
        width = count * size
        source = stored[(*(slice(None),) * axis, slice(at * records, (at + width) * records))]
        parts = np.moveaxis(source.reshape(*lead, count, records, size, *rest), axis + 1, axis)
        out[(*(slice(None),) * (axis + 1), slice(first, first + width))] = parts.reshape(*lead, records, width, *rest)
        at += width
    return out


def _runs(data: Array, axis: int, size: int) -> Array:
    """An axis as two: runs of so many elements, and the elements of one."""
    shape = data.shape
    return data.reshape(*shape[:axis], shape[axis] // size, size, *shape[axis + 1 :])


def _padded(data: Array, axis: int, multiple: int) -> Array:
    more = [(0, -extent % multiple if k == axis else 0) for k, extent in enumerate(data.shape)]
    return np.pad(data, more) if any(after for _, after in more) else data


def _cut(data: Array, shape: tuple[int, ...]) -> Array:
    """The first elements of every axis."""
    return data[tuple(slice(extent) for extent in shape)]


def _turned(data: Array, axis: int, factor: int) -> Array:
    """An element of each of so many runs of an axis in turn."""
    runs = _runs(data, axis, max(data.shape[axis] // factor, 1))
    return np.swapaxes(runs, axis, axis + 1).reshape(data.shape)


def _powers(step: Scale, shape: tuple[int, ...], beside: Mapping[str, Array]) -> NDArray[np.int64]:
    """By what power of 2 each row is multiplied."""
    if step.by and step.by not in beside:
        raise BuildError(f"rows are scaled by {step.by}, which is not known")
    less = beside[step.by].astype(np.int64).reshape(-1) if step.by else np.zeros(1, np.int64)
    if less.size not in (1, shape[0]) or less.min() < step.bits - _MAX_SCALED or less.max() > step.bits:
        raise BuildError(f"{shape[0]} rows are not scaled by {step.bits} less {step.by}, {less.size} numbers")
    return (step.bits - less).reshape(-1, *(1,) * (len(shape) - 1))


def _fitting(words: NDArray[np.int64], step: Join) -> Array:
    return _in_range(words, TensorType(step.dtype, ()), f"{step.count} elements joined in one do not fit")


def _in_range(values: NDArray[np.int64], type: TensorType, otherwise: str) -> Array:
    lo, hi = type.dtype.limits
    if values.size and (values.min() < lo or values.max() > hi):
        raise BuildError(f"{otherwise} {type.dtype}")
    return values.astype(type.dtype.numpy)


def _parted(words: Array, axis: int, count: int, bits: int, type: TensorType) -> Array:
    """The elements of words, the first in the lowest ``bits``; what is above a negative one is one less for it."""
    left, parts = words.astype(np.int64), []
    for _ in range(count):
        low = left & ((1 << bits) - 1)
        part = low - ((low >> bits - 1) << bits) if type.dtype.kind == "i" else low
        parts.append(part)
        left = (left - part) >> bits
    return np.stack(parts, axis + 1).reshape(type.static_shape).astype(type.dtype.numpy)
