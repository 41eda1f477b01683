"""ONNX layers on each element of reals."""

from __future__ import annotations

from typing import Any

from .builders import Op
from .draw import Draw
from .network import Layer, Spec, Unfit, layer

__all__ = ["TABLE", "joint_pick", "reals"]

# Where functions are defined and not steep: what is outside is cut off before.
DOMAINS = {
    "Acos": (-0.9, 0.9), "Acosh": (1.1, 9.0), "Asin": (-0.9, 0.9), "Atanh": (-0.9, 0.9), "Cosh": (-4.0, 4.0),
    "Exp": (-6.0, 4.0), "Log": (0.1, 9.0), "Reciprocal": (0.1, 9.0), "Sinh": (-4.0, 4.0), "Sqrt": (0.01, 9.0),
    "Tan": (-1.2, 1.2), "Cos": (-9.0, 9.0), "Sin": (-9.0, 9.0),
}  # fmt: skip
PLAIN = (
    "Abs", "Asinh", "Atan", "Erf", "HardSwish", "Mish", "Neg", "Relu", "Sigmoid", "Softplus", "Softsign", "Tanh",
    "Identity",
)  # fmt: skip
JUMPS = ("Ceil", "Floor", "Round", "Sign")
# attributes: least and most of each
SHAPED = {
    "Celu": {"alpha": (0.5, 2.0)}, "Elu": {"alpha": (0.5, 2.0)},
    "HardSigmoid": {"alpha": (0.1, 0.5), "beta": (0.1, 0.9)}, "LeakyRelu": {"alpha": (-0.5, 0.9)}, "Selu": {},
    "Swish": {"alpha": (0.5, 2.0)}, "ThresholdedRelu": {"alpha": (0.0, 2.0)},
    "Shrink": {"lambd": (0.1, 2.0), "bias": (0.0, 1.0)},
}  # fmt: skip
STEPS = ("ThresholdedRelu", "Shrink")  # they jump
NEWER = {"Swish": 24}


def reals(spec: Spec) -> bool:
    return spec.dtype == "float32"


def _exact_reals(spec: Spec) -> bool:
    return reals(spec) and spec.exact


def _draw_unary(op: str) -> Any:
    fits = _exact_reals if op in JUMPS or op in STEPS else reals

    def draw(d: Draw, b: Any) -> Layer | None:
        x = b.pick(d, fits)
        if x is None:
            return None
        given = {name: d.real(*bounds) for name, bounds in SHAPED.get(op, {}).items() if d.chance(0.7)}
        if op == "Gelu":
            given["approximate"] = d.one(("none", "tanh"))
        return layer(op, [x], b.fresh(), **given)

    return draw


def _unary(b: Any, one: Layer) -> None:
    x = one.inputs[0]
    b.need(NEWER.get(one.op, 0))
    if not reals(b.types[x]):
        raise Unfit(f"{one.op} of {b.types[x]}")
    if one.op in DOMAINS:
        x = b.node("Clip", [x, *(b.const(v, "float32") for v in DOMAINS[one.op])])
    b.node(one.op, [x], one.outputs, **dict(one.attrs))


def _draw_clip(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, reals)
    if x is None:
        return None
    low, high = d.one(((None, 1.0), (-1.0, None), (0.0, 6.0), (-0.5, 0.5), (0.0, None), (None, None)))
    return layer("Clip", [x], b.fresh(), low=low, high=high)


def _clip(b: Any, one: Layer) -> None:
    ends = ["" if one[k] is None else b.const(one[k], "float32") for k in ("low", "high")]
    while ends and not ends[-1]:
        ends.pop()
    b.node("Clip", [one.inputs[0], *ends], one.outputs)


def joint_pick(d: Draw, b: Any, fits: Any) -> tuple[str, str] | None:
    """Two names whose shapes broadcast."""
    x = b.pick(d, fits)
    if x is None:
        return None
    shape = b.specs[x].shape
    y = b.pick(d, lambda s: fits(s) and s.dtype == b.specs[x].dtype and _broadcasts(shape, s.shape))
    return (x, y) if y is not None else None


def _broadcasts(one: tuple[int, ...], two: tuple[int, ...]) -> bool:
    return all(a == b or 1 in (a, b) for a, b in zip(one[::-1], two[::-1], strict=False))


def _draw_binary(op: str) -> Any:
    def draw(d: Draw, b: Any) -> Layer | None:
        if op != "PRelu" and d.chance(0.5):
            found = joint_pick(d, b, reals)
            if found is None or (found[0] == found[1] and op in ("Sub", "Div")):
                return None
            return layer(op, found, b.fresh(), constant=None)
        x = b.pick(d, reals)
        if x is None:
            return None
        rank = len(b.specs[x].shape)
        # which axes the constant has: its others are 1, and axes before the first one are left out
        axes = d.one(((), (-1,), (-3,) if rank >= 3 else (-1,), tuple(range(-rank, 0))))
        swapped = op != "PRelu" and d.chance(0.3)
        return layer(op, [x], b.fresh(), constant=(axes, d.fill(), d.one((1.0, 1.0, 4.0))), swapped=swapped)

    return draw


def _binary(b: Any, one: Layer) -> None:
    names = list(one.inputs)
    if any(not reals(b.types[n]) for n in names):
        raise Unfit(f"{one.op} of others than reals")
    if one["constant"] is not None:
        axes, fill, maximum = one["constant"]
        shape = b.types[names[0]].shape
        rank = -min(axes, default=0)
        names.append(b.filled([shape[k] if k in axes else 1 for k in range(-rank, 0)], fill, maximum))
        if one["swapped"]:
            names.reverse()
    if one.op in ("Div", "Pow"):
        # a divisor or a base away from 0
        k = 1 if one.op == "Div" else 0
        names[k] = b.node("Clip", [names[k], b.const(0.25, "float32"), b.const(9.0, "float32")])
    if one.op == "Pow":
        names[1] = b.node("Clip", [names[1], b.const(-2.0, "float32"), b.const(3.0, "float32")])
    b.node(one.op, names, one.outputs)


def _draw_power(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, reals)
    return None if x is None else layer("Power", [x], b.fresh(), exponent=d.one((1.0, 2.0, 3.0, 0.5, -0.5, -1.0, 1.5)))


def _power(b: Any, one: Layer) -> None:
    """Pow by an exponent that is known."""
    base = b.node("Clip", [one.inputs[0], b.const(0.25, "float32"), b.const(9.0, "float32")])
    b.node("Pow", [base, b.const(one["exponent"], "float32")], one.outputs)


def _draw_several(op: str) -> Any:
    def draw(d: Draw, b: Any) -> Layer | None:
        found = joint_pick(d, b, reals)
        if found is None:
            return None
        names = list(found[: d.one((1, 2, 2))])
        if len(names) == 2 and d.chance(0.3):
            names.append(names[0])
        return layer(op, names, b.fresh())

    return draw


def _several(b: Any, one: Layer) -> None:
    if any(not reals(b.types[n]) for n in one.inputs):
        raise Unfit(f"{one.op} of others than reals")
    b.node(one.op, one.inputs, one.outputs)


TABLE = {
    **{op: Op(_draw_unary(op), _unary, 1) for op in (*DOMAINS, *PLAIN, *JUMPS, *SHAPED, "Gelu")},
    **{op: Op(_draw_binary(op), _binary, 2) for op in ("Add", "Sub", "Mul", "Div", "Pow", "PRelu")},
    **{op: Op(_draw_several(op), _several, 1) for op in ("Max", "Min", "Sum", "Mean")},
    "Clip": Op(_draw_clip, _clip, 2),
    "Power": Op(_draw_power, _power, 1),
}
