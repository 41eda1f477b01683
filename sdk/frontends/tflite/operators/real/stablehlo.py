"""Operators of StableHLO that LiteRT has kernels for: arithmetic of equal shapes, slices read and written by the
positions of their first elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sdk.budget import AXIS_TABLE, check_limit
from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import BOOL, I8, I16, I32, I64
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.sym import Dim, product
from sdk.errors import BuildError
from sdk.frontends.moves import padded, reshaped, shape_text, swap_axes, type_text
from sdk.frontends.tflite.context import Importer, OpNode, Table
from sdk.frontends.tflite.operators.real.bodies import only_operator
from sdk.frontends.tflite.operators.real.common import vector

__all__ = ["TABLE"]

_REDUCTIONS: Final[Mapping[str | None, str]] = {
    None: "none", "add": "add", "mul": "mul", "maximum": "max", "minimum": "min",
}  # fmt: skip


# --- element by element ------------------------------------------------------------------------------------------


def _alike(op: str, flags: str) -> Importer:
    """An op of two tensors of one type and shape, and what it is of truth values."""

    def run(node: OpNode) -> None:
        a, b = _pair(node)
        node.call(flags if a.type.dtype == BOOL else op, a, b)

    return run


def _pair(node: OpNode) -> tuple[Value, Value]:
    a, b = node.input(0), node.input(1)
    same = a.type.rank == b.type.rank and all(map(same_extent, a.type.shape, b.type.shape))
    if a.type.dtype != b.type.dtype or not same:
        raise BuildError(f"its inputs are {type_text(a)} and {type_text(b)}, which must be alike")
    return a, b


def shift_left(node: OpNode) -> None:
    """STABLEHLO_SHIFT_LEFT: 0 where it shifts by the width or more, or by less than 0."""
    node.input(0, I8, I16, I32)
    node.call("shift_left", *_pair(node))


# --- slices by positions -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Slices:
    """Slices at positions along the axes ``maps``. Of the first ``lead`` axes ``lengths`` are those of the operand and
    ``sizes`` those of a slice; of all axes after them slices are whole."""

    lengths: tuple[int, ...]
    sizes: tuple[int, ...]
    maps: tuple[int, ...]

    @property
    def lead(self) -> int:
        """How many axes positions are of."""
        return len(self.lengths)

    def grid(self) -> np.ndarray:
        """Where the elements of a slice (along its other axes: the parts) stand from its first, [count, lead]."""
        parts = self.sizes[: self.lead]
        check_limit(AXIS_TABLE, int(np.prod(parts, dtype=np.int64)), "slices by positions")
        return np.ascontiguousarray(np.indices(parts, np.int32).reshape(self.lead, -1).T)


def _slices(x: Value, sizes: Sequence[Dim], maps: tuple[int, ...]) -> _Slices:
    """Slices of a tensor.

    Raises:
        BuildError: they do not fit it, or are of an open size where positions are.
    """
    shape, rank = x.type.shape, x.type.rank
    if len(sizes) != rank or not rank or len(set(maps)) != len(maps) or not all(0 <= a < rank for a in maps):
        raise BuildError(f"slices {shape_text(sizes)} at positions along axes {list(maps)} of {type_text(x)}")
    parts = [a for a in range(rank) if a in maps or not same_extent(sizes[a], shape[a])]
    lead = max(parts, default=0) + 1
    lengths = tuple(d for d in shape[:lead] if isinstance(d, int))
    whole = tuple(d for d in sizes[:lead] if isinstance(d, int))
    if len(lengths) != lead or len(whole) != lead or any(not 0 <= s <= d for s, d in zip(whole, lengths, strict=True)):
        raise BuildError(f"slices {shape_text(sizes)} of {type_text(x)} must be of numbers, and not larger")
    return _Slices(lengths, whole, maps)


def _firsts(node: OpNode, at: Value, axis: int, slices: _Slices) -> Value:
    """The positions of slices along all of the leading axes, i32[.., lead]; ``axis`` of ``at`` has those of one."""
    emit, rank = node.emitter, at.type.rank
    if not 0 <= axis <= rank:
        raise BuildError(f"positions along axis {axis} of a tensor of rank {rank}")
    if at.type.dtype == I64:
        lo, hi = I32.limits
        at = emit.call("cast", emit.call("clip", at, lo=lo, hi=hi), to=str(I32))
    if axis == rank:
        at = reshaped(emit, at, (*at.type.shape, 1))
    else:
        at = swap_axes(emit, at, (*(k for k in range(rank) if k != axis), axis))
    count = at.type.shape[-1]
    if count != len(slices.maps):
        raise BuildError(f"{count} numbers a position along {len(slices.maps)} axes")
    if slices.maps == tuple(range(slices.lead)):
        return at
    last = at.type.rank - 1
    wide = padded(emit, at, [(0, int(k == last)) for k in range(last + 1)], value=0)
    columns = [slices.maps.index(a) if a in slices.maps else count for a in range(slices.lead)]
    return emit.call("gather", wide, emit.const(np.asarray(columns, np.int32), "columns"), axis=last)


def _places(node: OpNode, firsts: Value, slices: _Slices) -> Value:
    """The positions of all elements of slices, [.., count, lead]."""
    emit, batch = node.emitter, firsts.type.shape[:-1]
    row = reshaped(emit, firsts, (*batch, 1, slices.lead))
    return emit.call("add", row, emit.const(slices.grid(), "grid"))


def gather(node: OpNode) -> None:
    """STABLEHLO_GATHER: slices at positions, which are held inside."""
    x, at, emit = node.input(0), node.input(1, I32, I64), node.emitter
    sizes, collapsed = vector(node, "SliceSizesAsNumpy", x.type.rank), set(vector(node, "CollapsedSliceDimsAsNumpy"))
    slices = _slices(x, sizes, vector(node, "StartIndexMapAsNumpy"))
    if any(not 0 <= a < len(sizes) or sizes[a] != 1 for a in collapsed):
        raise BuildError(f"the axes {sorted(collapsed)} of slices {list(sizes)} cannot be dropped")
    firsts = _firsts(node, at, int(node.option("IndexVectorDim")), slices)
    last = np.asarray(slices.lengths, np.int32) - np.asarray(slices.sizes, np.int32)
    held = emit.call("minimum", firsts, emit.const(last, "last"))
    held = emit.call("maximum", held, emit.const(np.zeros(slices.lead, np.int32), "first"))
    found = emit.call("gather_nd", x, _places(node, held, slices), batch=0)
    batch = held.type.shape[:-1]
    kept = [size for a, size in enumerate(sizes) if a not in collapsed]
    offsets = sorted(set(vector(node, "OffsetDimsAsNumpy")))
    rank = len(batch) + len(kept)
    if len(offsets) != len(kept) or any(not 0 <= o < rank for o in offsets):
        raise BuildError(f"the axes {offsets} of a result of rank {rank} for slices of rank {len(kept)}")
    found = reshaped(emit, found, (*batch, *kept))
    perm = [len(batch) + offsets.index(k) if k in offsets else k - sum(o < k for o in offsets) for k in range(rank)]
    node.call("transpose", found, perm=tuple(perm))


def scatter(node: OpNode) -> None:
    """STABLEHLO_SCATTER: inputs (x, positions, updates): slices written at positions, or what a subgraph of one
    operator makes of them and what is there. An element that would stand outside is left out."""
    x, at, updates, emit = node.input(0), node.input(1, I32, I64), node.input(2), node.emitter
    name = only_operator(node, int(node.option("UpdateComputationSubgraphIndex")))
    windows, inserted = (sorted(set(vector(node, f"{k}WindowDimsAsNumpy"))) for k in ("Update", "Inserted"))
    rank, shape = x.type.rank, updates.type.shape
    if name not in _REDUCTIONS or updates.type.dtype != x.type.dtype:
        raise BuildError(f"updates of {updates.type.dtype} by {name} in a tensor of {x.type.dtype}")
    own = [a for a in range(rank) if a not in inserted]
    outside = [w for w in windows if not 0 <= w < len(shape)] + [a for a in inserted if not 0 <= a < rank]
    if outside or len(own) != len(windows):
        raise BuildError(f"windows along axes {windows} of {type_text(updates)}, and {inserted} of {type_text(x)}")
    sizes: list[Dim] = [shape[windows[own.index(a)]] if a in own else 1 for a in range(rank)]
    slices = _slices(x, sizes, vector(node, "ScatterDimsToOperandDimsAsNumpy"))
    places = _places(node, _firsts(node, at, int(node.option("IndexVectorDim")), slices), slices)
    batch = [k for k in range(len(shape)) if k not in windows]
    found = places.type.shape[:-2]
    if len(batch) != len(found) or not all(map(same_extent, (shape[k] for k in batch), found)):
        raise BuildError(f"updates {shape_text(shape)} for positions of {shape_text(found)} slices")
    below = emit.call("less", places, emit.scalar(0, I32))
    beyond = emit.scalar(I32.limits[1], I32)  # a negative one would count from the end
    places = emit.call("where", below, beyond, places)
    flat = swap_axes(emit, updates, (*batch, *windows))
    flat = reshaped(emit, flat, (*found, product(tuple(slices.sizes)), *x.type.shape[slices.lead :]))
    node.call("scatter_nd", x, places, flat, reduction=_REDUCTIONS[name])


TABLE: Table = {
    "STABLEHLO_ADD": _alike("add", "or"),
    "STABLEHLO_AND": _alike("and", "and"),
    "STABLEHLO_GATHER": gather,
    "STABLEHLO_MAXIMUM": _alike("maximum", "or"),
    "STABLEHLO_MINIMUM": _alike("minimum", "and"),
    "STABLEHLO_MULTIPLY": _alike("mul", "and"),
    "STABLEHLO_SCATTER": scatter,
    "STABLEHLO_SHIFT_LEFT": shift_left,
}
