"""Layers of .tflite files that move numbers, choose them by positions, or compute the shapes that others want."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from .builders import Op
from .draw import Draw
from .fills import floats, integers
from .network import Layer, Spec, Unfit, layer
from .tflite_reals import exact_reals, left_axes, needed, put, real_images, reals, some

__all__ = ["TABLE"]


def _rows(spec: Spec) -> bool:
    return reals(spec) and 1 <= len(spec.shape) <= 4


def _axis(d: Draw, spec: Spec) -> int:
    return d.below(len(spec.shape)) - (len(spec.shape) if d.chance(0.3) else 0)


def _x(b: Any, one: Layer) -> int:
    return int(b.index[one.inputs[0]])


def _moved(b: Any, one: Layer, consts: list[int], shape: Any, options: str = "", **fields: Any) -> None:
    """The operator with constants after its input; what it makes has the input's bits."""
    put(b, one, [_x(b, one), *consts], shape, options, exact=b.specs[one.inputs[0]].exact, **fields)


def _positions(shape: tuple[int, ...], fill: Any, extent: int) -> np.ndarray:
    return integers(shape, fill, 0, extent - 1)


# --- joins, borders and repetitions -------------------------------------------------------------------------------


def _concat(b: Any, one: Layer) -> None:
    """A tensor after itself, and a constant."""
    spec, k = needed(b, one, _rows), one["axis"] % max(len(b.specs[one.inputs[0]].shape), 1)
    other = (*spec.shape[:k], one["more"], *spec.shape[k + 1 :])
    b.counted(weights=4 * math.prod(other))
    shape = (*spec.shape[:k], 2 * spec.shape[k] + one["more"], *spec.shape[k + 1 :])
    parts = [_x(b, one), _x(b, one), b.const(floats(other, one["fill"]), "float32")]
    put(b, one, parts, shape, "ConcatenationOptions", exact=spec.exact, Axis=one["axis"])


def _pack(b: Any, one: Layer) -> None:
    spec = needed(b, one, lambda s: reals(s) and len(s.shape) <= 3)
    k = one["axis"] % (len(spec.shape) + 1)
    shape = (*spec.shape[:k], one["count"], *spec.shape[k:])
    put(b, one, [_x(b, one)] * one["count"], shape, "PackOptions", exact=spec.exact, Axis=one["axis"],
         ValuesCount=one["count"])  # fmt: skip


def _draw_unpack(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, lambda s: _rows(s) and len(s.shape) >= 2)
    if x is None:
        return None
    axis = _axis(d, b.specs[x])
    count = b.specs[x].shape[axis]
    return layer("UNPACK", [x], b.fresh(count), axis=axis) if count <= 4 else None


def _unpack(b: Any, one: Layer) -> None:
    spec, axis = needed(b, one, _rows), one["axis"]
    shape = left_axes(spec, (axis,), False)
    if spec.shape[axis] != len(one.outputs) or not shape:
        raise Unfit(f"UNPACK of {spec}")
    outs = [b.make(name, replace(spec, shape=shape)) for name in one.outputs]
    b.op("UNPACK", [_x(b, one)], outs, "UnpackOptions", Axis=axis, Num=len(outs))


def _borders(d: Draw, spec: Spec) -> tuple[tuple[int, int], ...]:
    return tuple((d.between(0, 2), d.between(0, 2)) if d.chance(0.5) else (0, 0) for _ in spec.shape)


def _pad(b: Any, one: Layer) -> None:
    spec, pads = needed(b, one, _rows), one["pads"]
    mirrors = one.op == "MIRROR_PAD"
    if len(pads) != len(spec.shape):
        raise Unfit(f"{one.op} of {spec}")
    if mirrors and any(max(p) > n - 1 + one["mode"] for p, n in zip(pads, spec.shape, strict=True)):
        raise Unfit("a border that mirrors more than there is")
    shape = tuple(n + sum(p) for n, p in zip(spec.shape, pads, strict=True))
    more = [b.const([-1.5], "float32")] if one.op == "PADV2" else []
    given = {"options": "MirrorPadOptions", "Mode": one["mode"]} if mirrors else {}
    _moved(b, one, [b.const(pads), *more], shape, **given)


def _tile(b: Any, one: Layer) -> None:
    spec, counts = needed(b, one, _rows), one["counts"]
    if len(counts) != len(spec.shape):
        raise Unfit(f"TILE of {spec}")
    _moved(b, one, [b.const(counts)], [n * c for n, c in zip(spec.shape, counts, strict=True)])


def _reverse(b: Any, one: Layer) -> None:
    spec = needed(b, one, _rows)
    left_axes(spec, (one["axis"],), True)
    _moved(b, one, [b.const([one["axis"]])], spec.shape)


def _reverse_sequence(b: Any, one: Layer) -> None:
    spec = needed(b, one, lambda s: reals(s) and len(s.shape) >= 2)
    lengths = integers(spec.shape[:1], one["fill"], 1, spec.shape[1])
    _moved(b, one, [b.const(lengths)], spec.shape, "ReverseSequenceOptions", SeqDim=1, BatchDim=0)


# --- images -------------------------------------------------------------------------------------------------------


def _depth(b: Any, one: Layer) -> None:
    n, h, w, c = needed(b, one, real_images).shape
    size = one["block"]
    if one.op == "SPACE_TO_DEPTH":
        if h % size or w % size:
            raise Unfit("pixels that do not fill blocks")
        shape, options = (n, h // size, w // size, c * size * size), "SpaceToDepthOptions"
    else:
        if c % (size * size):
            raise Unfit("channels that do not fill blocks")
        shape, options = (n, h * size, w * size, c // size // size), "DepthToSpaceOptions"
    _moved(b, one, [], shape, options, BlockSize=size)


def _draw_depth(d: Draw, spec: Spec) -> int:
    _, h, w, c = spec.shape
    return d.one([k for k in (1, 2, 3) if (h % k == 0 and w % k == 0) or c % (k * k) == 0])


def _batch(b: Any, one: Layer) -> None:
    """Images spread over the batch; of BATCHES, and back."""
    spec, (p, q) = needed(b, one, real_images), one["block"]
    n, h, w, c = spec.shape
    after = (-h % p, -w % q)
    shape = (n * p * q, (h + after[0]) // p, (w + after[1]) // q, c)
    block, border = b.const([p, q]), b.const([[0, after[0]], [0, after[1]]])
    if one.op == "SPACE_TO_BATCH_ND":
        _moved(b, one, [block, border], shape)
        return
    spread = b.hidden("spread", Spec(shape, "float32"))
    b.op("SPACE_TO_BATCH_ND", [_x(b, one), block, border], [spread])
    out = b.make(one.outputs[0], spec)
    b.op("BATCH_TO_SPACE_ND", [spread, block, border], [out])


def _resize(b: Any, one: Layer) -> None:
    n, h, w, c = needed(b, one, real_images).shape
    new = [max(1, math.floor(d * f)) for d, f in zip((h, w), one["factors"], strict=True)]
    options = {"RESIZE_BILINEAR": "ResizeBilinearOptions"}.get(one.op, "ResizeNearestNeighborOptions")
    corners, half = one["how"]
    if corners and half:
        raise Unfit("corners and centres")
    exact = one.op != "RESIZE_BILINEAR" and b.specs[one.inputs[0]].exact
    put(b, one, [_x(b, one), b.const(new)], (n, *new, c), options, exact=exact, AlignCorners=corners,
         HalfPixelCenters=half)  # fmt: skip


# --- positions ----------------------------------------------------------------------------------------------------


def _gather(b: Any, one: Layer) -> None:
    spec, k = needed(b, one, _rows), one["axis"] % max(len(b.specs[one.inputs[0]].shape), 1)
    if k >= len(spec.shape) or one["batch"] > k or one["batch"] > 1:
        raise Unfit(f"GATHER of {spec}")
    chosen = (*spec.shape[: one["batch"]], one["count"])
    at = b.const(_positions(chosen, one["fill"], spec.shape[k]))
    _moved(b, one, [at], (*spec.shape[:k], one["count"], *spec.shape[k + 1 :]), "GatherOptions", Axis=k,
           BatchDims=one["batch"])  # fmt: skip


def _gather_nd(b: Any, one: Layer) -> None:
    spec = needed(b, one, lambda s: _rows(s) and len(s.shape) >= 2)
    pairs = [_positions((one["count"],), (one["fill"][0], one["fill"][1] + k), spec.shape[k]) for k in range(2)]
    _moved(b, one, [b.const(np.stack(pairs, 1))], (one["count"], *spec.shape[2:]))


def _lookup(b: Any, one: Layer) -> None:
    spec = needed(b, one, lambda s: _rows(s) and len(s.shape) >= 2)
    at = b.const(_positions((one["count"],), one["fill"], spec.shape[0]))
    put(b, one, [at, _x(b, one)], (one["count"], *spec.shape[1:]), exact=spec.exact)


def _one_hot(b: Any, one: Layer) -> None:
    """Of where the largest element of each row is."""
    spec = needed(b, one, lambda s: exact_reals(s) and 2 <= len(s.shape) <= 3)
    places = b.hidden("places", Spec(spec.shape[:-1], "int32"))
    b.op("ARG_MAX", [_x(b, one), b.const(-1)], [places], "ArgMaxOptions", OutputType=2)
    inputs = [places, b.const(one["depth"]), b.const(np.float32(2), "float32"), b.const(np.float32(-1), "float32")]
    put(b, one, inputs, (*spec.shape[:-1], one["depth"]), "OneHotOptions", exact=True, Axis=-1)


def _scatter(b: Any, one: Layer) -> None:
    spec = needed(b, one, _rows)
    at = b.const(_positions((spec.shape[0], 1), one["fill"], one["count"]))
    shape = (one["count"], *spec.shape[1:])
    put(b, one, [at, _x(b, one), b.const(shape)], shape)


# --- shapes that are computed -------------------------------------------------------------------------------------


def _flatten(b: Any, one: Layer) -> None:
    """What Keras' Flatten becomes: the batch out of the shape, packed with -1."""
    spec = needed(b, one, lambda s: len(s.shape) >= 2 and s.scale is None)
    sizes = b.hidden("sizes", Spec((len(spec.shape),), "int32"))
    batch = b.hidden("batch", Spec((), "int32"))
    wanted = b.hidden("wanted", Spec((2,), "int32"))
    b.op("SHAPE", [_x(b, one)], [sizes], "ShapeOptions", OutType=2)
    b.op("STRIDED_SLICE", [sizes, b.const([0]), b.const([1]), b.const([1])], [batch], "StridedSliceOptions",
         ShrinkAxisMask=1)  # fmt: skip
    b.op("PACK", [batch, b.const(-1)], [wanted], "PackOptions", Axis=0, ValuesCount=2)
    out = b.make(one.outputs[0], replace(spec, shape=(spec.shape[0], spec.elements // spec.shape[0])))
    b.op("RESHAPE", [_x(b, one), wanted], [out], "ReshapeOptions")


def _filled(b: Any, one: Layer) -> None:
    """A sum with a tensor of one number in the same shape."""
    spec = needed(b, one, _rows)
    sizes, full = b.hidden("sizes", Spec((len(spec.shape),), "int32")), b.hidden("full", spec)
    b.op("SHAPE", [_x(b, one)], [sizes], "ShapeOptions", OutType=2)
    b.op("FILL", [sizes, b.const(np.float32(0.75), "float32")], [full])
    out = b.make(one.outputs[0], replace(spec, exact=False))
    b.op("ADD", [_x(b, one), full], [out], "AddOptions")


def _total(b: Any, one: Layer) -> None:
    """A mean over all axes, whose numbers are counted up to the rank."""
    spec = needed(b, one, _rows)
    rank, axes = b.hidden("rank", Spec((), "int32")), b.hidden("axes", Spec((len(spec.shape),), "int32"))
    b.op("RANK", [_x(b, one)], [rank])
    b.op("RANGE", [b.const(0), rank, b.const(1)], [axes])
    out = b.make(one.outputs[0], Spec((1,) * len(spec.shape), "float32", exact=False))
    b.op("MEAN", [_x(b, one), axes], [out], "ReducerOptions", KeepDims=True)


def _spread(b: Any, one: Layer) -> None:
    """Broadcast to what the shape and another one broadcast to."""
    spec = needed(b, one, lambda s: reals(s) and 1 <= len(s.shape) <= 3)
    rank = len(spec.shape) + 1
    sizes, wanted = b.hidden("sizes", Spec((rank - 1,), "int32")), b.hidden("wanted", Spec((rank,), "int32"))
    b.op("SHAPE", [_x(b, one)], [sizes], "ShapeOptions", OutType=2)
    b.op("BROADCAST_ARGS", [sizes, b.const((one["count"], *(1 for _ in spec.shape)))], [wanted])
    out = b.make(one.outputs[0], replace(spec, shape=(one["count"], *spec.shape)))
    b.op("BROADCAST_TO", [_x(b, one), wanted], [out])


def _bits(b: Any, one: Layer) -> None:
    """Whole numbers shifted, and some of their bits turned."""
    spec = needed(b, one, exact_reals)
    whole, moved, mixed = (b.hidden("whole", replace(spec, dtype="int32")) for _ in range(3))
    b.op("CAST", [_x(b, one)], [whole], "CastOptions", InDataType=0, OutDataType=2)
    b.op("RIGHT_SHIFT", [whole, b.const([1])], [moved])
    b.op("BITWISE_XOR", [moved, b.const([5])], [mixed])
    b.op("CAST", [mixed], [b.make(one.outputs[0], spec)], "CastOptions", InDataType=2, OutDataType=0)


def _stored(b: Any, one: Layer) -> None:
    """Quantised and back."""
    spec = needed(b, one, exact_reals)
    kind, scale, zero = one["meaning"]
    middle = b.hidden("stored", Spec(spec.shape, kind, scale, zero))
    b.op("QUANTIZE", [_x(b, one)], [middle])
    b.op("DEQUANTIZE", [middle], [b.make(one.outputs[0], spec)])


_FILL = {"fill": lambda d, _: d.fill()}
_COUNT = {"count": lambda d, _: d.between(1, 6)}
_PADS = {"pads": _borders, "mode": lambda d, _: d.below(2)}
_MEANINGS = (("int8", 0.0625, -3), ("uint8", 0.03125, 128), ("int16", 0.001953125, 0))


def _row(op: str, emit: Any, fits: Any = _rows, **choices: Any) -> dict[str, Op]:
    return {op: Op(some(fits, **choices)(op), emit, 1)}


def _more_axes(spec: Spec) -> bool:
    return _rows(spec) and len(spec.shape) >= 2


TABLE: dict[str, Op] = {
    **_row("CONCATENATION", _concat, axis=_axis, more=lambda d, _: d.between(1, 4), **_FILL),
    **_row("PACK", _pack, lambda s: reals(s) and 1 <= len(s.shape) <= 3, axis=_axis, **_COUNT),
    "UNPACK": Op(_draw_unpack, _unpack, 1),
    **{op: Op(some(_rows, **_PADS)(op), _pad, 1) for op in ("PAD", "PADV2", "MIRROR_PAD")},
    **_row("TILE", _tile, counts=lambda d, s: tuple(d.between(1, 2) for _ in s.shape)),
    **_row("REVERSE_V2", _reverse, axis=_axis),
    **_row("REVERSE_SEQUENCE", _reverse_sequence, _more_axes, **_FILL),
    **{op: Op(some(real_images, block=_draw_depth)(op), _depth, 1) for op in ("SPACE_TO_DEPTH", "DEPTH_TO_SPACE")},
    **{op: Op(some(real_images, block=lambda d, _: d.pair((1, 2, 3)))(op), _batch, 1)
       for op in ("SPACE_TO_BATCH_ND", "BATCHES")},
    **{op: Op(some(real_images, factors=lambda d, _: d.pair((1.0, 2.0, 1.5, 0.5)), how=lambda d, _: d.one(
       ((False, False), (True, False), (False, True))))(op), _resize, 1)
       for op in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")},
    **_row("GATHER", _gather, axis=_axis, batch=lambda d, s: d.below(2) if len(s.shape) > 1 else 0, **_COUNT, **_FILL),
    **_row("GATHER_ND", _gather_nd, _more_axes, **_COUNT, **_FILL),
    **_row("EMBEDDING_LOOKUP", _lookup, _more_axes, **_COUNT, **_FILL),
    **_row("ONE_HOT", _one_hot, lambda s: exact_reals(s) and 2 <= len(s.shape) <= 3,
           depth=lambda d, _: d.between(1, 9)),
    **_row("SCATTER_ND", _scatter, **_COUNT, **_FILL),
    **_row("FLATTEN", _flatten, lambda s: len(s.shape) >= 2 and s.scale is None),
    **_row("FILLED", _filled),
    **_row("TOTAL", _total),
    **_row("SPREAD", _spread, lambda s: reals(s) and 1 <= len(s.shape) <= 3, **_COUNT),
    **_row("BITS", _bits, exact_reals),
    **_row("STORED", _stored, exact_reals, meaning=lambda d, _: d.one(_MEANINGS)),
}  # fmt: skip
