"""Sparse constants made dense: the elements that a file has, at their places, and zeros."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import tflite
from numpy.typing import NDArray

from sdk.compiler.ir.types import DType
from sdk.frontends.tflite.verify import malformed

__all__ = ["densified"]

Array = NDArray[Any]
_INTEGERS: Final = {
    tflite.SparseIndexVector.Int32Vector: tflite.Int32Vector,
    tflite.SparseIndexVector.Uint16Vector: tflite.Uint16Vector,
    tflite.SparseIndexVector.Uint8Vector: tflite.Uint8Vector,
}


@dataclass(frozen=True, slots=True)
class _Level:
    """One axis of what is stored: of ``size`` places, or those of ``indices`` from each of ``segments`` to the next."""

    size: int
    segments: Array | None = None
    indices: Array | None = None


def densified(data: bytes, sparsity: Any, name: str, dtype: DType, shape: tuple[int, ...]) -> Array:
    """The tensor whose elements that are not 0 are ``data``.

    Its axes are stored in some order, cut to blocks whose inner axes come last: each level has, for each place of the
    level before, all places or some.

    Raises:
        BuildError: levels, places and elements do not fit each other or the shape.
    """
    order = [int(k) for k in _integers(sparsity, "TraversalOrder")]
    blocks = [int(k) for k in _integers(sparsity, "BlockMap")]
    rank = len(shape)
    whole = sorted(order) == list(range(rank + len(blocks))) and sparsity.DimMetadataLength() == len(order)
    if not whole or any(not 0 <= k < rank for k in blocks) or len(set(blocks)) < len(blocks):
        raise malformed(f"the sparse tensor {name} has the axes {order} and blocks of {blocks} for rank {rank}")
    metadata = [sparsity.DimMetadata(k) for k in range(len(order))]
    sides = {axis: int(metadata[order.index(rank + k)].DenseSize()) for k, axis in enumerate(blocks)}
    if any(side < 1 or shape[axis] % side for axis, side in sides.items()):
        raise malformed(f"the sparse tensor {name} of shape {list(shape)} has blocks of {sides}")
    sizes = [shape[k] // sides.get(k, 1) for k in range(rank)] + [sides[axis] for axis in blocks]
    levels = [_level(one, sizes[k], name) for one, k in zip(metadata, order, strict=True)]
    places = _places(levels, math.prod(shape), name)
    values = np.frombuffer(data, dtype.numpy.newbyteorder("<"), len(data) // dtype.nbytes)
    if places.shape[1] != len(values) or len(data) % dtype.nbytes:
        raise malformed(f"the sparse tensor {name} has {len(data)} bytes for {places.shape[1]} places of {dtype}")
    at = [np.zeros(len(values), np.int64)] * (rank + len(blocks))
    for row, k in zip(places, order, strict=True):
        at[k] = row
    for k, axis in enumerate(blocks):
        at[axis] = at[axis] * sides[axis] + at[rank + k]
    found = np.zeros(shape, dtype.numpy)
    found[tuple(at[:rank])] = values
    return found


def _level(table: Any, size: int, name: str) -> _Level:
    if table.Format() == tflite.DimensionType.DENSE:
        if table.DenseSize() != size:
            raise malformed(f"the sparse tensor {name} has an axis of {table.DenseSize()} places where it is {size}")
        return _Level(size)
    parts = []
    for part in ("ArraySegments", "ArrayIndices"):
        kind, union = _INTEGERS.get(getattr(table, f"{part}Type")()), getattr(table, part)()
        if table.Format() != tflite.DimensionType.SPARSE_CSR or kind is None or union is None:
            raise malformed(f"an axis of the sparse tensor {name} has no places")
        vector = kind()
        vector.Init(union.Bytes, union.Pos)
        parts.append(_integers(vector, "Values"))
    return _Level(size, *parts)


def _integers(table: Any, field: str) -> Array:
    """A vector of integers."""
    if not getattr(table, f"{field}Length")():
        return np.zeros(0, np.int64)
    return np.asarray(getattr(table, f"{field}AsNumpy")(), np.int64)


def _places(levels: list[_Level], maximum: int, name: str) -> Array:
    """Where the elements stand along the levels, one a column."""
    found = np.zeros((0, 1), np.int64)
    for level in levels:
        count = found.shape[1]
        if count * (level.size if level.indices is None else 1) > maximum:
            raise malformed(f"the sparse tensor {name} has more places than the {maximum} elements of its shape")
        if level.segments is None or level.indices is None:
            parents, column = np.repeat(np.arange(count), level.size), np.tile(np.arange(level.size), count)
        else:
            gaps, column = np.diff(level.segments), level.indices
            ends = level.segments[[0, -1]].tolist() if len(level.segments) == count + 1 else [-1, -1]
            outside = (column < 0).any() or (column >= level.size).any()
            if ends != [0, len(column)] or (gaps < 0).any() or outside:
                raise malformed(f"the places of the sparse tensor {name} do not fit its axes")
            parents = np.repeat(np.arange(count), gaps)
        found = np.concatenate([found[:, parents], column[None]])
    return found
