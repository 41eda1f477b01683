"""Slices by begin and size, and by begin, end and stride with their masks."""

from __future__ import annotations

from dataclasses import dataclass

from sdk.compiler.ops.slice import clamped
from sdk.compiler.sym import Dim, prove_ge, prove_lt
from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode, Table

__all__ = ["TABLE"]


def slice_(node: OpNode) -> None:
    """SLICE by begin and size (-1 = to the end)."""
    x, begin, size = node.input(0), node.dims(1), node.dims(2)
    if not len(begin) == len(size) == x.type.rank:
        raise BuildError(f"begin and size of {len(begin)} and {len(size)} axes for rank {x.type.rank}")
    counts: list[Dim] = []
    for extent, start, count in zip(x.type.shape, begin, size, strict=True):
        found = extent - start if isinstance(count, int) and count == -1 else count
        inside = prove_ge(start, 0) is True and prove_ge(found, 0) is True and prove_ge(extent, start + found) is True
        if not inside:
            raise BuildError(f"{count} elements from {start} of an axis of {extent}")
        counts.append(found)
    node.call("slice", x, begin=begin, size=tuple(counts), strides=(1,) * x.type.rank)


@dataclass(frozen=True, slots=True)
class _Masks:
    begin: int
    end: int
    ellipsis: int
    new: int
    shrink: int


def strided_slice(node: OpNode) -> None:
    """STRIDED_SLICE: each axis as in Python, with masks for ends left open, an ellipsis, new axes and dropped ones."""
    x = node.input(0)
    begin, end, strides = node.dims(1), node.dims(2), node.integers(3)
    names = ("BeginMask", "EndMask", "EllipsisMask", "NewAxisMask", "ShrinkAxisMask")
    masks = _Masks(*(int(node.option(name)) for name in names))
    rank = x.type.rank
    if not len(begin) == len(end) == len(strides):
        raise BuildError(f"begin, end and strides of {len(begin)}, {len(end)} and {len(strides)} axes")
    if 0 in strides:
        raise BuildError("a stride of zero")
    if node.option("Offset"):  # ends count from the begin
        end = tuple(a + b for a, b in zip(begin, end, strict=True))
    places = _places(len(begin), rank, masks)
    starts: list[Dim] = [0] * rank
    counts, steps = list(x.type.shape), [1] * rank
    shape: list[Dim] = []
    for k, axis in places:
        if axis is None:
            shape.append(1)
            continue
        if k is not None:
            starts[axis], counts[axis] = _range(x.type.shape[axis], begin[k], end[k], strides[k], k, masks)
            steps[axis] = strides[k]
        if k is not None and masks.shrink >> k & 1:
            steps[axis] = 1
        else:
            shape.append(counts[axis])
    same = len(shape) == rank and all(axis is not None for _, axis in places)
    given = {"begin": tuple(starts), "size": tuple(counts), "strides": tuple(steps)}
    part = node.call("slice", x, to=0 if same else "part", **given)
    if not same:
        node.call("reshape", part, shape=tuple(shape))


def _places(count: int, rank: int, masks: _Masks) -> list[tuple[int | None, int | None]]:
    """For each axis of the result: the entry that says what of it is taken (None: all of it), and the axis of the
    tensor (None: a new one).

    Raises:
        BuildError: there are more entries than axes.
    """
    new = [k for k in range(count) if masks.new >> k & 1 and not masks.ellipsis >> k & 1]
    dots = [k for k in range(count) if masks.ellipsis >> k & 1]
    if len(dots) > 1:
        raise BuildError("more than one ellipsis")
    left = rank - (count - len(new) - len(dots))
    if left < 0:
        raise BuildError(f"begin, end and strides of {count} axes for rank {rank}")
    found: list[tuple[int | None, int | None]] = []
    axis = 0
    for k in range(count):
        if k in dots:
            found += [(None, axis + n) for n in range(left)]
            axis += left
        elif k in new:
            found.append((k, None))
        else:
            found.append((k, axis))
            axis += 1
    return found + [(None, n) for n in range(axis, rank)]


def _range(size: Dim, begin: Dim, end: Dim, stride: int, k: int, masks: _Masks) -> tuple[Dim, Dim]:
    """First position and count along an axis."""
    if masks.shrink >> k & 1:
        at = begin + size if isinstance(begin, int) and begin < 0 else begin
        if masks.begin >> k & 1:  # which LiteRT heeds here, and TensorFlow does not
            at = 0 if stride > 0 else size - 1
        if prove_ge(at, 0) is not True or prove_lt(at, size) is not True:
            raise BuildError(f"index {begin} of an axis of {size}")
        return at, 1
    first: Dim = begin if not masks.begin >> k & 1 else 0 if stride > 0 else size - 1
    last: Dim = end if not masks.end >> k & 1 else size if stride > 0 else -size - 1
    return clamped(size, first, last, stride)


TABLE: Table = {"SLICE": slice_, "STRIDED_SLICE": strided_slice}
