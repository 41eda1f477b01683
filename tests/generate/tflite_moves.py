"""Layers of .tflite files that move elements: shapes, slices, parts, joins, borders."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .builders import Op
from .draw import Draw
from .network import Layer, Spec, Unfit, layer

__all__ = ["TABLE"]


def _put(b: Any, one: Layer, consts: list[int], *shapes: tuple[int, ...], options: str = "", **fields: Any) -> None:
    """The operator with constants after its input, its outputs of the input's meaning."""
    spec = b.specs[one.inputs[0]]
    outs = [b.make(name, replace(spec, shape=shape)) for name, shape in zip(one.outputs, shapes, strict=True)]
    b.op(one.op, [b.index[one.inputs[0]], *consts], outs, options, **fields)


def _still(b: Any, spec: Spec) -> bool:
    """Whether it may not be moved: tflite-micro moves u8 by RESHAPE only."""
    return bool(spec.dtype == "uint8" and b.kind != "uint8")


def _x(b: Any, one: Layer) -> Spec:
    """The input."""
    spec: Spec = b.specs[one.inputs[0]]
    if len(spec.shape) < 1 or (_still(b, spec) and one.op != "RESHAPE"):
        raise Unfit(f"{one.op} of {spec}")
    return spec


def _chosen(d: Draw, b: Any, minimum: int = 1, maximum: int = 4) -> str | None:
    return b.pick(d, lambda s: minimum <= len(s.shape) <= maximum and not _still(b, s))


# --- shapes ------------------------------------------------------------------------------------------------------


def _draw_reshape(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, lambda s: len(s.shape) >= 1)
    if x is None:
        return None
    shape = d.factors(b.specs[x].elements, d.between(1, 4))
    return layer("RESHAPE", [x], b.fresh(), shape=shape, open=d.below(len(shape)) if d.chance(0.3) else None)


def _reshape(b: Any, one: Layer) -> None:
    spec, shape = _x(b, one), one["shape"]
    count = 1
    for n in shape:
        count *= n
    if count != spec.elements:
        raise Unfit(f"{spec} as {shape}")
    stated = tuple(-1 if k == one["open"] else n for k, n in enumerate(shape))
    _put(b, one, [b.const(stated)], shape)


def _draw_squeeze(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, lambda s: len(s.shape) > 1 and 1 in s.shape and not _still(b, s))
    if x is None:
        return None
    ones = [k for k, n in enumerate(b.specs[x].shape) if n == 1]
    axes = tuple(sorted(d.shuffled(ones)[: d.between(1, len(ones))]))
    return layer("SQUEEZE", [x], b.fresh(), axes=axes[: len(b.specs[x].shape) - 1])


def _squeeze(b: Any, one: Layer) -> None:
    spec = _x(b, one)
    if any(a >= len(spec.shape) or spec.shape[a] != 1 for a in one["axes"]):
        raise Unfit(f"SQUEEZE of {spec}")
    _put(b, one, [], tuple(n for k, n in enumerate(spec.shape) if k not in one["axes"]), options="SqueezeOptions",
         SqueezeDims=one["axes"])  # fmt: skip


def _draw_expand(d: Draw, b: Any) -> Layer | None:
    x = _chosen(d, b, 1, 3)
    if x is None:
        return None
    rank = len(b.specs[x].shape)
    return layer("EXPAND_DIMS", [x], b.fresh(), axis=d.between(-rank - 1, rank))


def _expand(b: Any, one: Layer) -> None:
    spec, axis = _x(b, one), one["axis"]
    rank = len(spec.shape) + 1
    if not -rank <= axis < rank:
        raise Unfit(f"EXPAND_DIMS of {spec}")
    shape = list(spec.shape)
    shape.insert(axis % rank, 1)
    _put(b, one, [b.const([axis])], tuple(shape))


def _draw_transpose(d: Draw, b: Any) -> Layer | None:
    x = _chosen(d, b, 2)
    if x is None:
        return None
    return layer("TRANSPOSE", [x], b.fresh(), perm=tuple(d.shuffled(range(len(b.specs[x].shape)))))


def _transpose(b: Any, one: Layer) -> None:
    spec, perm = _x(b, one), one["perm"]
    if len(perm) != len(spec.shape):
        raise Unfit(f"TRANSPOSE of {spec}")
    _put(b, one, [b.const(perm)], tuple(spec.shape[k] for k in perm))


# --- slices ------------------------------------------------------------------------------------------------------


def _draw_slice(d: Draw, b: Any) -> Layer | None:
    x = _chosen(d, b)
    if x is None:
        return None
    begin, size = [], []
    for n in b.specs[x].shape:
        begin.append(d.below(n) if d.chance(0.6) else 0)
        size.append(-1 if d.chance(0.4) else d.between(1, n - begin[-1]))
    return layer("SLICE", [x], b.fresh(), begin=tuple(begin), size=tuple(size))


def _slice(b: Any, one: Layer) -> None:
    spec, begin, size = _x(b, one), one["begin"], one["size"]
    if len(begin) != len(spec.shape):
        raise Unfit(f"SLICE of {spec}")
    shape = tuple(n - a if s == -1 else s for n, a, s in zip(spec.shape, begin, size, strict=True))
    if any(a >= n or a + s > n or s < 1 for n, a, s in zip(spec.shape, begin, shape, strict=True)):
        raise Unfit(f"SLICE of {spec}")
    _put(b, one, [b.const(begin), b.const(size)], shape)


def _draw_strided(d: Draw, b: Any) -> Layer | None:
    x = _chosen(d, b)
    if x is None:
        return None
    axes = []
    for n in b.specs[x].shape:
        begin, end = sorted((d.below(n), d.below(n)))
        step = d.one((1, 1, 1, 2, 3, -1, -2))
        if step < 0:
            begin, end = end, begin - 1 - n  # all negative: from the end
        else:
            end = d.one((end + 1, n + 100, end + 1))
        whole = d.chance(0.5)
        axes.append((0 if whole else begin, n if whole else end, 1 if whole else step))
    masks = tuple(sum(1 << k for k in range(len(axes)) if d.chance(likely)) for likely in (0.15, 0.15, 0.1))
    begin, end, step = zip(*axes, strict=True)
    return layer("STRIDED_SLICE", [x], b.fresh(), begin=begin, end=end, step=step, masks=masks)


def _strided(b: Any, one: Layer) -> None:
    spec = _x(b, one)
    if len(one["begin"]) != len(spec.shape):
        raise Unfit(f"STRIDED_SLICE of {spec}")
    shape: list[int] = []
    steps = list(one["step"])
    for k, n in enumerate(spec.shape):
        no_begin, no_end, single = (mask >> k & 1 for mask in one["masks"])
        if single:
            if not -n <= one["begin"][k] < n or no_begin:
                raise Unfit("an index outside")
            steps[k] = 1  # tflite-micro wants a positive step where an axis is dropped
            continue
        begin, end = None if no_begin else one["begin"][k], None if no_end else one["end"][k]
        count = len(range(*slice(begin, end, one["step"][k]).indices(n)))
        if count < 1:
            raise Unfit("an empty slice")
        shape.append(count)
    if not shape:
        raise Unfit("a slice of one element and no axes")
    begin_mask, end_mask, shrink_mask = one["masks"]
    consts = [b.const(one["begin"]), b.const(one["end"]), b.const(steps)]
    _put(b, one, consts, tuple(shape), options="StridedSliceOptions", BeginMask=begin_mask, EndMask=end_mask,
         ShrinkAxisMask=shrink_mask)  # fmt: skip


# --- parts and joins ---------------------------------------------------------------------------------------------


def _draw_split(d: Draw, b: Any) -> Layer | None:
    x = _chosen(d, b)
    if x is None:
        return None
    shape = b.specs[x].shape
    axis = d.below(len(shape))
    counts = [c for c in (2, 3, 4) if shape[axis] % c == 0]
    count = d.one(counts) if counts else 1
    return layer("SPLIT", [x], b.fresh(count), axis=axis - len(shape) if d.chance(0.3) else axis)


def _split(b: Any, one: Layer) -> None:
    spec, rank, count = _x(b, one), len(b.specs[one.inputs[0]].shape), len(one.outputs)
    if not -rank <= one["axis"] < rank or spec.shape[one["axis"]] % count:
        raise Unfit(f"SPLIT of {spec}")
    shape = list(spec.shape)
    shape[one["axis"]] //= count
    outs = [b.make(name, replace(spec, shape=tuple(shape))) for name in one.outputs]
    b.op("SPLIT", [b.const(one["axis"]), b.index[one.inputs[0]]], outs, "SplitOptions", NumSplits=count)


def _draw_split_v(d: Draw, b: Any) -> Layer | None:
    x = _chosen(d, b)
    if x is None:
        return None
    shape = b.specs[x].shape
    axis = d.below(len(shape))
    left, sizes = shape[axis], []
    while left and len(sizes) < 3:
        sizes.append(d.between(1, left))
        left -= sizes[-1]
    if left:
        sizes[-1] += left
    return layer("SPLIT_V", [x], b.fresh(len(sizes)), axis=axis, sizes=tuple(sizes),
                 open=d.below(len(sizes)) if d.chance(0.3) else None)  # fmt: skip


def _split_v(b: Any, one: Layer) -> None:
    spec, axis, sizes = _x(b, one), one["axis"], one["sizes"]
    if axis >= len(spec.shape) or sum(sizes) != spec.shape[axis] or len(sizes) != len(one.outputs):
        raise Unfit(f"SPLIT_V of {spec}")
    shapes = [(*spec.shape[:axis], s, *spec.shape[axis + 1 :]) for s in sizes]
    stated = [-1 if k == one["open"] else s for k, s in enumerate(sizes)]
    _put(b, one, [b.const(stated), b.const(axis)], *shapes, options="SplitVOptions", NumSplits=len(sizes))


def _draw_concat(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, lambda s: b.quantised(s) and len(s.shape) >= 1)
    if x is None:
        return None
    spec = b.specs[x]
    axis = d.below(len(spec.shape))

    def joins(s: Spec) -> bool:
        rest = tuple(1 if k == axis else n for k, n in enumerate(s.shape))
        return replace(spec, shape=rest) == replace(
            s, shape=tuple(1 if k == axis else n for k, n in enumerate(spec.shape)), exact=spec.exact)  # fmt: skip

    others = [b.pick(d, joins) or x for _ in range(d.between(1, 3))]
    names = d.shuffled([x, *others])
    return layer("CONCATENATION", names, b.fresh(), axis=axis - len(spec.shape) if d.chance(0.3) else axis)


def _concat(b: Any, one: Layer) -> None:
    specs = [b.specs[n] for n in one.inputs]
    rank, axis = len(specs[0].shape), one["axis"]
    if not -rank <= axis < rank or not b.quantised(specs[0]):
        raise Unfit(f"CONCATENATION of {specs[0]}")
    axis %= rank
    alike = {(s.dtype, s.scale, s.zero, s.shape[:axis], s.shape[axis + 1 :]) for s in specs}
    if len(alike) != 1:
        raise Unfit("parts that differ")
    total = sum(s.shape[axis] for s in specs)
    shape = (*specs[0].shape[:axis], total, *specs[0].shape[axis + 1 :])
    out = b.make(one.outputs[0], replace(specs[0], shape=shape))
    b.op("CONCATENATION", [b.index[n] for n in one.inputs], [out], "ConcatenationOptions", Axis=one["axis"])


def _draw_pad(op: str) -> Any:
    def draw(d: Draw, b: Any) -> Layer | None:
        x = b.pick(d, lambda s: b.quantised(s) and 1 <= len(s.shape) <= 4)
        if x is None:
            return None
        shape = b.specs[x].shape
        pads = tuple((d.between(0, 3), d.between(0, 3)) if d.chance(0.5) else (0, 0) for _ in shape)
        if len(shape) == 4 and d.chance(0.6):  # what comes before a convolution without padding
            pads = ((0, 0), d.pair((0, 1, 2)), d.pair((0, 1, 2)), (0, 0))
        given = {"value": d.one((0, 255, 128, 5) if b.kind == "uint8" else (-128, 127, 0, 5))} if op == "PADV2" else {}
        return layer(op, [x], b.fresh(), pads=pads, **given)

    return draw


def _pad(b: Any, one: Layer) -> None:
    spec = _x(b, one)
    if len(one["pads"]) != len(spec.shape) or not b.quantised(spec):
        raise Unfit(f"{one.op} of {spec}")
    shape = tuple(before + n + after for n, (before, after) in zip(spec.shape, one["pads"], strict=True))
    consts = [b.const(one["pads"])]
    if one.op == "PADV2":
        consts.append(b.const([one["value"]], spec.dtype, scale=spec.scale, zero=spec.zero))
    _put(b, one, consts, shape)


TABLE = {
    "RESHAPE": Op(_draw_reshape, _reshape),
    "SQUEEZE": Op(_draw_squeeze, _squeeze, 1),
    "EXPAND_DIMS": Op(_draw_expand, _expand, 1),
    "TRANSPOSE": Op(_draw_transpose, _transpose),
    "SLICE": Op(_draw_slice, _slice, 1),
    "STRIDED_SLICE": Op(_draw_strided, _strided, 2),
    "SPLIT": Op(_draw_split, _split, 1),
    "SPLIT_V": Op(_draw_split_v, _split_v, 1),
    "CONCATENATION": Op(_draw_concat, _concat, 3),
    "PAD": Op(_draw_pad("PAD"), _pad),
    "PADV2": Op(_draw_pad("PADV2"), _pad, 1),
}
