"""ONNX layers that move elements of any type: shapes, slices, joins, borders, gathers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .builders import Op
from .draw import Draw
from .network import Layer, Spec, Unfit, layer

__all__ = ["TABLE", "plain"]

# An attribute (op, inputs, given) makes a layer out of one node: of the inputs, numbers are integers of the model's
# constants. What ONNX's inference accepts is taken, so the tables below say only what is drawn.


def plain(b: Any, one: Layer) -> None:
    """A node on the layer's inputs, then constants of i64 (``consts``; None is one left out), with ``given``."""
    consts = ["" if c is None else b.const(np.asarray(c, np.int64)) for c in one.get("consts", ())]
    b.node(one.op, [*one.inputs, *consts], one.outputs, **dict(one.get("given", ())))


def _layer(op: str, b: Any, x: str, *consts: Any, count: int = 1, **given: Any) -> Layer:
    held = tuple(c if c is None or isinstance(c, int) else tuple(c) for c in consts)
    return layer(op, [x], b.fresh(count), consts=held, given=tuple(sorted(given.items())))


def _picked(d: Draw, b: Any, minimum: int = 1, maximum: int = 5) -> tuple[str, tuple[int, ...]] | None:
    x = b.pick(d, lambda s: minimum <= len(s.shape) <= maximum)
    return None if x is None else (x, b.specs[x].shape)


def _drawer(make: Any, minimum: int = 1, maximum: int = 5) -> Any:
    """A draw of a layer with one input: ``make(d, b, x, shape)``."""

    def draw(d: Draw, b: Any) -> Layer | None:
        found = _picked(d, b, minimum, maximum)
        return None if found is None else make(d, b, *found)

    return draw


def _blocks(b: Any, one: Layer) -> None:
    """Blocks that fit, which ONNX's inference does not ask; onnxruntime has them of reals and bytes."""
    spec, size = b.types[one.inputs[0]], dict(one["given"])["blocksize"]
    if size < 1 or len(spec.shape) != 4 or spec.dtype not in ("float32", "uint8")[: 1 + (one.op == "DepthToSpace")]:
        raise Unfit(f"{one.op} of {spec}")
    if spec.shape[1] % size**2 if one.op == "DepthToSpace" else any(n % size for n in spec.shape[2:]):
        raise Unfit(f"blocks of {size} of {spec}")
    plain(b, one)


def _triangle(b: Any, one: Layer) -> None:
    """Of the types that onnxruntime has it for."""
    if b.types[one.inputs[0]].dtype not in ("float32", "int64", "bool"):
        raise Unfit(f"Trilu of {b.types[one.inputs[0]]}")
    plain(b, one)


Shape = tuple[int, ...]


def _reshape(d: Draw, b: Any, x: str, shape: Shape) -> Layer:
    wanted = list(d.factors(int(np.prod(shape)), d.between(1, 4)))
    if d.chance(0.3):
        wanted[d.below(len(wanted))] = -1
    return _layer("Reshape", b, x, wanted)


def _flatten(d: Draw, b: Any, x: str, shape: Shape) -> Layer:
    return _layer("Flatten", b, x, axis=d.between(-len(shape), len(shape)))


def _squeeze(d: Draw, b: Any, x: str, shape: Shape) -> Layer | None:
    ones = [k for k, n in enumerate(shape) if n == 1]
    if not ones or len(ones) == len(shape):
        return None
    return _layer("Squeeze", b, x, d.shuffled(ones)[: d.between(1, len(ones))])


def _unsqueeze(d: Draw, b: Any, x: str, shape: Shape) -> Layer:
    return _layer("Unsqueeze", b, x, [d.between(-len(shape) - 1, len(shape))])


def _expand(d: Draw, b: Any, x: str, shape: Shape) -> Layer:
    wanted = [d.between(1, 4) if n == 1 else d.one((1, n)) for n in shape]
    return _layer("Expand", b, x, [d.between(1, 2), *wanted] if d.chance(0.3) and len(shape) < 4 else wanted)


def _transpose(d: Draw, b: Any, x: str, shape: Shape) -> Layer:
    return _layer("Transpose", b, x, perm=tuple(d.shuffled(range(len(shape)))))


def _split(d: Draw, b: Any, x: str, shape: Shape) -> Layer:
    axis = d.below(len(shape))
    if d.chance(0.5):
        count = min(d.between(1, 3), shape[axis])
        count = count if -(-shape[axis] // count) * (count - 1) < shape[axis] else 1
        return _layer("Split", b, x, count=count, axis=axis, num_outputs=count)
    first = d.between(1, shape[axis])
    sizes = [n for n in (first, shape[axis] - first) if n]
    return _layer("Split", b, x, sizes, count=len(sizes), axis=axis)


def _slice(d: Draw, b: Any, x: str, shape: Shape) -> Layer:
    axes = d.shuffled(range(len(shape)))[: d.between(1, len(shape))]
    starts, ends, steps = [], [], []
    for k in axes:
        n = shape[k]
        begin, end = sorted((d.below(n), d.below(n)))
        if d.chance(0.3):
            starts.append(end - n)
            ends.append(begin - 1 - n)
            steps.append(d.one((-1, -1, -2)))
        else:
            starts.append(begin)
            ends.append(d.one((end + 1, n + 1000, end + 1)))
            steps.append(d.one((1, 1, 2, 3)))
    return _layer("Slice", b, x, starts, ends, axes, steps)


def _tile(d: Draw, b: Any, x: str, shape: Shape) -> Layer:
    return _layer("Tile", b, x, [d.one((1, 1, 2, 3)) for _ in shape])


def _depth(op: str) -> Any:
    def make(d: Draw, b: Any, x: str, shape: Shape) -> Layer:
        to_space = op == "DepthToSpace"
        given = {"mode": d.one(("DCR", "CRD"))} if to_space else {}
        fit = [k for k in (1, 2, 3) if (shape[1] % k**2 == 0 if to_space else not shape[2] % k and not shape[3] % k)]
        return _layer(op, b, x, blocksize=fit[-1], **given)

    return make


def _trilu(d: Draw, b: Any, x: str, shape: Shape) -> Layer:
    return _layer("Trilu", b, x, d.between(-2, 2), upper=d.below(2))


def _crop(d: Draw, b: Any, x: str, shape: Shape) -> Layer:
    axes = d.shuffled(range(len(shape)))[: d.between(1, len(shape))]
    sizes = [max(1, shape[k] + d.between(-3, 3)) for k in axes]
    return _layer("CenterCropPad", b, x, sizes, axes=tuple(axes))


def _gather(d: Draw, b: Any, x: str, shape: Shape) -> Layer:
    axis = d.below(len(shape))
    places = [d.between(-shape[axis], shape[axis] - 1) for _ in range(d.between(1, 4))]
    if d.chance(0.3):
        places = list(range(places[0] % shape[axis], shape[axis]))
    return _layer("Gather", b, x, places[0] if d.chance(0.15) else places, axis=axis)


def _gather_elements(d: Draw, b: Any, x: str, shape: Shape) -> Layer:
    """Two places on an axis; others for each index of the axes before it."""
    axis = d.below(len(shape))
    before = shape[:axis]
    drawn = [d.between(-shape[axis], shape[axis] - 1) for _ in range(2 * int(np.prod(before)))]
    places = np.asarray(drawn).reshape(*before, 2, *(1 for _ in shape[axis + 1 :]))
    wide = np.broadcast_to(places, (*before, 2, *shape[axis + 1 :]))
    return _layer("GatherElements", b, x, _nested(wide), axis=axis)


def _nested(array: Any) -> Any:
    return tuple(map(_nested, array)) if array.ndim else int(array)


def _gather_nd(d: Draw, b: Any, x: str, shape: Shape) -> Layer:
    depth = d.between(1, len(shape))
    rows = [tuple(d.between(-n, n - 1) for n in shape[:depth]) for _ in range(d.between(1, 4))]
    return _layer("GatherND", b, x, rows)


def _reverse(d: Draw, b: Any, x: str, shape: Shape) -> Layer:
    time = d.below(2)
    lengths = [d.between(1, shape[time]) for _ in range(shape[1 - time])]
    return _layer("ReverseSequence", b, x, lengths, batch_axis=1 - time, time_axis=time)


def _same(op: str) -> Any:
    return lambda d, b, x, shape: _layer(op, b, x)


# --- with writers of their own -----------------------------------------------------------------------------------


def _draw_pad(d: Draw, b: Any) -> Layer | None:
    found = _picked(d, b)
    if found is None:
        return None
    x, shape = found
    mode = d.one(("constant", "constant", "edge", "reflect", "wrap"))
    maximum = [min(n - 1 if mode == "reflect" else n, 3) for n in shape] if mode != "constant" else [3] * len(shape)
    ends = [d.between(0, m) if d.chance(0.4) else 0 for m in (*maximum, *maximum)]
    if mode == "constant" and d.chance(0.2):
        ends = [-1 if e == 1 and n > 3 else e for e, n in zip(ends, shape * 2, strict=True)]
    return layer("Pad", [x], b.fresh(), pads=tuple(ends), mode=mode, value=d.one((None, 0, 1, 5)))


def _pad(b: Any, one: Layer) -> None:
    spec = b.types[one.inputs[0]]
    inputs = [one.inputs[0], b.const(np.asarray(one["pads"], np.int64))]
    if one["mode"] == "constant" and one["value"] is not None:
        inputs.append(b.const(one["value"], spec.dtype))
    count = len(spec.shape)
    if one["mode"] == "reflect" and any(p >= n for p, n in zip(one["pads"], spec.shape * 2, strict=False)):
        raise Unfit("a mirror larger than the image")
    if len(one["pads"]) != 2 * count or (one["mode"] != "constant" and min(one["pads"]) < 0):
        raise Unfit(f"Pad of {spec}")
    b.node("Pad", inputs, one.outputs, mode=one["mode"])


def _draw_concat(d: Draw, b: Any) -> Layer | None:
    found = _picked(d, b)
    if found is None:
        return None
    x, shape = found
    axis = d.below(len(shape))

    def joins(s: Spec) -> bool:
        same = s.dtype == b.specs[x].dtype and len(s.shape) == len(shape)
        return same and all(a == c or k == axis for k, (a, c) in enumerate(zip(s.shape, shape, strict=True)))

    names = d.shuffled([x, *(b.pick(d, joins) or x for _ in range(d.between(1, 2)))])
    return layer("Concat", names, b.fresh(), given=(("axis", axis - len(shape) if d.chance(0.3) else axis),))


_PLAIN = {
    "Reshape": (_reshape, 1, 5), "Flatten": (_flatten, 1, 5), "Squeeze": (_squeeze, 2, 5),
    "Unsqueeze": (_unsqueeze, 1, 4), "Expand": (_expand, 1, 4), "Transpose": (_transpose, 2, 5),
    "Split": (_split, 1, 5), "Slice": (_slice, 1, 5), "Tile": (_tile, 1, 4),
    "CenterCropPad": (_crop, 1, 4), "Gather": (_gather, 1, 5),
    "GatherElements": (_gather_elements, 1, 4), "GatherND": (_gather_nd, 1, 4), "ReverseSequence": (_reverse, 2, 4),
    "Dropout": (_same("Dropout"), 1, 5), "Identity": (_same("Identity"), 1, 5),
}  # fmt: skip
TABLE = {
    **{op: Op(_drawer(*how), plain, 1) for op, how in _PLAIN.items()},
    **{op: Op(_drawer(_depth(op), 4, 4), _blocks, 2) for op in ("DepthToSpace", "SpaceToDepth")},
    "Trilu": Op(_drawer(_trilu, 2, 4), _triangle, 1),
    "Pad": Op(_draw_pad, _pad, 2),
    "Concat": Op(_draw_concat, plain, 3),
}
