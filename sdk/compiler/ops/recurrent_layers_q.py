"""Recurrent layers of quantised tensors as LiteRT computes them: ``lstm_layer_q``, and what parts make of it, by name.

As of ``recurrent_layers``, of i8 with cells of i16: what the inputs of all steps give to the gates is computed before,
in i16 (``x``, saturated). A step adds what the hidden state gives (``r``), then what the cells give through a
``peephole``, and saturates each time; ``norm`` brings a gate to mean 0 and spread 1 over its units in fixed point,
before it is scaled and moved (``s`` and ``sb``); ``project`` makes the output of what the cells give (``w`` and
``wb``). Gates are input, forget, cell, output, in 12 bits after the point; coupled ones lack the first, which is 1 less
forget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import cast, imm, op
from sdk.compiler.ir.loops import Alloc, Buffer, Let, Load, Loops, Ref, Stmt, Store
from sdk.compiler.ir.types import I8, I16, I32, I64, DType, TensorType
from sdk.compiler.ops.build import function, loop, param, row_vars, variable
from sdk.compiler.ops.fixed import inverse_root
from sdk.compiler.ops.fixed import multiply_quantized as multiply_quantized_ref
from sdk.compiler.ops.recurrent_layers import PARTS, carried, require_shapes
from sdk.compiler.ops.recurrent_q import GateRescale, held, recurrent_gates, scaled_product
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.requantize import multiply_quantized, multiply_quantized_const, saturate
from sdk.compiler.ops.roots import ROOT_SHIFTS, inverse_root_steps
from sdk.compiler.ops.shapes import require_equal
from sdk.compiler.ops.traits import OPAQUE
from sdk.compiler.ops.word_curves import WORD_BITS, halved_ref, word_curve, word_curve_ref
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

__all__ = ["LARGEST_NORM", "layer_q_name"]

Array = NDArray[Any]
Types = Sequence[TensorType]
LARGEST_NORM: Final = (1 << 16) - 1  # units whose sum fits 32 bits
_INPUTS: Final = {"peephole": ("p",), "norm": ("s", "sb"), "project": ("w", "wb")}
_KINDS: Final = {
    "x": I16, "r": I8, "start": I32, "mult": I32, "shift": I32, "h": I8, "c": I16, "p": I16, "s": I16, "sb": I32,
    "w": I8, "wb": I32,
}  # fmt: skip
_GATE_BITS: Final = 3  # integer bits of gates
_FREE: Final = (-65536, 65536)  # what a gate of i16 can be moved by: more saturates it all the same
_AWAY: Final = 10  # bits that a normalised gate has more
_AWAY_BITS: Final = 27  # of 1024 times a gate less its mean


def layer_q_name(parts: Sequence[str]) -> str:
    """The op of a quantised LSTM with these parts."""
    return "_".join(("lstm_layer_q", *(part for part in PARTS if part in parts)))


@dataclass(frozen=True)
class _Kind:
    """Which layer an op is: its parts."""

    parts: tuple[str, ...]

    @property
    def name(self) -> str:
        return layer_q_name(self.parts)

    @property
    def inputs(self) -> tuple[str, ...]:
        return ("x", "r", "start", "mult", "shift", "h", "c", *(n for part in self.parts for n in _INPUTS[part]))

    def has(self, part: str) -> bool:
        return part in self.parts


def _gates_of(given: Mapping[str, Any]) -> int:
    return 3 if given["coupled"] else 4


# --- types --------------------------------------------------------------------------------------------------------


def _infer(kind: _Kind) -> Callable[..., tuple[TensorType, ...]]:
    def infer(*types: TensorType, cell_bits: int, **given: Any) -> tuple[TensorType, ...]:
        at = dict(zip(kind.inputs, types, strict=True))
        x, h, c, gates = at["x"], at["h"], at["c"], _gates_of(given)
        if x.rank != 3 or h.rank != 2 or c.rank != 2:
            raise BuildError(f"{kind.name} wants x[t, b, gates] and states [b, units]")
        for name, type in at.items():
            if type.dtype != _KINDS[name]:
                raise BuildError(f"{name} of {kind.name} is {type.dtype}, not {_KINDS[name]}")
        units, outputs = c.shape[1], h.shape[1]
        if not isinstance(units, int) or not isinstance(outputs, int):
            raise BuildError(f"the number of units {units} of {kind.name} must be known")
        if cell_bits not in WORD_BITS:
            raise BuildError(f"{kind.name} has cells of {cell_bits} integer bits, supported: 0 to {WORD_BITS[-1]}")
        if kind.has("norm") and units > LARGEST_NORM:
            raise BuildError(f"{kind.name} normalises {units} units, more than {LARGEST_NORM}")
        wanted: dict[str, tuple[Dim, ...]] = {
            "x": (x.shape[0], h.shape[0], gates * units), "r": (gates * units, outputs), "start": (gates * units,),
            "mult": (gates,), "shift": (gates,), "c": (h.shape[0], units), "p": (gates - 1, units),
            "s": (gates, units), "sb": (gates, units), "w": (outputs, units), "wb": (outputs,),
        }  # fmt: skip
        require_shapes(kind.name, at, wanted)
        if not kind.has("project"):
            require_equal(f"units and outputs of {kind.name}", units, outputs)
        return TensorType(I8, (x.shape[0], x.shape[1], outputs)), h, c

    return infer


# --- meaning ------------------------------------------------------------------------------------------------------


def _words(x: Array) -> Array:
    return np.clip(x, -32768, 32767)


def _bytes(x: Array) -> Array:
    return np.clip(x, -128, 127)


def _scaled(x: Array, by: Sequence[int]) -> Array:
    return multiply_quantized_ref(x.astype(np.int32), by[0], by[1]).astype(np.int64)


def _trunc(a: Array, b: int) -> Array:
    return np.asarray(np.sign(a) * (np.abs(a) // b))


def _normed(gate: Array, weights: Array, bias: Array, by: Sequence[int], guard: int) -> Array:
    units = gate.shape[-1]
    mean = _trunc(gate.sum(axis=-1, keepdims=True) * 1024, units)
    spread = (gate * gate).sum(axis=-1, keepdims=True) * ((1 << 20) // units) - mean * mean
    spread = spread >> 20
    mult, right = inverse_root(np.where(spread < 1, guard, spread))
    away = (gate * 1024 - mean).astype(np.int32)
    unit = multiply_quantized_ref(away, np.broadcast_to(mult, away.shape), np.broadcast_to(-right, away.shape))
    scaled = unit.astype(np.int64) * weights + bias
    wrapped = scaled.astype(np.int32).astype(np.int64)
    return _words(_scaled(halved_ref(wrapped, _AWAY), by))


def _pairs(given: Mapping[str, Any], what: str) -> list[tuple[int, int]]:
    return list(zip(given[f"{what}_mult"], given[f"{what}_shift"], strict=True))


def _cell(
    kind: _Kind, at: Mapping[str, Array], sums: Array, c: Array, given: Mapping[str, Any]
) -> tuple[Array, Array]:
    """New hidden states and cells from the gates [b, gates, units]."""
    gates = [sums[:, k] for k in range(sums.shape[1])]

    def seen(gate: Array, row: int) -> Array:
        if not kind.has("peephole"):
            return gate
        return _words(gate + _scaled(at["p"][row].astype(np.int64) * c, _pairs(given, "seen")[row]))

    def curve(k: int, tanh: bool = False) -> Array:
        gate = gates[k]
        if kind.has("norm"):
            gate = _normed(gate, at["s"][k], at["sb"][k], _pairs(given, "norm")[k], given["guard"][k])
        return word_curve_ref(gate, _GATE_BITS, tanh).astype(np.int64)

    early, bits = len(gates) - 2, int(given["cell_bits"])
    gates[:early] = [seen(g, k) for k, g in enumerate(gates[:early])]
    forget = curve(early - 1)
    enter = 32767 - forget if given["coupled"] else curve(0)
    c = _words(halved_ref(forget * c, 15) + halved_ref(enter * curve(early, True), 15 + bits))
    if given["clip"]:
        c = np.clip(c, -given["clip"], given["clip"])
    gates[-1] = seen(gates[-1], early)
    out = curve(early + 1) * word_curve_ref(c, bits, True)
    h = _bytes(_scaled(out, given["result"]) + given["middle"])
    if kind.has("project"):
        sums = h @ at["w"].astype(np.int64).T + at["wb"]
        h = _bytes(_scaled(sums, given["project"]) + given["zp"])
        if given["proj_clip"]:
            h = np.clip(h, -given["proj_clip"], given["proj_clip"])
    return h, c


def _reference(kind: _Kind) -> Callable[..., tuple[Array, ...]]:
    def run(*arrays: Array, **given: Any) -> tuple[Array, ...]:
        at = dict(zip(kind.inputs, arrays, strict=True))
        h, c = (at[s].astype(np.int64) for s in ("h", "c"))
        units, r = c.shape[1], at["r"].astype(np.int64)
        by, to = (np.repeat(at[n], units) for n in ("mult", "shift"))
        out = np.zeros((*at["x"].shape[:2], h.shape[1]), np.int8)
        for t in range(len(out)):
            acc = (h @ r.T + at["start"]).astype(np.int32)
            gates = _words(at["x"][t] + multiply_quantized_ref(acc, by, to).astype(np.int64))
            h, c = _cell(kind, at, gates.reshape(len(h), _gates_of(given), units), c, given)
            out[t] = h
        return out, h.astype(np.int8), c.astype(np.int16)

    return run


# --- loops --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Step:
    """The statements of one step of an element of the batch, on the buffers ``gates``, ``state_h`` and ``state_c``, and
    ``made``, what a projection reads."""

    kind: _Kind
    units: int
    outputs: int
    given: Mapping[str, Any]

    def begin(self, time: Dim, batch: Dim) -> Stmt:
        """gates = x + state_h times r."""
        by = GateRescale(I32, *(int(self.given[n]) for n in ("shift_lo", "shift_hi", "acc_bits")))
        return recurrent_gates(_gates_of(self.given), self.units, self.outputs, I8, by, (time, batch), _FREE)

    def cell(self) -> list[Stmt]:
        """New cells, and what they and the output gate give."""
        early = _gates_of(self.given) - 2
        seen = [s for k in range(early) for s in self.peephole(k, k, str(k))]
        normed = [s for k in range(early + 1) for s in self.norm(k)]
        last = [*self.peephole(early, early + 1, "o"), *self.norm(early + 1)]
        return [*seen, *normed, self.update(early), *last, self.show(early + 1), *self.project()]

    def gate(self, which: int, at: Var) -> Load:
        return Load("gates", (at.expr + which * self.units,), I16)

    def update(self, early: int) -> Stmt:
        j, bits = variable("j", self.units), int(self.given["cell_bits"])
        body: list[Stmt] = []

        def named(name: str, gate: int, tanh: bool = False) -> Ref:
            lets, value = word_curve(self.gate(gate, j), _GATE_BITS, tanh, f"{name}_")
            body.extend([*lets, Let(name, cast(value, I32))])
            return Ref(name, I32)

        forget = named("forget", early - 1)
        enter = op("sub", imm(32767), forget) if self.given["coupled"] else named("enter", 0)
        fresh = named("fresh", early, tanh=True)
        kept = op("rdbpot", op("mul", forget, cast(Load("state_c", (j.expr,), I16), I32)), imm(15))
        total = held(op("add", kept, op("rdbpot", op("mul", enter, fresh), imm(15 + bits))))
        clip = int(self.given["clip"])
        value = held(total, -clip, clip) if clip else total
        return loop(j, self.units, *body, Store("state_c", (j.expr,), cast(value, I16)))

    def show(self, last: int) -> Stmt:
        """What cells give through the output gate, in i8."""
        m, bits = variable("m", self.units), int(self.given["cell_bits"])
        opens, gate = word_curve(self.gate(last, m), _GATE_BITS, False, "open_")
        shown, cell = word_curve(Load("state_c", (m.expr,), I16), bits, True, "cell_")
        raw = scaled_product(Ref("opened", I16), Ref("shown", I16), self.given["result"])
        value = saturate(raw, int(self.given["middle"]), *I8.limits, "i8")
        target = "made" if self.kind.has("project") else "state_h"
        lets = (*opens, Let("opened", gate), *shown, Let("shown", cell))
        return loop(m, self.units, *lets, Store(target, (m.expr,), value))

    def peephole(self, row: int, gate: int, tag: str) -> list[Stmt]:
        if not self.kind.has("peephole"):
            return []
        j = variable(f"p{tag}", self.units)
        by = _pairs(self.given, "seen")[row]
        seen = scaled_product(Load("p", (row, j.expr), I16), Load("state_c", (j.expr,), I16), by)
        value = cast(held(op("add", cast(self.gate(gate, j), I32), seen)), I16)
        return [loop(j, self.units, Store("gates", (j.expr + gate * self.units,), value))]

    def norm(self, gate: int) -> list[Stmt]:
        """The gate less its mean, over its spread, scaled and moved."""
        if not self.kind.has("norm"):
            return []
        j, k = variable(f"j{gate}", self.units), variable(f"k{gate}", self.units)
        total, squares = Load(f"total{gate}", (), I32), Load(f"squares{gate}", (), I64)
        first, value = cast(self.gate(gate, j), I32), cast(self.gate(gate, k), I32)
        mean, away = Ref(f"mean{gate}", I32), Ref(f"right{gate}", I32)
        shifted = op("sub", op("shl", value, imm(_AWAY)), mean)
        lo, hi = -ROOT_SHIFTS[1], -ROOT_SHIFTS[0]
        unit = multiply_quantized(shifted, Ref(f"mult{gate}", I32), op("neg", away), lo, hi, _AWAY_BITS)
        weight, bias = cast(Load("s", (gate, k.expr), I16), I64), cast(Load("sb", (gate, k.expr), I32), I64)
        scaled = cast(op("add", op("mul", cast(unit, I64), weight), bias), I32)  # LiteRT's 32 bits wrap
        mult, shift = _pairs(self.given, "norm")[gate]
        bits = min(31, 32 - _AWAY + max(shift, 0))
        result = multiply_quantized_const(op("rdbpot", scaled, imm(_AWAY)), mult, shift, bits)
        return [
            Alloc(Buffer(total.buffer, I32, (), "register")),
            Alloc(Buffer(squares.buffer, I64, (), "register")),
            Store(total.buffer, (), imm(0)),
            Store(squares.buffer, (), cast(imm(0), I64)),
            loop(
                j,
                self.units,
                Store(total.buffer, (), op("add", total, first)),
                Store(squares.buffer, (), op("add", squares, cast(op("mul", first, first), I64))),
            ),
            *self._mean_and_root(gate, total, squares),
            loop(k, self.units, Store("gates", (k.expr + gate * self.units,), cast(held(result), I16))),
        ]

    def _mean_and_root(self, gate: int, total: Load, squares: Load) -> list[Stmt]:
        """Names ``mean``, and ``mult`` and ``right`` for 1 over the spread. The whole part of the mean and the rest are
        multiplied apart, so that neither leaves 32 bits."""
        count, guard = imm(self.units), imm(int(self.given["guard"][gate]))
        whole, mean = Ref(f"whole{gate}", I32), Ref(f"mean{gate}", I32)
        rest = op("shl", op("sub", total, op("mul", whole, count)), imm(_AWAY))
        wide, spread = cast(mean, I64), Ref(f"spread{gate}", I32)
        square = op("mul", squares, cast(imm((1 << 20) // self.units), I64))
        found = op("shr", op("sub", square, op("mul", wide, wide)), cast(imm(20), I64))
        guarded = Ref(f"guarded{gate}", I32)
        return [
            Let(whole.name, op("tdiv", total, count)),
            Let(mean.name, op("add", op("shl", whole, imm(_AWAY)), op("tdiv", rest, count))),
            Let(spread.name, cast(found, I32)),
            Let(guarded.name, op("select", op("lt", spread, imm(1)), guard, spread, dtype=I32)),
            *inverse_root_steps(guarded, str(gate)),
        ]

    def project(self) -> list[Stmt]:
        if not self.kind.has("project"):
            return []
        q, k = variable("w", self.outputs), variable("v", self.units)
        acc, given = Load("sum", (), I32), self.given
        term = op("mul", cast(Load("made", (k.expr,), I8), I32), cast(Load("w", (q.expr, k.expr), I8), I32))
        mult, shift, bits = (int(v) for v in given["project"])
        lo, hi = I8.limits
        moved = held(multiply_quantized_const(acc, mult, shift, bits), *_FREE)  # no sum with a zero point overflows
        value = held(op("add", moved, imm(int(given["zp"]))), lo, hi)
        clip = int(given["proj_clip"])
        clipped = held(value, -clip, clip) if clip else value
        return [
            loop(
                q,
                self.outputs,
                Alloc(Buffer("sum", I32, (), "register")),
                Store("sum", (), Load("wb", (q.expr,), I32)),
                loop(k, self.units, Store("sum", (), op("add", acc, term))),
                Store("state_h", (q.expr,), cast(clipped, I8)),
            )
        ]


def _loops(kind: _Kind) -> Callable[[str, Types, Types, Mapping[str, Any]], Loops]:
    def build(name: str, types: Types, outs: Types, given: Mapping[str, Any]) -> Loops:
        """Each of the batch { states = initial; steps { states = step(states); o = h }; last states }."""
        at = dict(zip(kind.inputs, types, strict=True))
        x = at["x"]
        outputs, units = (int(at[s].shape[1]) for s in ("h", "c"))  # type: ignore[arg-type]  # numbers by infer
        rows = row_vars(x.shape[1])
        batch, time = variable("b", x.shape[1]), variable("t", x.shape[0])
        params = [param(n, t) for n, t in at.items()]
        params += [param(f"o{k}", t, "write") for k, t in enumerate(outs)]
        step = _Step(kind, units, outputs, given)
        states: dict[str, tuple[DType, int]] = {"h": (I8, outputs), "c": (I16, units)}
        wanted = {"gates": (I16, _gates_of(given) * units), **{f"state_{s}": v for s, v in states.items()}}
        if kind.has("project"):
            wanted["made"] = (I8, units)
        space = [Alloc(Buffer(n, dtype, (count,), "scratch")) for n, (dtype, count) in wanted.items()]
        b, put = batch.expr, variable("y", outputs)
        show = loop(put, outputs, Store("o0", (time.expr, b, put.expr), Load("state_h", (put.expr,), I8)))
        body = [step.begin(time.expr, b), *step.cell(), show]
        begin, end = carried(states, b)
        each = (*space, *begin, loop(time, x.shape[0], *body), *end)
        return function(name, params, [loop(batch, rows.hi.expr, *each, lo=rows.lo.expr)], rows)

    return build


# --- declarations -------------------------------------------------------------------------------------------------


def _sample(kind: _Kind, steps: Dim, batch: Dim, units: int, **more: Any) -> Any:
    given: dict[str, Any] = {"coupled": False, "cell_bits": 4, "clip": 0, "proj_clip": 0, **more}
    gates, outputs = _gates_of(given), units + kind.has("project")
    shapes: dict[str, tuple[Dim, ...]] = {
        "x": (steps, batch, gates * units), "r": (gates * units, outputs), "start": (gates * units,),
        "mult": (gates,), "shift": (gates,), "h": (batch, outputs), "c": (batch, units), "p": (gates - 1, units),
        "s": (gates, units), "sb": (gates, units), "w": (outputs, units), "wb": (outputs,),
    }  # fmt: skip
    drawn: dict[str, Callable[[np.random.Generator], Array]] = {
        "start": lambda rng: rng.integers(-3000, 3000, gates * units),
        "mult": lambda rng: rng.integers(1 << 30, (1 << 31) - 1, gates),
        "shift": lambda rng: rng.integers(-5, -1, gates),
        "sb": lambda rng: rng.integers(-(1 << 20), 1 << 20, (gates, units)),
        "wb": lambda rng: rng.integers(-5000, 5000, outputs),
    }
    given = {
        "result": (1518500250, -21), "middle": -3, "zp": 5, "project": (1340353550, -5, 24), "seen_mult": (),
        "seen_shift": (), "norm_mult": (), "norm_shift": (), "guard": (), "shift_lo": -5, "shift_hi": -2,
        "acc_bits": 20, **given,
    }  # fmt: skip
    if kind.has("peephole"):
        mults, shifts = (1340353550, 1 << 30, 1518500250), (-14, -16, -13)
        given |= {"seen_mult": mults[: gates - 1], "seen_shift": shifts[: gates - 1]}
    if kind.has("norm"):
        by, guards = (-3, -2, -3, 0), (1, 20, 300, 1)
        given |= {"norm_mult": (1340353550,) * gates, "norm_shift": by[:gates], "guard": guards[:gates]}
    names = kind.inputs
    values = {names.index(n): fill for n, fill in drawn.items() if n in names}
    return sample(*(TensorType(_KINDS[n], shapes[n]) for n in names), values=values, **given)


_T: Dim = Var("t", 1, 4).expr
_B: Dim = Var("b", 1, 3).expr
for _kind in (_Kind(tuple(p for p, on in zip(PARTS, flags, strict=True) if on))
              for flags in product((False, True), repeat=3)):  # fmt: skip
    define(
        OpDef(
            _kind.name,
            _kind.inputs,
            _infer(_kind),
            _reference(_kind),
            _loops(_kind),
            samples=(
                _sample(_kind, _T, 2, 3),
                _sample(_kind, 3, _B, 2, coupled=True, cell_bits=6, clip=9000, proj_clip=60),
                *([_sample(_kind, 2, 1, 4, cell_bits=0)] if len(_kind.parts) in (0, len(PARTS)) else []),
            ),
            kind=OPAQUE,
        )
    )
