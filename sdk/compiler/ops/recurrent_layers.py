"""Recurrent layers as LiteRT defines them: ``rnn_layer``, and ``lstm_layer`` with the parts that a name adds to it.

What the inputs of all steps give to the gates is computed before (``x``); of the state matrices are f32[from, to], or
i8[to, from] with a scale for each gate: then each step stores the vector it multiplies in 8 bits by its own range.
Parts are ``peephole`` (gates see the cells through ``p[gates, units]``), ``norm`` (each gate is normalised over its
units, then scaled and moved by ``s[2, gates, units]``) and ``project`` (the output is ``w`` times what the cells give,
plus ``wb``). Gates are input, forget, cell, output; coupled ones lack the first, which is 1 less forget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import cast, op
from sdk.compiler.ir.loops import Alloc, Buffer, Let, Load, Loops, Ref, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import F32, I8, I32, DType, TensorType
from sdk.compiler.ops.build import function, loop, param, row_vars, variable
from sdk.compiler.ops.gate_functions import ACTIVATIONS, activate, activated, limited
from sdk.compiler.ops.numerics import number
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.shapes import require_equal
from sdk.compiler.ops.stored_vectors import STEPS, store_vector, stored_rows
from sdk.compiler.ops.traits import OPAQUE
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

__all__ = ["PARTS", "carried", "layer_name", "require_shapes"]

Array = NDArray[Any]
Types = Sequence[TensorType]
PARTS = ("peephole", "norm", "project")
_INPUTS = {"peephole": ("p",), "norm": ("s",), "project": ("w", "wb")}
_NORM_FLOOR = 1e-8
_SIGMOID = ("sigmoid", 0.0, 0.0)


def layer_name(parts: Sequence[str]) -> str:
    """The op of an LSTM with these parts."""
    return "_".join(("lstm_layer", *(part for part in PARTS if part in parts)))


@dataclass(frozen=True)
class _Kind:
    """Which layer an op is: its parts, or None for one without cells."""

    parts: tuple[str, ...] | None

    @property
    def name(self) -> str:
        return "rnn_layer" if self.parts is None else layer_name(self.parts)

    @property
    def states(self) -> tuple[str, ...]:
        return ("h",) if self.parts is None else ("h", "c")

    @property
    def inputs(self) -> tuple[str, ...]:
        return ("x", "r", *self.states, *(n for part in self.parts or () for n in _INPUTS[part]))

    def gates(self, given: Mapping[str, Any]) -> int:
        return 1 if self.parts is None else 3 if given["coupled"] else 4

    def has(self, part: str) -> bool:
        return part in (self.parts or ())


# --- types --------------------------------------------------------------------------------------------------------


def _infer(kind: _Kind) -> Callable[..., tuple[TensorType, ...]]:
    def infer(*types: TensorType, activation: Any, scales: Any, **given: Any) -> tuple[TensorType, ...]:
        at = dict(zip(kind.inputs, types, strict=True))
        x, r, h, cells = at["x"], at["r"], at["h"], at[kind.states[-1]]
        if x.rank != 3 or r.rank != 2 or h.rank != 2 or cells.rank != 2:
            raise BuildError(f"{kind.name} wants x[t, b, gates], a matrix r and states [b, units]")
        stored = r.dtype == I8
        others = [t for n, t in at.items() if n not in ("r", "w")]
        if any(t.dtype != F32 for t in others) or r.dtype not in (F32, I8) or ("w" in at and at["w"].dtype != r.dtype):
            raise BuildError(f"{kind.name} wants tensors of f32, and matrices of f32 or i8")
        if activation[0] not in ACTIVATIONS:
            raise BuildError(f"{kind.name} has no activation {activation[0]}", hint=f"one of {', '.join(ACTIVATIONS)}")
        units, outputs, gates = cells.shape[1], h.shape[1], kind.gates(given)
        if not isinstance(units, int) or not isinstance(outputs, int):
            raise BuildError(f"the number of units {units} of {kind.name} must be known")
        if stored and len(scales) != gates + kind.has("project"):
            raise BuildError(f"{kind.name} has {len(scales)} scales for matrices of i8")
        wanted: dict[str, tuple[Dim, ...]] = {
            "x": (x.shape[0], h.shape[0], gates * units), "r": _turned((outputs, gates * units), stored),
            "c": (h.shape[0], units), "p": (gates - 1, units), "s": (2, gates, units),
            "w": _turned((units, outputs), stored), "wb": (outputs,),
        }  # fmt: skip
        require_shapes(kind.name, at, wanted)
        if not kind.has("project"):
            require_equal(f"units and outputs of {kind.name}", units, outputs)
        return (TensorType(F32, (x.shape[0], x.shape[1], outputs)), *(at[s] for s in kind.states))

    return infer


def require_shapes(op_name: str, at: Mapping[str, TensorType], wanted: Mapping[str, tuple[Dim, ...]]) -> None:
    """Refuses inputs of an op, by name, of other shapes than those wanted."""
    for name, type in at.items():
        shape = wanted.get(name, type.shape)
        if type.rank != len(shape):
            raise BuildError(f"{name} of {op_name} has rank {type.rank} instead of {len(shape)}")
        for a, b in zip(type.shape, shape, strict=True):
            require_equal(f"sizes of {name} of {op_name}", a, b)


def _turned(shape: tuple[Dim, ...], stored: bool) -> tuple[Dim, ...]:
    return shape[::-1] if stored else shape


# --- meaning ------------------------------------------------------------------------------------------------------


def _times(v: Array, matrix: Array, scales: Sequence[float], asymmetric: bool) -> Array:
    """``v`` times a matrix, of i8 with a scale for each part of its rows."""
    if matrix.dtype != np.int8:
        return np.asarray(v @ matrix)
    steps, size = stored_rows(v, asymmetric)
    sums = (steps.astype(np.int64) @ matrix.astype(np.int64).T).astype(np.float32)
    each = np.repeat(np.asarray(scales, np.float32), matrix.shape[0] // len(scales))
    return np.asarray(sums * (each * size[:, None]))


def _clipped(x: Array, clip: float) -> Array:
    return np.clip(x, -clip, clip) if clip > 0 else x


def _reference(kind: _Kind) -> Callable[..., tuple[Array, ...]]:
    def run(*arrays: Array, **given: Any) -> tuple[Array, ...]:
        at = dict(zip(kind.inputs, arrays, strict=True))
        x, scales, gates = at["x"], tuple(given["scales"]), kind.gates(given)
        states = [at[s] for s in kind.states]
        out = np.zeros((*x.shape[:2], at["h"].shape[1]), np.float32)
        steps = range(x.shape[0])
        for t in reversed(steps) if given["reverse"] else steps:
            sums = x[t] + _times(states[0], at["r"], scales[:gates], given["asymmetric"])
            if kind.parts is None:
                states = [activated(given["activation"], sums)]
            else:
                states = _cell(kind, at, sums.reshape(len(sums), gates, -1), states[1], given)
            out[t] = states[0]
        return (out, *states)

    return run


def _cell(kind: _Kind, at: Mapping[str, Array], sums: Array, c: Array, given: Mapping[str, Any]) -> list[Array]:
    gates = [sums[:, k] for k in range(sums.shape[1])]

    def norm(k: int) -> Array:
        if not kind.has("norm"):
            return gates[k]
        away = gates[k] - gates[k].mean(axis=-1, keepdims=True)
        size = np.sqrt((away * away).mean(axis=-1, keepdims=True) + np.float32(_NORM_FLOOR))
        return np.asarray(away * (np.float32(1) / size) * at["s"][0, k] + at["s"][1, k])

    early = len(gates) - 2
    if kind.has("peephole"):
        gates[:early] = [g + at["p"][k] * c for k, g in enumerate(gates[:early])]
    f = activated(_SIGMOID, norm(early - 1))
    i = 1 - f if given["coupled"] else activated(_SIGMOID, norm(0))
    c = _clipped(f * c + i * activated(given["activation"], norm(early)), given["cell_clip"])
    if kind.has("peephole"):
        gates[-1] = gates[-1] + at["p"][-1] * c
    h = activated(_SIGMOID, norm(early + 1)) * activated(given["activation"], c)
    if kind.has("project"):
        h = _times(h, at["w"], given["scales"][-1:], given["asymmetric"]) + at["wb"]
        h = _clipped(h, given["proj_clip"])
    return [h.astype(np.float32), c.astype(np.float32)]


# --- loops --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Step:
    """The statements of one step of an element of the batch, on the buffers ``gates``, ``state_h`` and ``state_c``,
    and ``made``, what a projection reads."""

    kind: _Kind
    units: int
    outputs: int
    stored: bool
    given: Mapping[str, Any]

    @property
    def gates(self) -> int:
        return self.kind.gates(self.given)

    @property
    def scales(self) -> tuple[float, ...]:
        return tuple(float(s) for s in self.given["scales"])

    def products(self, source: str, matrix: str, size: int, target: str, parts: int, tag: str) -> list[Stmt]:
        """target[q] += source times the matrix, whose columns are ``parts`` of equal size."""
        scales = self.scales[-1:] if matrix == "w" else self.scales[:parts]
        count = (self.outputs if matrix == "w" else self.units * parts) // parts
        if not self.stored:
            k, q = variable(f"k{tag}", size), variable(f"q{tag}", count * parts)
            factor = Ref(f"factor{tag}", F32)
            term = op("mul", factor, Load(matrix, (k.expr, q.expr), F32))
            add = Store(target, (q.expr,), op("add", Load(target, (q.expr,), F32), term))
            return [loop(k, size, Let(factor.name, Load(source, (k.expr,), F32)), loop(q, count * parts, add))]
        begin, step = store_vector(source, "steps", size, bool(self.given["asymmetric"]), tag)
        rows = [self._rows(matrix, size, target, part * count, count, scale, step, f"{tag}{part}")
                for part, scale in enumerate(scales)]  # fmt: skip
        return [*begin, *rows]

    def _rows(
        self, matrix: str, size: int, target: str, first: int, count: int, scale: float, step: ValueExpr, tag: str
    ) -> Stmt:
        q, k = variable(f"q{tag}", count), variable(f"k{tag}", size)
        acc, row = Load("acc", (), I32), q.expr + first
        term = op("mul", cast(Load("steps", (k.expr,), STEPS), I32), cast(Load(matrix, (row, k.expr), I8), I32))
        real = op("mul", cast(acc, F32), op("mul", number(float(np.float32(scale)), F32), step))
        return loop(
            q,
            count,
            Alloc(Buffer("acc", I32, (), "register")),
            Store("acc", (), number(0, I32)),
            loop(k, size, Store("acc", (), op("add", acc, term))),
            Store(target, (row,), op("add", Load(target, (row,), F32), real)),
        )

    def begin(self, time: Dim, batch: Dim) -> list[Stmt]:
        """gates = x + state_h times r."""
        q = variable("s", self.gates * self.units)
        start = loop(q, self.gates * self.units, Store("gates", (q.expr,), Load("x", (time, batch, q.expr), F32)))
        return [start, *self.products("state_h", "r", self.outputs, "gates", self.gates, "r")]

    def plain(self) -> list[Stmt]:
        j = variable("j", self.units)
        value = activate(self.given["activation"], Load("gates", (j.expr,), F32))
        return [loop(j, self.units, Store("state_h", (j.expr,), value))]

    def cell(self) -> list[Stmt]:
        """New cells, and what they and the output gate give."""
        early = self.gates - 2
        seen = [self.peephole(k, k, str(k)) for k in range(early)]
        normed = [s for k in range(early + 1) for s in self.norm(k)]
        j, m = variable("j", self.units), variable("j", self.units)
        forget, new = Ref("forget", F32), Ref("new_c", F32)
        enter = op("sub", number(1, F32), forget) if self.given["coupled"] else activate(_SIGMOID, self.gate(0, j))
        fresh = op("mul", enter, activate(self.given["activation"], self.gate(early, j)))
        total: ValueExpr = op("add", op("mul", forget, Load("state_c", (j.expr,), F32)), fresh)
        update = loop(
            j,
            self.units,
            Let("forget", activate(_SIGMOID, self.gate(early - 1, j))),
            Let("new_c", self.clip(total, "cell_clip")),
            Store("state_c", (j.expr,), new),
        )
        out = activate(_SIGMOID, self.gate(early + 1, m))
        value = op("mul", out, activate(self.given["activation"], Load("state_c", (m.expr,), F32)))
        target = "made" if self.kind.has("project") else "state_h"
        last = [*self.peephole(early, early + 1, "o"), *self.norm(early + 1)]
        body = [*(s for one in seen for s in one), *normed, update, *last,
                loop(m, self.units, Store(target, (m.expr,), value))]  # fmt: skip
        return [*body, *self.project()]

    def gate(self, which: int, at: Var) -> Load:
        return Load("gates", (at.expr + which * self.units,), F32)

    def clip(self, value: ValueExpr, what: str) -> ValueExpr:
        clip = float(np.float32(self.given[what]))
        return limited(value, -clip, clip) if clip > 0 else value

    def peephole(self, row: int, gate: int, tag: str) -> list[Stmt]:
        if not self.kind.has("peephole"):
            return []
        j = variable(f"p{tag}", self.units)
        seen = op("mul", Load("p", (row, j.expr), F32), Load("state_c", (j.expr,), F32))
        value = op("add", self.gate(gate, j), seen)
        return [loop(j, self.units, Store("gates", (j.expr + gate * self.units,), value))]

    def norm(self, gate: int) -> list[Stmt]:
        """The gate less its mean, over its spread, scaled and moved."""
        if not self.kind.has("norm"):
            return []
        names = [f"{what}{gate}" for what in ("total", "spread")]
        total, spread = (Load(n, (), F32) for n in names)
        a, b, c = (variable(f"{v}{gate}", self.units) for v in "abc")
        mean, by, count = Ref(f"mean{gate}", F32), Ref(f"by{gate}", F32), number(self.units, F32)
        away = op("sub", self.gate(gate, b), mean)
        size = op("sqrt", op("add", op("tdiv", spread, count), number(_NORM_FLOOR, F32)))
        unit = op("mul", op("sub", self.gate(gate, c), mean), by)
        scaled = op("add", op("mul", unit, Load("s", (0, gate, c.expr), F32)), Load("s", (1, gate, c.expr), F32))
        return [
            *(Alloc(Buffer(n, F32, (), "register")) for n in names),
            *(Store(n, (), number(0, F32)) for n in names),
            loop(a, self.units, Store(total.buffer, (), op("add", total, self.gate(gate, a)))),
            Let(mean.name, op("tdiv", total, count)),
            loop(b, self.units, Store(spread.buffer, (), op("add", spread, op("mul", away, away)))),
            Let(by.name, op("tdiv", number(1, F32), size)),
            loop(c, self.units, Store("gates", (c.expr + gate * self.units,), scaled)),
        ]

    def project(self) -> list[Stmt]:
        if not self.kind.has("project"):
            return []
        first, last = variable("w", self.outputs), variable("z", self.outputs)
        start = loop(first, self.outputs, Store("state_h", (first.expr,), Load("wb", (first.expr,), F32)))
        found = [start, *self.products("made", "w", self.units, "state_h", 1, "w")]
        if self.given["proj_clip"] > 0:
            held = self.clip(Load("state_h", (last.expr,), F32), "proj_clip")
            found.append(loop(last, self.outputs, Store("state_h", (last.expr,), held)))
        return found


def _loops(kind: _Kind) -> Callable[[str, Types, Types, Mapping[str, Any]], Loops]:
    def build(name: str, types: Types, outs: Types, given: Mapping[str, Any]) -> Loops:
        """Each of the batch { states = initial; steps { states = step(states); o = h }; last states }."""
        at = dict(zip(kind.inputs, types, strict=True))
        x, sizes = at["x"], {s: int(at[s].shape[1]) for s in kind.states}  # type: ignore[arg-type]  # numbers by infer
        outputs, units = sizes["h"], sizes[kind.states[-1]]
        rows = row_vars(x.shape[1])
        batch, time = variable("b", x.shape[1]), variable("t", x.shape[0])
        params = [param(n, t) for n, t in at.items()]
        params += [param(f"o{k}", t, "write") for k, t in enumerate(outs)]
        step = _Step(kind, units, outputs, at["r"].dtype == I8, given)
        wanted = {"gates": (F32, step.gates * units), **{f"state_{s}": (F32, n) for s, n in sizes.items()}}
        if kind.has("project"):
            wanted["made"] = (F32, units)
        if step.stored:
            wanted["steps"] = (STEPS, max(outputs, units))
        space = [Alloc(Buffer(n, dtype, (count,), "scratch")) for n, (dtype, count) in wanted.items()]
        b, put = batch.expr, variable("y", outputs)
        place = x.shape[0] - 1 - time.expr if given["reverse"] else time.expr
        show = loop(put, outputs, Store("o0", (place, b, put.expr), Load("state_h", (put.expr,), F32)))
        body = [*step.begin(place, b), *(step.plain() if kind.parts is None else step.cell()), show]
        begin, end = carried({s: (F32, n) for s, n in sizes.items()}, b)
        each = (*space, *begin, loop(time, x.shape[0], *body), *end)
        return function(name, params, [loop(batch, rows.hi.expr, *each, lo=rows.lo.expr)], rows)

    return build


def carried(states: Mapping[str, tuple[DType, int]], b: Dim) -> tuple[list[Stmt], list[Stmt]]:
    """What copies states of so many elements in, and out after the last step."""
    begin: list[Stmt] = []
    end: list[Stmt] = []
    for k, (s, (dtype, size)) in enumerate(states.items(), start=1):
        i, e = variable(f"i{s}", size), variable(f"l{s}", size)
        begin.append(loop(i, size, Store(f"state_{s}", (i.expr,), Load(s, (b, i.expr), dtype))))
        end.append(loop(e, size, Store(f"o{k}", (b, e.expr), Load(f"state_{s}", (e.expr,), dtype))))
    return begin, end


# --- declarations -------------------------------------------------------------------------------------------------


def _sample(kind: _Kind, steps: Dim, batch: Dim, units: int, stored: bool = False, **given: Any) -> Any:
    given = {"activation": ("tanh", 0.0, 0.0), "reverse": False, "scales": (), "asymmetric": False, **given}
    if kind.parts is not None:
        given = {"coupled": False, "cell_clip": 0.0, "proj_clip": 0.0, **given}
    gates, outputs = kind.gates(given), units + kind.has("project")
    if stored:
        given["scales"] = (0.02, 0.015, 0.01, 0.03, 0.02)[: gates + kind.has("project")]
    matrix = I8 if stored else F32
    shapes: dict[str, tuple[Dim, ...]] = {
        "x": (steps, batch, gates * units), "r": _turned((outputs, gates * units), stored), "h": (batch, outputs),
        "c": (batch, units), "p": (gates - 1, units), "s": (2, gates, units), "w": _turned((units, outputs), stored),
        "wb": (outputs,),
    }  # fmt: skip
    return sample(*(TensorType(matrix if n in ("r", "w") else F32, shapes[n]) for n in kind.inputs), **given)


_T: Dim = Var("t", 1, 4).expr
_B: Dim = Var("b", 1, 3).expr
for _kind in (_Kind(None), *(_Kind(tuple(p for p, on in zip(PARTS, flags, strict=True) if on))
                             for flags in product((False, True), repeat=3))):  # fmt: skip
    _more: Any = {} if _kind.parts is None else {"coupled": True, "cell_clip": 0.4, "proj_clip": 0.3}
    define(
        OpDef(
            _kind.name,
            _kind.inputs,
            _infer(_kind),
            _reference(_kind),
            _loops(_kind),
            samples=(
                _sample(_kind, _T, 2, 3),
                _sample(_kind, 3, _B, 2, activation=("clip", -0.5, 0.7), reverse=True, **_more),
                _sample(_kind, 2, 2, 3, stored=True),
                _sample(_kind, 2, 1, 4, stored=True, asymmetric=True, **_more),
            ),
            kind=OPAQUE,
        )
    )
