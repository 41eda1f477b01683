"""The cells of recurrent layers: ``rnn_scan``, ``gru_scan``, ``lstm_scan``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import op
from sdk.compiler.ir.loops import Let, Load, Ref, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import F32, F64, I32, DType, TensorType
from sdk.compiler.ops.build import loop, variable
from sdk.compiler.ops.gate_functions import ACTIVATIONS, activated
from sdk.compiler.ops.numerics import number
from sdk.compiler.ops.recurrent import Cell, Place, clipped, define_cell
from sdk.compiler.ops.registry import Sample, sample
from sdk.compiler.sym import Dim, Var

Array = NDArray[Any]


def _rnn_step(x: Array, r: Array, states: Any, extra: Any, activations: Any, clip: float) -> tuple[Array, ...]:
    return (activated(activations[0], clipped(x + states[0] @ r, clip)),)


def _rnn_build(place: Place) -> list[Stmt]:
    j = variable("j", place.units)
    value = place.activate(0, place.clip(place.load("sums", j.expr)))
    return [
        place.start(0, place.units, ""),
        place.products("state_h", 0, place.units, ""),
        loop(j, place.units, Store("state_h", (j.expr,), value)),
    ]


def _gru_step(
    x: Array, r: Array, states: Any, extra: Any, activations: Any, clip: float, late: bool
) -> tuple[Array, ...]:
    (h,), units = states, r.shape[0]
    z, reset = (
        activated(activations[0], clipped(x[k : k + units] + h @ r[:, k : k + units], clip)) for k in (0, units)
    )
    hidden = r[:, 2 * units :]
    new = reset * (h @ hidden + extra[0]) if late else (reset * h) @ hidden + extra[0]
    new = activated(activations[1], clipped(x[2 * units :] + new, clip))
    return ((1 - z) * new + z * h,)


def _gru_build(place: Place) -> list[Stmt]:
    """The reset applies to the product of the state (late), or to the state before it."""
    units, late = place.units, bool(place.given["late"])
    m, n = variable("m", units), variable("n", units)
    both = variable("g", 2 * units)
    gate = place.activate(0, place.clip(place.load("sums", both.expr)))
    gates = [
        place.start(0, 2 * units, "a"),
        place.products("state_h", 0, 2 * units, "a"),
        loop(both, 2 * units, Store("sums", (both.expr,), gate)),
    ]
    reset = place.load("sums", m.expr + units)
    if late:
        source = "state_h"
        begin = loop(m, units, Store("sums", (m.expr + 2 * units,), place.load("rb", m.expr)))
    else:
        source = "work"
        begin = loop(
            m,
            units,
            Store("work", (m.expr,), op("mul", reset, place.load("state_h", m.expr))),
            Store("sums", (m.expr + 2 * units,), place.load("rb", m.expr)),
        )
    total: ValueExpr = place.load("sums", n.expr + 2 * units)
    if late:
        total = op("mul", place.load("sums", n.expr + units), total)
    fresh = place.activate(1, place.clip(op("add", place.load("x", place.at, place.batch, n.expr + 2 * units), total)))
    z = place.load("sums", n.expr)
    rest = op("mul", op("sub", number(1, place.kind), z), Ref("fresh", place.kind))
    mixed = op("add", rest, op("mul", z, place.load("state_h", n.expr)))
    end = loop(n, units, Let("fresh", fresh), Store("state_h", (n.expr,), mixed))
    return [*gates, begin, place.products(source, 2 * units, units, "b"), end]


def _lstm_step(
    x: Array, r: Array, states: Any, extra: Any, activations: Any, clip: float, coupled: bool
) -> tuple[Array, ...]:
    h, c = states
    p, units = extra[0], r.shape[0]
    i, o, f, new = ((x + h @ r)[k * units : (k + 1) * units] for k in range(4))
    i = activated(activations[0], clipped(i + p[0] * c, clip))
    f = 1 - i if coupled else activated(activations[0], clipped(f + p[2] * c, clip))
    c = f * c + i * activated(activations[1], clipped(new, clip))
    o = activated(activations[0], clipped(o + p[1] * c, clip))
    return o * activated(activations[2], c), c


def _lstm_build(place: Place) -> list[Stmt]:
    """Gates in the order input, output, forget, cell; peepholes p[3, h] in the order of the first three."""
    units, kind = place.units, place.kind
    j = variable("j", units)

    def gate(which: int) -> Load:
        return place.load("sums", j.expr + which * units)

    def peep(which: int, cell: ValueExpr) -> ValueExpr:
        through = op("mul", place.load("p", which, j.expr), cell)
        return place.activate(0, place.clip(op("add", gate(which), through)))

    old, new = place.load("state_c", j.expr), Ref("new_c", kind)
    entry = Ref("in_gate", kind)
    forget = op("sub", number(1, kind), entry) if place.given["coupled"] else peep(2, old)
    fresh = place.activate(1, place.clip(gate(3)))
    step = loop(
        j,
        units,
        Let("in_gate", peep(0, old)),
        Let("new_c", op("add", op("mul", forget, old), op("mul", entry, fresh))),
        Store("state_c", (j.expr,), new),
        Store("state_h", (j.expr,), op("mul", peep(1, new), place.activate(2, new))),
    )
    return [place.start(0, 4 * units, ""), place.products("state_h", 0, 4 * units, ""), step]


_RNN = Cell("rnn_scan", 1, ("h",), "", (), _rnn_step, _rnn_build)
_GRU = Cell("gru_scan", 3, ("h",), "rb", (), _gru_step, _gru_build)
_LSTM = Cell("lstm_scan", 4, ("h", "c"), "p", (3,), _lstm_step, _lstm_build)


def _sample(cell: Cell, kind: DType, steps: Dim, batch: Dim, units: int, lengths: Any = None, **given: Any) -> Sample:
    x = TensorType(kind, (steps, batch, cell.gates * units))
    r = TensorType(kind, (units, cell.gates * units))
    states = [TensorType(kind, (batch, units)) for _ in cell.states]
    extra = [TensorType(kind, (*cell.extra_shape, units))] if cell.extra else []
    values = {} if lengths is None else {len(cell.inputs) - 1: lambda rng: np.asarray(lengths)}
    return sample(x, r, *states, *extra, TensorType(I32, (batch,)), values=values, **{"clip": 0.0, **given})


_T: Dim = Var("t", 1, 5).expr
_B: Dim = Var("b", 1, 3).expr
_ONE: Any = (("tanh", 0.0, 0.0),)
_TWO: Any = (("sigmoid", 0.0, 0.0), ("tanh", 0.0, 0.0))
_THREE: Any = (("sigmoid", 0.0, 0.0), ("tanh", 0.0, 0.0), ("tanh", 0.0, 0.0))
define_cell(
    _RNN,
    [
        _sample(_RNN, F32, _T, 2, 3, (4, 1), activations=_ONE, reverse=False),
        _sample(_RNN, F32, 4, 2, 3, (4, 2), activations=_ONE, reverse=True),
        _sample(_RNN, F64, 3, _B, 2, activations=_ONE, reverse=True),
        *(
            _sample(_RNN, F32, 3, 1, 4, (3,), activations=((name, 0.5, 0.3),), reverse=False, clip=1.5)
            for name in ACTIVATIONS
        ),
    ],
)
define_cell(
    _GRU,
    [
        _sample(_GRU, F32, _T, 2, 3, (5, 2), activations=_TWO, reverse=False, late=False),
        _sample(_GRU, F32, 4, 2, 3, (4, 2), activations=_TWO, reverse=True, late=True, clip=0.7),
    ],
)
define_cell(
    _LSTM,
    [
        _sample(_LSTM, F32, _T, 2, 3, (5, 2), activations=_THREE, reverse=False, coupled=False),
        _sample(_LSTM, F32, 4, 2, 3, (4, 3), activations=_THREE, reverse=True, coupled=True, clip=0.7),
    ],
)
