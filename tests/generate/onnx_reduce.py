"""ONNX layers over whole axes: reductions, searches, running sums, softmax, normalisations."""

from __future__ import annotations

from typing import Any

from .builders import Op
from .draw import Draw
from .network import Layer, Spec, Unfit, layer
from .onnx_elementwise import reals
from .onnx_moves import plain

__all__ = ["TABLE"]

SUMS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare")
POSITIVE = ("ReduceLogSum", "ReduceProd")  # of what is kept near 1
OTHERS = ("ReduceLogSumExp",)


def _draw_reduction(op: str) -> Any:
    def draw(d: Draw, b: Any) -> Layer | None:
        x = b.pick(d, lambda s: reals(s) and 1 <= len(s.shape) <= 5)
        if x is None:
            return None
        rank = len(b.specs[x].shape)
        axes = tuple(d.shuffled(range(rank))[: d.between(1, rank)])
        if d.chance(0.2):
            axes = tuple(a - rank for a in axes)
        return layer(op, [x], b.fresh(), axes=None if d.chance(0.1) else axes, keepdims=d.below(2))

    return draw


def _reduction(b: Any, one: Layer) -> None:
    x = one.inputs[0]
    if not reals(b.types[x]):
        raise Unfit(f"{one.op} of {b.types[x]}")
    if one.op in POSITIVE:
        x = b.node("Clip", [x, b.const(0.9, "float32"), b.const(1.1, "float32")])
    axes = [] if one["axes"] is None else [b.const(one["axes"], "int64")]
    b.node(one.op, [x, *axes], one.outputs, keepdims=one["keepdims"])


def _along(op: str) -> Any:
    """Layers along one axis that jump: of what is exact."""

    def draw(d: Draw, b: Any) -> Layer | None:
        x = b.pick(d, lambda s: reals(s) and s.exact and 1 <= len(s.shape) <= 4)
        if x is None:
            return None
        shape = b.specs[x].shape
        axis = d.below(len(shape))
        given: dict[str, Any] = {"axis": axis - len(shape) if d.chance(0.3) else axis}
        if op in ("ArgMax", "ArgMin"):
            given.update(keepdims=d.below(2), select_last_index=d.below(2))
        if op == "TopK":
            given.update(largest=d.below(2))
            consts = ((d.between(1, shape[axis]),),)
            return layer(op, [x], b.fresh(2), consts=consts, given=tuple(sorted(given.items())))
        return layer(op, [x], b.fresh(), given=tuple(sorted(given.items())))

    return draw


def _exactly(b: Any, one: Layer) -> None:
    spec = b.types[one.inputs[0]]
    if not spec.exact:
        raise Unfit(f"{one.op} of what is not exact")
    plain(b, one)


def _draw_soft(op: str) -> Any:
    def draw(d: Draw, b: Any) -> Layer | None:
        x = b.pick(d, lambda s: reals(s) and 1 <= len(s.shape) <= 4)
        if x is None:
            return None
        rank = len(b.specs[x].shape)
        return layer(op, [x], b.fresh(), given=(("axis", d.between(-rank, rank - 1)),))

    return draw


def _draw_running(op: str) -> Any:
    def draw(d: Draw, b: Any) -> Layer | None:
        x = b.pick(d, lambda s: reals(s) and 1 <= len(s.shape) <= 4)
        if x is None:
            return None
        rank = len(b.specs[x].shape)
        given = (("exclusive", d.below(2)), ("reverse", d.below(2)))
        return layer(op, [x], b.fresh(), axis=d.between(-rank, rank - 1), given=given)

    return draw


def _running(b: Any, one: Layer) -> None:
    x = one.inputs[0]
    if one.op == "CumProd":
        b.need(26)
        x = b.node("Clip", [x, b.const(0.9, "float32"), b.const(1.1, "float32")])
    b.node(one.op, [x, b.const(one["axis"], "int64")], one.outputs, **dict(one["given"]))


def _global(b: Any, one: Layer) -> None:
    plain(b, one)
    if one.op == "GlobalLpPool":
        b.until(21)  # onnxruntime lacks the next version


def _draw_global(op: str) -> Any:
    def draw(d: Draw, b: Any) -> Layer | None:
        x = b.pick(d, _channelled)
        given = (("p", d.one((1, 2, 3))),) if op == "GlobalLpPool" else ()
        return None if x is None else layer(op, [x], b.fresh(), given=given)

    return draw


# --- normalisations ----------------------------------------------------------------------------------------------


def _channelled(s: Spec) -> bool:
    return reals(s) and len(s.shape) >= 3


def _draw_norm(op: str) -> Any:
    fits = _channelled if op not in ("LayerNormalization", "RMSNormalization", "LpNormalization") else reals

    def draw(d: Draw, b: Any) -> Layer | None:
        minimum = 4 if op in ("LRN", "MeanVarianceNormalization") else 1
        x = b.pick(d, lambda s: fits(s) and minimum <= len(s.shape) <= 4)
        if x is None:
            return None
        shape = b.specs[x].shape
        given: dict[str, Any] = {"epsilon": d.one((0.001, 0.01))}
        if op in ("LayerNormalization", "RMSNormalization", "LpNormalization"):
            given["axis"] = d.below(len(shape))
        if op == "GroupNormalization":
            given["num_groups"] = d.one([g for g in range(1, shape[1] + 1) if shape[1] % g == 0])
        if op == "LRN":
            given = {"size": d.one((1, 3, 5)), "alpha": 0.01}
        if op == "LpNormalization":
            given = {"axis": given["axis"], "p": d.one((1, 2))}
        if op == "MeanVarianceNormalization":
            given = {"axes": d.one(((0, 2, 3), (1,), (2, 3)))}
        return layer(op, [x], b.fresh(), fill=d.fill(), **given)

    return draw


def _norm(b: Any, one: Layer) -> None:
    spec = b.types[one.inputs[0]]
    if not reals(spec) or (one.op == "LRN" and len(spec.shape) != 4):
        raise Unfit(f"{one.op} of {spec}")
    given = {k: v for k, v in one.attrs if k != "fill"}
    if one.op == "MeanVarianceNormalization" and max((spec.shape[k] for k in one["axes"]), default=1) == 1:
        raise Unfit("single elements have no variance, and no epsilon keeps it from 0")
    inputs, fill = list(one.inputs), one["fill"]
    style, seed = fill
    if one.op in ("BatchNormalization", "InstanceNormalization", "GroupNormalization"):
        channels = (spec.shape[1],)
        inputs += [b.filled(channels, (style, seed + k)) for k in range(2)]
        if one.op == "BatchNormalization":
            inputs.append(b.filled(channels, (style, seed + 2)))
            spread = b.filled(channels, (style, seed + 3))
            inputs.append(b.node("Add", [b.node("Abs", [spread]), b.const(0.5, "float32")]))
    elif one.op in ("LayerNormalization", "RMSNormalization"):
        if one.op == "RMSNormalization":
            b.need(23)
        count = 2 if one.op == "LayerNormalization" else 1
        inputs += [b.filled(spec.shape[one["axis"] :], (style, seed + k)) for k in range(count)]
    elif one.op in ("MeanVarianceNormalization", "LpNormalization", "LRN"):
        # away from rows of zeros, which have no direction
        inputs = [b.node("Add", [b.node("Mul", [one.inputs[0], b.const(0.5, "float32")]), b.filled(
            spec.shape, ("random", seed))])]  # fmt: skip
    # what is a function in ONNX has no inference of shapes
    b.node(one.op, inputs, one.outputs, specs=[spec], exact=False, **given)


TABLE = {
    **{op: Op(_draw_reduction(op), _reduction, 1) for op in (*SUMS, *POSITIVE, *OTHERS)},
    **{op: Op(_along(op), _exactly, 1) for op in ("ArgMax", "ArgMin", "Hardmax", "TopK")},
    **{op: Op(_draw_soft(op), plain, 1) for op in ("Softmax", "LogSoftmax")},
    **{op: Op(_draw_running(op), _running, 1) for op in ("CumSum", "CumProd")},
    **{op: Op(_draw_global(op), _global, 1) for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")},
    **{op: Op(_draw_norm(op), _norm, 1) for op in (
        "BatchNormalization", "InstanceNormalization", "GroupNormalization", "LayerNormalization",
        "RMSNormalization", "LpNormalization", "LRN", "MeanVarianceNormalization")},
}  # fmt: skip
