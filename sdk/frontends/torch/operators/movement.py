"""ATen operators that move elements: shapes, axes, parts, joins, borders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import I64
from sdk.compiler.ops.slice import clamped
from sdk.compiler.sym import Dim, ceildiv, prove_eq, prove_ge, prove_lt
from sdk.frontends.images import channels_first, channels_last
from sdk.frontends.moves import padded, part, reshaped, spread, swap_axes
from sdk.frontends.torch.context import TorchNode, aten

__all__: list[str] = []
LAST = (1 << 63) - 1  # "to the end" of a slice


@aten(
    "view.default", "_unsafe_view.default", "reshape.default", "unsqueeze.default", "squeeze.default", "squeeze.dim",
    "squeeze.dims", "flatten.using_ints", "unflatten.int", "view_as.default", "reshape_as.default", "ravel.default",
    "_reshape_copy.default", "view_copy.default", "unsqueeze_copy.default", "squeeze_copy.dims",
)  # fmt: skip
def reshape(node: TorchNode, x: Value, *_: Any) -> Value:
    """Another shape of as many elements, which PyTorch has found."""
    return reshaped(node, x, node.out.shape)


@aten("permute.default", "permute_copy.default")
def permute(node: TorchNode, x: Value, axes: Sequence[int]) -> Value:
    """The axes in another order."""
    return swap_axes(node, x, [node.axis(k, x.type.rank) for k in axes])


@aten("transpose.int", "swapaxes.default", "t.default", "numpy_T.default", "mT.default", "transpose_copy.int")
def transpose(node: TorchNode, x: Value, a: int = -2, b: int = -1) -> Value:
    """Two axes exchanged."""
    order = list(range(x.type.rank))
    if x.type.rank > 1:
        i, j = node.axis(a, x.type.rank), node.axis(b, x.type.rank)
        order[i], order[j] = order[j], order[i]
    return swap_axes(node, x, order)


@aten("expand.default", "expand_as.default", "expand_copy.default")
def expand(node: TorchNode, x: Value, *_: Any, **__: Any) -> Value:
    """Axes of size 1, and new ones before, repeated."""
    return spread(node, x, node.out.shape)


@aten("repeat.default")
def repeat(node: TorchNode, x: Value, repeats: Sequence[Dim]) -> Value:
    """The tensor repeated along its axes: [d] seen as [1, d], spread to [r, d], seen as [r*d]."""
    own = (*(1 for _ in range(len(repeats) - x.type.rank)), *x.type.shape)
    split = [d for size in own for d in (1, size)]
    spread = [d for count, size in zip(repeats, own, strict=True) for d in (count, size)]
    wide = node.call("broadcast_to", node.call("reshape", x, shape=tuple(split)), shape=tuple(spread))
    return node.call("reshape", wide, shape=tuple(c * d for c, d in zip(repeats, own, strict=True)))


@aten("slice.Tensor", "slice_copy.Tensor")
def slice_(
    node: TorchNode, x: Value, dim: int = 0, start: Dim | None = None, end: Dim | None = None, step: int = 1
) -> Value:
    """A part of one axis: negative positions count from the end, then both are held to the axis."""
    axis = node.axis(dim, x.type.rank)
    extent = x.type.shape[axis]
    begin, size = _range(node, extent, start, end, step)
    return part(node, x, axis, begin, size, step)


def _range(node: TorchNode, extent: Dim, start: Dim | None, end: Dim | None, step: Dim) -> tuple[Dim, Dim]:
    """Where a slice begins and how many elements it has."""
    first: Dim = 0 if start is None else start
    last: Dim = extent if end is None or (isinstance(end, int) and end >= LAST) else end
    if not isinstance(step, int) or step < 1:
        node.fail(f"the step {step} of a slice is no positive number")
    if isinstance(first, int) and first >= 0 and prove_ge(extent, first) is True and last is extent:
        return first, ceildiv(extent - first, step)
    return clamped(extent, first, last, step)


@aten("select.int", "select_copy.int")
def select(node: TorchNode, x: Value, dim: int, index: Dim) -> Value:
    """One slice of an axis, which goes."""
    axis = node.axis(dim, x.type.rank)
    extent = x.type.shape[axis]
    at = index + extent if prove_lt(index, 0) is True else index
    if prove_ge(at, 0) is not True or prove_lt(at, extent) is not True:
        node.fail(f"the position {index} is not known to lie on an axis of {extent}")
    found = part(node, x, axis, at, 1)
    return node.call("reshape", found, shape=tuple(d for k, d in enumerate(x.type.shape) if k != axis))


@aten("narrow.default")
def narrow(node: TorchNode, x: Value, dim: int, start: Dim, length: Dim) -> Value:
    """So many elements of an axis from a position on."""
    axis = node.axis(dim, x.type.rank)
    begin = start + x.type.shape[axis] if prove_lt(start, 0) is True else start
    return part(node, x, axis, begin, length)


@aten("cat.default")
def cat(node: TorchNode, parts: Sequence[Value], dim: int = 0) -> Value:
    """Tensors after one another along an axis; PyTorch lets empty ones of rank 1 stand anywhere."""
    rank = max(p.type.rank for p in parts)
    axis = node.axis(dim, rank)
    given = [node.cast(p, node.kind) for p in parts if p.type.rank == rank]
    filled = [p for p in given if prove_eq(p.type.shape[axis], 0) is not True] or given[:1]
    return filled[0] if len(filled) == 1 else node.call("concat", *filled, axis=axis)


@aten("stack.default")
def stack(node: TorchNode, parts: Sequence[Value], dim: int = 0) -> Value:
    """Tensors along a new axis."""
    axis = node.axis(dim, parts[0].type.rank + 1)
    shape = parts[0].type.shape
    rows = [
        node.call("reshape", node.cast(p, node.kind), shape=(*shape[:axis], 1, *shape[axis:])) for p in parts
    ]
    return rows[0] if len(rows) == 1 else node.call("concat", *rows, axis=axis)


@aten("split_with_sizes.default", "split_with_sizes_copy.default", "split.sizes")
def split_with_sizes(node: TorchNode, x: Value, sizes: Sequence[Dim], dim: int = 0) -> tuple[Value, ...]:
    """Parts of an axis of given sizes."""
    axis = node.axis(dim, x.type.rank)
    begin: Dim = 0
    out = []
    for size in sizes:
        out.append(part(node, x, axis, begin, size))
        begin = begin + size
    return tuple(out)


@aten("split.Tensor", "chunk.default", "tensor_split.sections", "unsafe_split.Tensor")
def split(node: TorchNode, x: Value, _: Dim, dim: int = 0) -> tuple[Value, ...]:
    """Parts of an axis, as many and as large as PyTorch found."""
    axis = node.axis(dim, x.type.rank)
    sizes = [t.shape[axis] for t in node.results if t is not None]
    return split_with_sizes(node, x, sizes, dim)


@aten("unbind.int")
def unbind(node: TorchNode, x: Value, dim: int = 0) -> tuple[Value, ...]:
    """Every slice of an axis, which goes."""
    return tuple(select(node, x, dim, k) for k in range(len(node.results)))


@aten("flip.default")
def flip(node: TorchNode, x: Value, dims: Sequence[int]) -> Value:
    """Axes the other way round."""
    turned = {node.axis(k, x.type.rank) for k in dims}
    return node.call(
        "slice",
        x,
        begin=tuple(d - 1 if k in turned else 0 for k, d in enumerate(x.type.shape)),
        size=x.type.shape,
        strides=tuple(-1 if k in turned else 1 for k in range(x.type.rank)),
    )


@aten("roll.default")
def roll(node: TorchNode, x: Value, shifts: Sequence[Dim], dims: Sequence[int] = ()) -> Value:
    """Elements moved along axes, those beyond the end coming in at the beginning."""
    shape = x.type.shape
    flat = x if dims else node.call("reshape", x, shape=(x.type.size,))
    for shift, dim in zip(shifts, dims or (0,), strict=True):
        axis = node.axis(dim, flat.type.rank)
        extent = flat.type.shape[axis]
        cut = extent - shift if prove_ge(shift, 0) is True else -shift
        if not isinstance(extent, int) and (prove_ge(cut, 0) is not True or prove_ge(extent, cut) is not True):
            node.fail(f"a shift by {shift} of an axis of {extent} may go round more than once")
        if isinstance(extent, int) and isinstance(cut, int):
            cut = cut % extent if extent else 0
        if prove_eq(cut, 0) is not True and prove_eq(cut, extent) is not True:
            tail, head = part(node, flat, axis, cut, extent - cut), part(node, flat, axis, 0, cut)
            flat = node.call("concat", tail, head, axis=axis)
    return flat if dims else node.call("reshape", flat, shape=shape)


@aten("copy.default")
def copy(node: TorchNode, x: Value, src: Value, *_: Any) -> Value:
    """Another tensor in the shape and type of this one."""
    return expand(node, node.cast(src, node.kind))


# --- borders ---------------------------------------------------------------------------------------------------


def _pairs(x: Value, pads: Sequence[Dim]) -> list[tuple[Dim, Dim]]:
    """Pads of PyTorch, the last axis first, by axis."""
    rank = x.type.rank
    found: list[tuple[Dim, Dim]] = [(0, 0)] * rank
    for k in range(len(pads) // 2):
        found[rank - 1 - k] = pads[2 * k], pads[2 * k + 1]
    return found


def _bordered(node: TorchNode, x: Value, pads: Sequence[Dim], **given: float | str) -> Value:
    """Pads by axis, of which negative ones cut. What is cut may be seen in a border before that, but for one that goes
    round: it is what is left that goes round."""
    pairs = _pairs(x, pads)
    borders = [(_positive(a), _positive(b)) for a, b in pairs]
    if given.get("mode") == "wrap":
        return padded(node, _cut(node, x, pairs), borders, **given)
    return _cut(node, padded(node, x, borders, **given), pairs)


def _cut(node: TorchNode, x: Value, pads: list[tuple[Dim, Dim]]) -> Value:
    """What negative pads leave."""
    for k, pair in enumerate(pads):
        before, after = (max(-p, 0) if isinstance(p, int) else 0 for p in pair)
        if before or after:
            x = part(node, x, k, before, x.type.shape[k] - before - after)
    return x


def _positive(pad: Dim) -> Dim:
    return max(pad, 0) if isinstance(pad, int) else pad


@aten("constant_pad_nd.default")
def constant_pad(node: TorchNode, x: Value, pads: Sequence[Dim], value: float = 0) -> Value:
    """A border of one value; negative pads cut."""
    number = float(node.kind.numpy.type(value)) if node.kind.is_float else int(value)
    return _bordered(node, x, pads, value=number)


@aten(*(f"reflection_pad{n}d.default" for n in (1, 2, 3)), *(f"replication_pad{n}d.default" for n in (1, 2, 3)))
def mirrored_pad(node: TorchNode, x: Value, pads: Sequence[Dim]) -> Value:
    """A border of what the tensor mirrors, or of its edge."""
    return _bordered(node, x, pads, value=0, mode="reflect" if "reflection" in node.target else "edge")


@aten("pad.default")
def pad(node: TorchNode, x: Value, pads: Sequence[Dim], mode: str = "constant", value: float | None = None) -> Value:
    """A border of one of four kinds."""
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    if mode == "constant":
        return constant_pad(node, x, pads, value or 0)
    return _bordered(node, x, pads, value=0, mode=modes[mode])


# --- pixels, diagonals -----------------------------------------------------------------------------------------


@aten("pixel_shuffle.default", "pixel_unshuffle.default", "channel_shuffle.default")
def shuffle(node: TorchNode, x: Value, by: int) -> Value:
    """Channels spread over blocks of pixels, gathered from them, or exchanged between groups."""
    if "channel" in node.target:
        n, c, *space = x.type.shape
        if not isinstance(c, int):
            node.fail("the number of channels is open")
        split = node.call("reshape", x, shape=(n, by, c // by, *space))
        order = [0, 2, 1, *range(3, split.type.rank)]
        return node.call("reshape", node.call("transpose", split, perm=tuple(order)), shape=x.type.shape)
    if x.type.rank != 4:
        node.fail(f"pixels of a tensor of rank {x.type.rank}")
    op = "depth_to_space" if node.target == "aten.pixel_shuffle.default" else "space_to_depth"
    return channels_first(node, node.call(op, channels_last(node, x), block=(by, by), inner=True), 2)


@aten("tril.default", "triu.default")
def triangle(node: TorchNode, x: Value, diagonal: Dim = 0) -> Value:
    """What lies on a diagonal and on one side of it; 0 elsewhere."""
    return node.call("trilu", x, k=diagonal, upper="triu" in node.target)


@aten("diagonal.default", "diagonal_copy.default")
def diagonal(node: TorchNode, x: Value, offset: int = 0, first: int = 0, second: int = 1) -> Value:
    """A diagonal of two axes, which becomes the last axis: evenly spaced elements of both taken together."""
    rank = x.type.rank
    i, j = node.axis(first, rank), node.axis(second, rank)
    rest = [k for k in range(rank) if k not in (i, j)]
    moved = swap_axes(node, x, [*rest, i, j])
    *outer, rows, columns = moved.type.shape
    if not isinstance(columns, int):
        node.fail(f"a diagonal of rows of the open size {columns}")
    flat = node.call("reshape", moved, shape=(*outer, rows * columns))
    begin = offset if offset >= 0 else -offset * columns
    return part(node, flat, len(outer), begin, node.out.shape[-1], columns + 1)


@aten("unfold.default", "unfold_copy.default")
def unfold(node: TorchNode, x: Value, dim: int, size: int, step: int) -> Value:
    """Windows along an axis: as many as fit, their elements along a new last axis."""
    axis = node.axis(dim, x.type.rank)
    starts = node.call("iota", extent=node.out.shape[axis], start=0, step=step, dtype=str(I64))
    columns = node.call("reshape", starts, shape=(node.out.shape[axis], 1))
    found = node.call("gather", x, node.call("add", columns, node.const(np.arange(size))), axis=axis)
    return swap_axes(node, found, [k for k in range(found.type.rank) if k != axis + 1] + [axis + 1])


# --- parts replaced --------------------------------------------------------------------------------------------


@aten("slice_scatter.default")
def slice_scatter(
    node: TorchNode, x: Value, src: Value, dim: int = 0, start: Dim | None = None, end: Dim | None = None,
    step: int = 1,
) -> Value:  # fmt: skip
    """A copy with a part of one axis replaced."""
    if step != 1:
        node.fail(f"a part by steps of {step} is replaced")
    axis = node.axis(dim, x.type.rank)
    begin, size = _range(node, x.type.shape[axis], start, end, step)
    return _replaced(node, x, node.cast(src, node.kind), axis, begin, size)


@aten("select_scatter.default")
def select_scatter(node: TorchNode, x: Value, src: Value, dim: int, index: Dim) -> Value:
    """A copy with one slice of an axis replaced."""
    axis = node.axis(dim, x.type.rank)
    at = index + x.type.shape[axis] if prove_lt(index, 0) is True else index
    row = node.call("reshape", node.cast(src, node.kind), shape=(*src.type.shape[:axis], 1, *src.type.shape[axis:]))
    return _replaced(node, x, row, axis, at, 1)


def _replaced(node: TorchNode, x: Value, src: Value, axis: int, begin: Dim, size: Dim) -> Value:
    extent = x.type.shape[axis]
    wanted = (*x.type.shape[:axis], size, *x.type.shape[axis + 1 :])
    before, after = part(node, x, axis, 0, begin), part(node, x, axis, begin + size, extent - begin - size)
    pieces = [before, spread(node, src, wanted), after]
    given = [p for p in pieces if prove_eq(p.type.shape[axis], 0) is not True]
    return given[0] if len(given) == 1 else node.call("concat", *given, axis=axis)
