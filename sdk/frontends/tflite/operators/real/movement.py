"""Elements moved as they are, whatever their type: shapes, joins, parts, borders, blocks, repetitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.sym import Dim, floordiv, product, prove_eq, prove_ge, prove_lt
from sdk.errors import BuildError
from sdk.frontends.tflite.context import OpNode, Table, tensor_quant
from sdk.frontends.tflite.operators.real.common import axis_of, fused, reshaped, shape_of, single

__all__ = ["TABLE"]


# --- shapes ------------------------------------------------------------------------------------------------------


def reshape(node: OpNode) -> None:
    """RESHAPE to a shape given as a tensor, as an option, or only by the output."""
    x = node.input(0)
    if node.has(1):
        wanted = list(node.dims(1))
    else:
        wanted = list(node.operator.options.get("NewShapeAsNumpy") or node.output().shape)
        wanted = [] if wanted == [0] else wanted  # how converters of old wrote a scalar
    told = ", ".join(map(str, wanted))
    places = [k for k, d in enumerate(wanted) if isinstance(d, int) and d == -1]
    if len(places) > 1 or any(isinstance(d, int) and d < -1 for d in wanted):
        raise BuildError(f"the target shape [{told}] is impossible")
    size = product(x.type.shape)
    if places:
        rest = product(tuple(d for k, d in enumerate(wanted) if k != places[0]))
        if prove_ge(rest, 1) is not True:
            raise BuildError(f"the target shape [{told}] leaves the size of its -1 open")
        wanted[places[0]] = floordiv(size, rest)
    if prove_eq(product(tuple(wanted)), size) is not True:
        raise BuildError(f"{size} elements are not known to fit the shape [{told}]")
    node.call("reshape", x, shape=tuple(wanted))


def squeeze(node: OpNode) -> None:
    """SQUEEZE: drops axes of extent 1, those named or all."""
    x, named = node.input(0), node.operator.options.get("SqueezeDimsAsNumpy") or ()
    unsure = [d for d in x.type.shape if not (isinstance(d, int) or prove_ge(d, 2) or prove_lt(d, 1))]
    if unsure and not named:
        raise BuildError(f"whether the open extent {unsure[0]} is 1 is not known; give it bounds from 2")
    dropped = {axis_of(int(k), x.type.rank) for k in named} or {k for k, d in enumerate(x.type.shape) if d == 1}
    for k in dropped:
        if prove_eq(x.type.shape[k], 1) is not True:
            raise BuildError(f"axis {k} of extent {x.type.shape[k]} cannot be dropped")
    node.call("reshape", x, shape=tuple(d for k, d in enumerate(x.type.shape) if k not in dropped))


def expand_dims(node: OpNode) -> None:
    """EXPAND_DIMS: an axis of extent 1 more."""
    x = node.input(0)
    axis = axis_of(single(node, 1), x.type.rank + 1)
    node.call("reshape", x, shape=(*x.type.shape[:axis], 1, *x.type.shape[axis:]))


def transpose(node: OpNode) -> None:
    """TRANSPOSE by a constant permutation."""
    x = node.input(0)
    perm = tuple(axis_of(k, x.type.rank) for k in node.integers(1))
    node.call("transpose", x, perm=perm)


# --- joins -------------------------------------------------------------------------------------------------------


def concatenation(node: OpNode) -> None:
    """CONCATENATION along an axis."""
    parts = _all(node)
    if fused(node) is not None:
        raise BuildError("a fused activation is not supported here")
    axis = axis_of(int(node.option("Axis")), parts[0].type.rank)
    if any(p.type.rank != parts[0].type.rank for p in parts):
        raise BuildError(f"its inputs have the ranks {', '.join(str(p.type.rank) for p in parts)}")
    filled = [p for p in parts if prove_eq(p.type.shape[axis], 0) is not True] or parts[:1]
    node.call("concat", *filled, axis=axis)


def pack(node: OpNode) -> None:
    """PACK: tensors of one shape along a new axis."""
    parts = _all(node)
    axis = axis_of(int(node.option("Axis")), parts[0].type.rank + 1)
    shape = parts[0].type.shape
    whole = (*shape[:axis], 1, *shape[axis:])
    if len(parts) == 1:
        node.call("reshape", parts[0], shape=whole)
        return
    if any(p.type.rank != len(shape) or not all(map(same_extent, p.type.shape, shape)) for p in parts):
        raise BuildError("its inputs have different shapes")
    node.call("concat", *(node.call("reshape", p, to="part", shape=whole) for p in parts), axis=axis)


def _all(node: OpNode) -> list[Value]:
    parts = [node.input(k) for k in range(len(node.operator.inputs))]
    if not parts:
        raise BuildError("no inputs")
    return parts


def unpack(node: OpNode) -> None:
    """UNPACK: the slices of an axis, which is dropped."""
    x = node.input(0)
    axis = axis_of(int(node.option("Axis")), x.type.rank)
    count = len(node.operator.outputs)
    if prove_eq(x.type.shape[axis], count) is not True:
        raise BuildError(f"{count} outputs for an axis of {x.type.shape[axis]}")
    for k in range(count):
        one = part(node, x, axis, k, 1, "slice")
        node.call("reshape", one, to=k, shape=(*x.type.shape[:axis], *x.type.shape[axis + 1 :]))


# --- parts -------------------------------------------------------------------------------------------------------


def part(node: OpNode, x: Value, axis: int, begin: Dim, size: Dim, to: int | str, step: int = 1) -> Value:
    """``size`` elements of an axis from ``begin`` on."""
    rank = x.type.rank
    return node.call(
        "slice", x, to=to, begin=tuple(begin if k == axis else 0 for k in range(rank)),
        size=tuple(size if k == axis else d for k, d in enumerate(x.type.shape)),
        strides=tuple(step if k == axis else 1 for k in range(rank)),
    )  # fmt: skip


def _split(node: OpNode, x: Value, axis: int, sizes: Sequence[Dim]) -> None:
    begin: Dim = 0
    for k, size in enumerate(sizes):
        part(node, x, axis, begin, size, k)
        begin = begin + size
    if prove_eq(begin, x.type.shape[axis]) is not True:
        raise BuildError(f"parts of {list(map(str, sizes))} of an axis of {x.type.shape[axis]}")


def split(node: OpNode) -> None:
    """SPLIT into equal parts: inputs (axis, x)."""
    x, count = node.input(1), len(node.operator.outputs)
    axis = axis_of(single(node, 0), x.type.rank)
    size = floordiv(x.type.shape[axis], max(count, 1))
    if prove_eq(size * count, x.type.shape[axis]) is not True:
        raise BuildError(f"an axis of {x.type.shape[axis]} cannot be split into {count} equal parts")
    _split(node, x, axis, (size,) * count)


def split_v(node: OpNode) -> None:
    """SPLIT_V into parts of given sizes, one of which may be -1: inputs (x, sizes, axis)."""
    x, sizes = node.input(0), list(node.integers(1))
    axis = axis_of(single(node, 2), x.type.rank)
    if len(sizes) != len(node.operator.outputs) or sizes.count(-1) > 1:
        raise BuildError(f"parts of {sizes} for {len(node.operator.outputs)} outputs")
    rest = x.type.shape[axis] - sum(s for s in sizes if s != -1)
    _split(node, x, axis, [rest if s == -1 else s for s in sizes])


def reverse(node: OpNode) -> None:
    """REVERSE_V2: some axes from their end."""
    x = node.input(0)
    axes = {axis_of(k, x.type.rank) for k in node.integers(1)}
    node.call(
        "slice", x, begin=tuple(d - 1 if k in axes else 0 for k, d in enumerate(x.type.shape)), size=x.type.shape,
        strides=tuple(-1 if k in axes else 1 for k in range(x.type.rank)),
    )  # fmt: skip


# --- borders and repetitions -------------------------------------------------------------------------------------


def _pads(node: OpNode, rank: int) -> tuple[tuple[Dim, Dim], ...]:
    flat = node.dims(1)
    if len(flat) != 2 * rank or any(prove_ge(p, 0) is not True for p in flat):
        raise BuildError(f"pads {list(map(str, flat))} for rank {rank}")
    return tuple((flat[2 * k], flat[2 * k + 1]) for k in range(rank))


def pad(node: OpNode) -> None:
    """PAD with zeros, PADV2 with a constant."""
    x = node.input(0)
    number: float = 0
    if node.has(2):
        data = node.constant(2)
        if data.size != 1:
            raise BuildError(f"the border has {data.size} values instead of one")
        number = data.reshape(-1)[0].item()
    value = float(number) if x.type.dtype.is_float else int(number)
    node.call("pad", x, pads=_pads(node, x.type.rank), value=value)


def mirror_pad(node: OpNode) -> None:
    """MIRROR_PAD: borders that mirror the tensor, without its outermost elements (REFLECT) or with them."""
    x, mode = node.input(0), int(node.option("Mode"))
    pads = _pads(node, x.type.rank)
    if mode not in (0, 1):
        raise BuildError(f"the mode {mode} is not supported")
    for (before, after), size in zip(pads, x.type.shape, strict=True):
        if any(prove_ge(size - (1 - mode), p) is not True for p in (before, after)):
            raise BuildError(f"borders of {before} and {after} mirror more than an axis of {size} has")
    if mode == 0:
        node.call("pad", x, pads=pads, value=0, mode="reflect")
        return
    wide = [k for k, pair in enumerate(pads) if pair != (0, 0)]
    if not wide:
        node.call("reshape", x, shape=x.type.shape)
    for k in wide:
        before, after = pads[k]
        size = x.type.shape[k]
        if not (isinstance(size, int) and isinstance(before, int) and isinstance(after, int)):
            raise BuildError(f"a symmetric border of the open extent {size} is not supported")
        places = np.pad(np.arange(size, dtype=np.int32), (before, after), mode="symmetric")
        x = node.call("gather", x, node.const("places", places), to=0 if k == wide[-1] else "mirrored", axis=k)


def tile(node: OpNode) -> None:
    """TILE: repeated along its axes; [d] seen as [1, d], spread to [r, d], seen as [r * d]."""
    x, counts = node.input(0), node.dims(1)
    if len(counts) != x.type.rank or any(prove_ge(c, 0) is not True for c in counts):
        raise BuildError(f"{list(map(str, counts))} repetitions of a tensor of rank {x.type.rank}")
    pairs = list(zip(counts, x.type.shape, strict=True))
    split_ = reshaped(node, x, [n for _, d in pairs for n in (1, d)], "split")
    spread = node.call("broadcast_to", split_, to="spread", shape=tuple(n for pair in pairs for n in pair))
    node.call("reshape", spread, shape=tuple(count * d for count, d in pairs))


def broadcast_to(node: OpNode) -> None:
    """BROADCAST_TO a shape."""
    node.call("broadcast_to", node.input(0), shape=shape_of(node, 1))


# --- blocks ------------------------------------------------------------------------------------------------------


def space_to_depth(node: OpNode) -> None:
    """SPACE_TO_DEPTH: blocks of pixels become channels."""
    size = node.positive("BlockSize")
    node.call("space_to_depth", node.input(0), block=(size, size))


def depth_to_space(node: OpNode) -> None:
    """DEPTH_TO_SPACE: channels become blocks of pixels."""
    size = node.positive("BlockSize")
    node.call("depth_to_space", node.input(0), block=(size, size))


def _blocks(node: OpNode, rank: int) -> tuple[tuple[int, ...], list[tuple[int, int]]]:
    """The block and the borders of the axes after the batch."""
    block, flat = node.integers(1), node.integers(2)
    if not 1 <= len(block) < rank or len(flat) != 2 * len(block) or min(block) < 1 or min(flat) < 0:
        raise BuildError(f"blocks of {list(block)} with borders {list(flat)} of a tensor of rank {rank}")
    return block, [(flat[2 * k], flat[2 * k + 1]) for k in range(len(block))]


def space_to_batch(node: OpNode) -> None:
    """SPACE_TO_BATCH_ND: each place in a block becomes images of its own, of a tensor with a border."""
    x = node.input(0)
    block, borders = _blocks(node, x.type.rank)
    axes = len(block)
    if any(pair != (0, 0) for pair in borders):
        rest = ((0, 0),) * (x.type.rank - axes - 1)
        quant = tensor_quant(node.tensor(0))
        zero = 0.0 if x.type.dtype.is_float else quant.zero_point if quant else 0
        x = node.call("pad", x, to="border", pads=((0, 0), *borders, *rest), value=zero)
    batch, *space = x.type.shape[: axes + 1]
    inner = x.type.shape[axes + 1 :]
    counts = [floordiv(d, b) for d, b in zip(space, block, strict=True)]
    if any(prove_eq(c * b, d) is not True for c, b, d in zip(counts, block, space, strict=True)):
        raise BuildError(f"{list(map(str, space))} pixels do not fill blocks of {list(block)}")
    split_ = (batch, *(n for pair in zip(counts, block, strict=True) for n in pair), *inner)
    perm = (*range(2, 2 * axes + 1, 2), 0, *range(1, 2 * axes, 2), *range(2 * axes + 1, len(split_)))
    value = node.call("reshape", x, to="blocks", shape=split_)
    value = node.call("transpose", value, to="images", perm=perm)
    node.call("reshape", value, shape=(batch * product(block), *counts, *inner))


def batch_to_space(node: OpNode) -> None:
    """BATCH_TO_SPACE_ND: images become places in blocks again, and a border is cut off."""
    x = node.input(0)
    block, borders = _blocks(node, x.type.rank)
    axes = len(block)
    batch = floordiv(x.type.shape[0], product(block))
    if prove_eq(batch * product(block), x.type.shape[0]) is not True:
        raise BuildError(f"{x.type.shape[0]} images do not fill blocks of {list(block)}")
    space, inner = x.type.shape[1 : axes + 1], x.type.shape[axes + 1 :]
    value = node.call("reshape", x, to="images", shape=(*block, batch, *space, *inner))
    perm = (axes, *(n for k in range(axes) for n in (axes + 1 + k, k)), *range(2 * axes + 1, 2 * axes + 1 + len(inner)))
    value = node.call("transpose", value, to="blocks", perm=perm)
    whole = [d * b for d, b in zip(space, block, strict=True)]
    cut = any(pair != (0, 0) for pair in borders)
    value = node.call("reshape", value, to="whole" if cut else 0, shape=(batch, *whole, *inner))
    if not cut:
        return
    begin = (0, *(a for a, _ in borders), *(0 for _ in inner))
    size = (batch, *(d - a - b for d, (a, b) in zip(whole, borders, strict=True)), *inner)
    node.call("slice", value, begin=begin, size=size, strides=(1,) * len(begin))


TABLE: Table = {
    "RESHAPE": reshape,
    "SQUEEZE": squeeze,
    "EXPAND_DIMS": expand_dims,
    "TRANSPOSE": transpose,
    "CONCATENATION": concatenation,
    "PACK": pack,
    "UNPACK": unpack,
    "SPLIT": split,
    "SPLIT_V": split_v,
    "REVERSE_V2": reverse,
    "PAD": pad,
    "PADV2": pad,
    "MIRROR_PAD": mirror_pad,
    "TILE": tile,
    "BROADCAST_TO": broadcast_to,
    "SPACE_TO_DEPTH": space_to_depth,
    "DEPTH_TO_SPACE": depth_to_space,
    "SPACE_TO_BATCH_ND": space_to_batch,
    "BATCH_TO_SPACE_ND": batch_to_space,
}
