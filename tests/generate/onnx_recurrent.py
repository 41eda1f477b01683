"""ONNX layers that run over steps of a sequence."""

from __future__ import annotations

from typing import Any

from .builders import Op
from .draw import Draw
from .network import Layer, Unfit, layer
from .onnx_elementwise import reals

__all__ = ["TABLE"]

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def _draw_recurrent(op: str) -> Any:
    def draw(d: Draw, b: Any) -> Layer | None:
        x = b.pick(d, lambda s: reals(s) and s.elements <= 600)
        if x is None:
            return None
        given = {"linear_before_reset": d.below(2)} if op == "GRU" else {}
        return layer(op, [x], b.fresh(2), units=d.one((1, 2, 3, 5, 8)), fill=d.fill(),
                     bias=d.fill() if d.chance(0.6) else None,
                     direction=d.one(("forward", "reverse", "bidirectional")), **given)  # fmt: skip

    return draw


def _recurrent(b: Any, one: Layer) -> None:
    spec, units = b.types[one.inputs[0]], one["units"]
    if not reals(spec):
        raise Unfit(f"{one.op} of {spec}")
    x = one.inputs[0]
    if len(spec.shape) != 3:  # a sequence of single elements
        x = b.node("Reshape", [x, b.const([-1, 1, spec.shape[-1] if spec.shape else 1], "int64")])
        spec = b.types[x]
    ways, gates = 1 + (one["direction"] == "bidirectional"), GATES[one.op]
    inputs = [x]
    inputs += [b.filled((ways, gates * units, n), one["fill"], 0.5) for n in (spec.shape[2], units)]
    if one["bias"] is not None:
        inputs.append(b.filled((ways, 2 * gates * units), one["bias"], 0.5))
    given = {"direction": one["direction"], "hidden_size": units}
    if one.get("linear_before_reset"):
        given["linear_before_reset"] = 1
    b.counted(products=spec.shape[0] * spec.shape[1] * ways * gates * units * (spec.shape[2] + units))
    b.node(one.op, inputs, one.outputs, **given)


TABLE = {op: Op(_draw_recurrent(op), _recurrent, 1) for op in GATES}
