"""Recurrent layers of quantised .tflite files: SVDF and sequences of LSTM, whose variables are tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from .builders import Op
from .draw import Draw
from .fills import integers
from .network import Layer, Spec, Unfit, layer

__all__ = ["RECURRENT", "TABLE"]

RECURRENT = ("SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM")
GATES = 4
LARGEST = 2.0**5  # ratio of scales: products of int16 take no more


def _single(*factors: float) -> float:
    """A product that f32 holds."""
    return float(np.prod(np.asarray(factors, np.float32), dtype=np.float32))


def _weights(b: Any, name: str, shape: tuple[int, ...], fill: Any, dtype: str, maximum: int, scale: float) -> int:
    data = integers(shape, fill, -maximum, maximum)
    b.counted(weights=data.size * np.dtype(dtype).itemsize)
    return int(b.file.const(name, data, dtype, scale=scale))


def _draw_svdf(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, lambda s: b.quantised(s) and s.dtype == "int8" and len(s.shape) == 2)
    if x is None:
        return None
    memory = d.one(("int16", "int16", "int8"))
    shift = d.between(-1, 4) if memory == "int16" else d.between(6, 12)
    return layer(
        "SVDF", [x], b.fresh(), units=d.between(1, 9), rank=d.one((1, 1, 1, 2, 3)), steps=d.one((1, 2, 4, 7)),
        memory=memory, feature=d.fill(), time=d.fill(), bias=d.fill(), by_feature=d.scale(-9, -5),
        by_time=d.scale(-12, -8), shift=shift, minimum=0 if memory == "int16" else d.between(-60, 60),
        out=d.between(12, 18) if memory == "int16" else d.between(5, 11), zero=d.zero("int8"),
        activation=d.between(0, 3),
    )  # fmt: skip


def _svdf(b: Any, one: Layer) -> None:
    spec, name = b.specs[one.inputs[0]], one.outputs[0]
    if not b.quantised(spec) or spec.dtype != "int8" or len(spec.shape) != 2:
        raise Unfit(f"SVDF of {spec}")
    (batch, inputs), filters, steps = spec.shape, one["units"] * one["rank"], one["steps"]
    kept = _single(spec.scale, one["by_feature"], 2.0 ** one["shift"])
    sums = _single(kept, one["by_time"])
    if not 1e-12 < sums < 1e3:
        raise Unfit(f"sums of the scale {sums}")
    out = b.make(name, Spec((batch, one["units"]), "int8", _single(sums, 2.0 ** one["out"]), one["zero"]))
    b.counted(products=batch * filters * (inputs + steps))
    maximum = 127 if one["memory"] == "int8" else 2000
    held = b.file.tensor(
        f"{name}_kept", (batch, filters * steps), one["memory"], kept, one["minimum"], variable=True
    )
    given = [
        b.index[one.inputs[0]],
        _weights(b, f"{name}_feature", (filters, inputs), one["feature"], "int8", 127, one["by_feature"]),
        _weights(b, f"{name}_time", (filters, steps), one["time"], one["memory"], maximum, one["by_time"]),
        _weights(b, f"{name}_bias", (one["units"],), one["bias"], "int32", 5000, sums),
        held,
    ]
    b.op("SVDF", given, [out], "SVDFOptions", Rank=one["rank"])
    b.file.operators[-1].fields["FusedActivationFunction"] = one["activation"]


def _draw_lstm(d: Draw, b: Any) -> Layer | None:
    x = b.pick(d, lambda s: b.quantised(s) and len(s.shape) == 3)
    if x is None:
        return None
    return layer(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", [x], b.fresh(), units=d.between(1, 9), major=d.chance(0.5),
        fills=tuple(d.fill() for _ in range(3 * GATES)), scales=tuple(d.scale(-10, -6) for _ in range(2 * GATES)),
        power=d.between(-15, -7), clip=d.one((0.0, 0.0, 0.5, 8.0)), zero=d.between(-20, 20),
    )  # fmt: skip


def _lstm(b: Any, one: Layer) -> None:
    spec, name, units = b.specs[one.inputs[0]], one.outputs[0], one["units"]
    if not b.quantised(spec) or len(spec.shape) != 3 or (spec.zero and spec.dtype == "int16"):
        raise Unfit(f"LSTM of {spec}")
    if spec.scale * 2.0**12 * max(one["scales"]) > LARGEST:
        raise Unfit(f"LSTM of the scale {spec.scale}")
    byte, inputs = spec.dtype == "int8", spec.shape[2]
    batch, steps = (spec.shape[1], spec.shape[0]) if one["major"] else spec.shape[:2]
    zero, scale = (one["zero"], 2.0**-7) if byte else (0, 2.0**-15)
    out = b.make(name, Spec((*spec.shape[:2], units), spec.dtype, scale, zero))
    b.counted(products=batch * steps * GATES * units * (inputs + units))
    given = [b.index[one.inputs[0]], *([-1] * 23)]
    for k in range(2 * GATES):
        shape = (units, inputs if k < GATES else units)
        given[1 + k] = _weights(b, f"{name}_w{k}", shape, one["fills"][k], "int8", 127, one["scales"][k])
    wide = "int32" if byte else "int64"
    for k in range(GATES):
        fill, by = one["fills"][2 * GATES + k], _single(spec.scale, one["scales"][k])
        given[12 + k] = _weights(b, f"{name}_b{k}", (units,), fill, wide, 5000, by)
    given[18] = b.file.tensor(f"{name}_hidden", (batch, units), spec.dtype, scale, zero, variable=True)
    given[19] = b.file.tensor(f"{name}_cells", (batch, units), "int16", 2.0 ** one["power"], 0, variable=True)
    b.op(one.op, given, [out], "UnidirectionalSequenceLSTMOptions", TimeMajor=one["major"], CellClip=one["clip"],
         ProjClip=0.0)  # fmt: skip
    b.file.operators[-1].fields["FusedActivationFunction"] = 4


TABLE = {"SVDF": Op(_draw_svdf, _svdf), "UNIDIRECTIONAL_SEQUENCE_LSTM": Op(_draw_lstm, _lstm)}
