"""ONNX layers that decide, count or fill: branches and loops, sizes as data, results as large as the data say."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from .builders import Op
from .draw import Draw
from .network import Layer, Spec, Unfit, layer
from .onnx_elementwise import reals

__all__ = ["TABLE"]


def _exact(s: Spec) -> bool:
    return reals(s) and s.exact and len(s.shape) >= 1


def _drawer(op: str, fits: Any = reals, **choices: Any) -> Any:
    """A draw of a layer with one input and an attribute from each of some choices."""

    def draw(d: Draw, b: Any) -> Layer | None:
        x = b.pick(d, fits)
        if x is None:
            return None
        given = {k: d.fill() if v == "fill" else d.one(v) for k, v in choices.items()}
        return layer(op, [x], b.fresh(), **given)

    return draw


def _real(b: Any, one: Layer, exact: bool = False, ranks: tuple[int, int] = (0, 8)) -> Spec:
    spec = b.types[one.inputs[0]]
    if not reals(spec) or (exact and not spec.exact) or not ranks[0] <= len(spec.shape) <= ranks[1]:
        raise Unfit(f"{one.op} of {spec}")
    return spec


# --- branches and loops ------------------------------------------------------------------------------------------


def _value(name: str, spec: Spec) -> Any:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(spec.dtype)), spec.shape)


def _branch(b: Any, op: str, x: str, spec: Spec, factor: str) -> Any:
    name = b.hidden()
    return helper.make_graph([helper.make_node(op, [x, factor], [name])], f"branch_{name}", [], [_value(name, spec)])


def _if(b: Any, one: Layer) -> None:
    """One of two branches, by a condition that is known, or by whether the largest element is above 0."""
    spec, (x,) = _real(b, one, exact=not one["known"]), one.inputs
    factor = b.const(0.5, "float32")
    if one["known"]:
        condition = b.const(True, "bool")
    else:
        top = b.node("ReduceMax", [x], keepdims=0)
        condition = b.node("Greater", [top, b.const(0.0, "float32")])
    b.node("If", [condition], one.outputs, specs=[spec], exact=False, then_branch=_branch(b, "Mul", x, spec, factor),
           else_branch=_branch(b, "Sub", x, spec, factor))  # fmt: skip


def _loop(b: Any, one: Layer) -> None:
    """A carried value halved each time, and what it was each time stacked."""
    spec, steps = _real(b, one), one["steps"]
    names = [b.hidden() for _ in range(6)]
    index, on, carried, still, smaller, row = names
    scalar = Spec((), "bool")
    half = b.const(0.5, "float32")
    nodes = [helper.make_node("Identity", [on], [still]), helper.make_node("Mul", [carried, half], [smaller]),
             helper.make_node("Sub", [carried, half], [row])]  # fmt: skip
    body = helper.make_graph(
        nodes, f"body_{index}", [_value(index, Spec((), "int64")), _value(on, scalar), _value(carried, spec)],
        [_value(still, scalar), _value(smaller, spec), _value(row, spec)],
    )  # fmt: skip
    rows = Spec((steps, *spec.shape), spec.dtype)
    b.node("Loop", [b.const(steps, "int64"), b.const(True, "bool"), one.inputs[0]], one.outputs, specs=[spec, rows],
           exact=False, body=body)  # fmt: skip


def _draw_loop(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, reals)
    return None if x is None else layer("Loop", [x], b.fresh(2), steps=d.between(1, 4))


def _scan(b: Any, one: Layer) -> None:
    """Running sums of the slices along the first axis."""
    spec = _real(b, one, ranks=(2, 4))
    inner = Spec(spec.shape[1:], spec.dtype)
    if spec.shape[0] > 9:
        raise Unfit("too many steps")
    total, row, added, out = (b.hidden() for _ in range(4))
    nodes = [helper.make_node("Add", [total, row], [added]), helper.make_node("Identity", [added], [out])]
    body = helper.make_graph(nodes, f"body_{total}", [_value(total, inner), _value(row, inner)],
                             [_value(added, inner), _value(out, inner)])  # fmt: skip
    start = b.filled(inner.shape, one["fill"])
    b.node("Scan", [start, one.inputs[0]], one.outputs, specs=[inner, spec], exact=False, body=body, num_scan_inputs=1,
           scan_input_directions=[one["back"]])  # fmt: skip


def _draw_scan(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, lambda s: reals(s) and 2 <= len(s.shape) <= 4 and s.shape[0] <= 9)
    return None if x is None else layer("Scan", [x], b.fresh(2), fill=d.fill(), back=d.below(2))


# --- sizes and constants as data ---------------------------------------------------------------------------------


def _sizes(b: Any, one: Layer) -> None:
    """The elements times their number, plus the last of the sizes."""
    spec = _real(b, one, ranks=(1, 5))
    count = b.node("Cast", [b.node("Size", one.inputs)], to=TensorProto.FLOAT)
    size = b.node("Shape", one.inputs, start=len(spec.shape) - 1)
    last = b.node("Cast", [size], to=TensorProto.FLOAT)
    less = b.node("Div", [one.inputs[0], count])
    b.node("Add", [less, last], one.outputs)


def _range(b: Any, one: Layer) -> None:
    """Numbers from 0 along the last axis added."""
    spec = _real(b, one, ranks=(1, 5))
    numbers = b.node("Range", [b.const(v, "float32") for v in (0.0, 0.5 * spec.shape[-1], 0.5)])
    b.node("Add", [one.inputs[0], numbers], one.outputs)


def _full(b: Any, one: Layer) -> None:
    shape = b.node("Shape", one.inputs)
    _real(b, one)
    value = helper.make_tensor("value", TensorProto.FLOAT, [1], [one["value"]])
    spec = b.types[one.inputs[0]]
    b.node("Mul", [one.inputs[0], b.node("ConstantOfShape", [shape], specs=[spec], value=value)], one.outputs)


def _eye(b: Any, one: Layer) -> None:
    _real(b, one, ranks=(2, 2))
    b.node("Add", [one.inputs[0], b.node("EyeLike", one.inputs, k=one["k"])], one.outputs)


def _one_hot(b: Any, one: Layer) -> None:
    """Where the largest element is."""
    _real(b, one, exact=True, ranks=(1, 4))
    place = b.node("ArgMax", one.inputs, axis=-1, keepdims=0)
    depth = b.types[one.inputs[0]].shape[-1] + one["more"]
    values = b.const([-1.0, 2.0], "float32")
    b.node("OneHot", [place, b.const([depth], "int64"), values], one.outputs, axis=one["axis"])


def _where(b: Any, one: Layer) -> None:
    spec = _real(b, one, exact=True)
    other = b.filled(spec.shape, one["fill"])
    truth = b.node(one["how"], [one.inputs[0], other])
    b.node("Where", [truth, one.inputs[0], other], one.outputs)


def _is(b: Any, one: Layer) -> None:
    _real(b, one, exact=True)
    odd = b.node("Or", [b.node("IsNaN", one.inputs), b.node("IsInf", one.inputs)])
    b.node("Not", [odd], one.outputs)


def _narrowed(b: Any, one: Layer) -> None:
    """To another type and back."""
    _real(b, one, exact=True)
    small = b.node("Cast", one.inputs, to=one["to"], exact=True)
    b.node("CastLike", [small, one.inputs[0]], one.outputs, exact=True)


def _optional(b: Any, one: Layer) -> None:
    spec = _real(b, one)
    boxed = b.node("Optional", one.inputs, specs=[spec])
    b.node("OptionalGetElement", [boxed], one.outputs, specs=[spec])


def _has(b: Any, one: Layer) -> None:
    _real(b, one)
    there = b.node("OptionalHasElement", one.inputs, specs=[Spec((), "bool")])
    b.node("Where", [there, one.inputs[0], b.const(0.0, "float32")], one.outputs)


# --- as large as the data say, and then one sum of it ------------------------------------------------------------


def _total(b: Any, x: str, one: Layer, dtype: str, rank: int, axis: int) -> None:
    axes = b.const([axis], "int64")
    shape = Spec((rank,), dtype) if rank else Spec((), dtype)
    b.node("ReduceSum", [x, axes], one.outputs, specs=[shape], keepdims=0, exact=False)


def _nonzero(b: Any, one: Layer) -> None:
    spec = _real(b, one, exact=True, ranks=(1, 4))
    rank = len(spec.shape)
    positive = b.node("Relu", one.inputs)
    places = b.node("NonZero", [positive], specs=[Spec((rank, 1), "int64")])
    _total(b, places, one, "int64", rank, 1)


def _compress(b: Any, one: Layer) -> None:
    spec = _real(b, one, exact=True, ranks=(2, 2))
    above = b.node("Greater", [b.node("ReduceMax", [one.inputs[0], b.const([1], "int64")], keepdims=0),
                               b.const(0.0, "float32")])  # fmt: skip
    rows = b.node("Compress", [one.inputs[0], above], specs=[spec], axis=0)
    _total(b, rows, one, "float32", spec.shape[1], 0)


def _unique(b: Any, one: Layer) -> None:
    _real(b, one, exact=True, ranks=(1, 4))
    coarse = b.node("Round", one.inputs)
    found = b.hidden()
    b.node("Unique", [coarse], None, specs=[Spec((1,), "float32")], sorted=1)
    found = b.nodes[-1].output[0]
    _total(b, found, one, "float32", 0, 0)


def _nms(b: Any, one: Layer) -> None:
    """Boxes of four elements each, and a constant score for each."""
    count = min(_real(b, one, exact=True).elements // 4, 20)
    if count < 1:
        raise Unfit("no boxes")
    boxes = b.cut(one.inputs[0], (1, count, 4))
    scores = b.const((np.arange(count) * 7 % 20 / 20).reshape(1, 1, -1), "float32")
    limits = [b.const([one["maximum"]], "int64"), b.const([0.4375], "float32"), b.const([0.05], "float32")]
    chosen = b.node("NonMaxSuppression", [boxes, scores, *limits], specs=[Spec((1, 3), "int64")])
    _total(b, chosen, one, "int64", 3, 0)


# --- others ------------------------------------------------------------------------------------------------------


def _det(b: Any, one: Layer) -> None:
    side = one["side"]
    if _real(b, one).elements < side * side:
        raise Unfit("too few elements for a square")
    b.node("Det", [b.cut(one.inputs[0], (side, side))], one.outputs)


def _col2im(b: Any, one: Layer) -> None:
    """Columns of windows of 2x2 back in an image of two rows."""
    channels, count = one["channels"], one["count"]
    if _real(b, one).elements < 4 * channels * count:
        raise Unfit("too few elements for the windows")
    columns = b.cut(one.inputs[0], (1, 4 * channels, count))
    image = b.const([2, count + 1], "int64")
    out = Spec((1, channels, 2, count + 1), "float32")
    b.node("Col2Im", [columns, image, b.const([2, 2], "int64")], one.outputs, specs=[out])


def _tensor_scatter(b: Any, one: Layer) -> None:
    spec = _real(b, one, ranks=(3, 4))
    b.need(24)
    rows = min(2, spec.shape[-2])
    update = b.filled((*spec.shape[:-2], rows, spec.shape[-1]), one["fill"])
    places = b.const([(k + one["at"]) % (spec.shape[-2] - rows + 1) for k in range(spec.shape[0])], "int64")
    b.node("TensorScatter", [one.inputs[0], update, places], one.outputs)


TABLE = {
    "If": Op(_drawer("If", lambda s: _exact(s), known=(True, False)), _if, 1),
    "Loop": Op(_draw_loop, _loop, 1),
    "Scan": Op(_draw_scan, _scan, 1),
    "Sizes": Op(_drawer("Sizes"), _sizes, 1),
    "Range": Op(_drawer("Range"), _range, 1),
    "ConstantOfShape": Op(_drawer("ConstantOfShape", value=(0.5, -1.0, 0.0)), _full, 1),
    "EyeLike": Op(_drawer("EyeLike", lambda s: reals(s) and len(s.shape) == 2, k=(-1, 0, 1, 2)), _eye, 1),
    "OneHot": Op(_drawer("OneHot", _exact, axis=(-1, 0), more=(0, 0, 2)), _one_hot, 1),
    "Where": Op(_drawer("Where", _exact, fill="fill", how=("Equal", "Greater", "GreaterOrEqual", "Less",
                                                           "LessOrEqual")), _where, 2),
    "Is": Op(_drawer("Is", _exact), _is, 1),
    "Narrowed": Op(_drawer("Narrowed", _exact, to=(TensorProto.FLOAT16, TensorProto.INT32, TensorProto.INT8,
                                                   TensorProto.DOUBLE)), _narrowed, 1),
    "Optional": Op(_drawer("Optional"), _optional, 1),
    "OptionalHasElement": Op(_drawer("OptionalHasElement"), _has, 1),
    "NonZero": Op(_drawer("NonZero", _exact), _nonzero, 1),
    "Compress": Op(_drawer("Compress", lambda s: _exact(s) and len(s.shape) == 2), _compress, 1),
    "Unique": Op(_drawer("Unique", _exact), _unique, 1),
    "NonMaxSuppression": Op(_drawer("NonMaxSuppression", _exact, maximum=(1, 3, 20)), _nms, 1),
    "Det": Op(_drawer("Det", side=(1, 2, 3, 4)), _det, 1),
    "Col2Im": Op(_drawer("Col2Im", channels=(1, 2, 3), count=(1, 2, 3, 8)), _col2im, 1),
    "TensorScatter": Op(_drawer("TensorScatter", lambda s: reals(s) and len(s.shape) in (3, 4), fill="fill",
                                at=(0, 1, 2)), _tensor_scatter, 1),
}  # fmt: skip
