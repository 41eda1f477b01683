"""``lstm_scan_q``: an LSTM of quantised tensors as TensorFlow Lite Micro computes it, one layer in one direction.

What the inputs of all steps give to the gates is computed before, in i16 with 12 bits after the point (``x``, biases
included). A step adds what the hidden state gives, in the same i16 and saturated, and so rounds each part by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import apply, cast, imm, op
from sdk.compiler.ir.loops import Alloc, Buffer, Let, Load, Loops, Ref, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import I8, I16, I32, I64, DType, TensorType
from sdk.compiler.ops.build import function, loop, param, row_vars, variable
from sdk.compiler.ops.curves import HALF_ENTRIES, half_curve, half_curve_ref
from sdk.compiler.ops.fixed import multiply_quantized as multiply_quantized_ref
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.requantize import multiply_quantized, multiply_quantized_const, saturate
from sdk.compiler.ops.shapes import require_equal
from sdk.compiler.ops.traits import OPAQUE
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

__all__ = ["GateRescale", "held", "recurrent_gates", "scaled_product"]

Array = NDArray[Any]
Types = Sequence[TensorType]
INPUTS = ("x", "r", "start", "mult", "shift", "h", "c", "table")
# The gates in order, by the names of what they become, and whether that is a tanh.
_FUNCTIONS = (("i", False), ("f", False), ("n", True), ("o", False))
_GATES = len(_FUNCTIONS)
_STEPS = (3, 0)  # from 12 bits after the point to the steps of the curves: a multiplier and a shift to the right
_NO_CLIP = 32768  # beyond what i16 holds
_PRODUCT_BITS = 31  # of two numbers of i16


def _infer(*types: TensorType, **_: Any) -> tuple[TensorType, ...]:
    x, r, start, mult, shift, h, c, table = types
    if x.rank != 3 or r.rank != 2 or h.rank != 2 or c.shape != h.shape:
        raise BuildError("lstm_scan_q wants x[t, b, 4 * units], r[4 * units, units] and states [b, units]")
    if x.dtype != I16 or r.dtype != I8 or h.dtype not in (I8, I16) or c.dtype != I16:
        raise BuildError(f"lstm_scan_q wants x of i16, r of i8, h of i8 or i16, c of i16, not {x.dtype}, {r.dtype} …")
    if start.dtype != (I32 if h.dtype == I8 else I64) or (mult.dtype, shift.dtype) != (I32, I32):
        raise BuildError(f"lstm_scan_q wants sums of i32 for h of i8, of i64 for i16, not {start.dtype}")
    if mult.shape != (_GATES,) or shift.shape != (_GATES,) or (table.dtype, table.shape) != (I32, (HALF_ENTRIES,)):
        raise BuildError("lstm_scan_q wants a multiplier and a shift for each gate, and a table of 257 entries")
    units = r.shape[1]
    if not isinstance(units, int):
        raise BuildError(f"the number of units {units} of lstm_scan_q must be known")
    for what, a, b in (
        ("gates", x.shape[2], _GATES * units), ("rows of r", r.shape[0], _GATES * units),
        ("starts", start.shape[0], _GATES * units), ("units of the state", h.shape[1], units),
        ("batch of the state", h.shape[0], x.shape[1]),
    ):  # fmt: skip
        require_equal(f"{what} of lstm_scan_q", a, b)
    return TensorType(h.dtype, (x.shape[0], x.shape[1], units)), h, c


def _clamped(x: Array, lo: int = -32768, hi: int = 32767) -> Array:
    return np.clip(x.astype(np.int64), lo, hi)


def _product(a: Array, b: Array, by: tuple[int, int]) -> Array:
    return multiply_quantized_ref((a.astype(np.int64) * b).astype(np.int32), *by).astype(np.int64)


def _curve(x: Array, table: Array, steps: Any, tanh: bool) -> Array:
    return half_curve_ref(x, table, mult=steps[0], shift=steps[1], tanh=tanh)


def _reference(
    x: Array, r: Array, start: Array, mult: Array, shift: Array, h: Array, c: Array, table: Array,
    *, forget: Any, enter: Any, result: Any, zp: int, cell_steps: Any, clip: int, **_: Any,
) -> tuple[Array, ...]:  # fmt: skip
    h, c, units = h.copy(), c.copy(), h.shape[1]
    out = np.zeros((*x.shape[:2], units), h.dtype)
    limits = np.iinfo(h.dtype)
    by, to = (np.repeat(v, units) for v in (mult, shift))
    for t in range(x.shape[0]):
        acc = (h.astype(np.int64) @ r.astype(np.int64).T + start).astype(start.dtype)
        scaled = apply("mulq64", [acc, by, to], I32) if acc.dtype == np.int64 else multiply_quantized_ref(acc, by, to)
        gates = _clamped(x[t].astype(np.int64) + _clamped(scaled)).reshape(-1, _GATES, units)
        i, f, g, o = (_curve(gates[:, k], table, _STEPS, tanh) for k, (_, tanh) in enumerate(_FUNCTIONS))
        kept, new = (_clamped(v) for v in (_product(f, c, forget), _product(i, g, enter)))
        c = _clamped(kept + new).astype(np.int16)
        c = _clamped(c, -clip, clip).astype(np.int16)
        raw = _product(_curve(c, table, cell_steps, True), o, result) + zp
        h = _clamped(raw, limits.min, limits.max).astype(h.dtype)
        out[t] = h
    return out, h, c


@dataclass(frozen=True, slots=True)
class GateRescale:
    """How sums become gates: by ``mult`` and ``shift`` of each; the range of shifts, and the bits of sums."""

    sums: DType
    shift_lo: int
    shift_hi: int
    acc_bits: int

    def of(self, acc: ValueExpr, gate: Dim) -> ValueExpr:
        """A sum of a gate, times its ratio, in i32."""
        mult, shift = Load("mult", (gate,), I32), Load("shift", (gate,), I32)
        if self.sums == I64:
            return op("mulq64", acc, mult, shift, dtype=I32)
        return multiply_quantized(acc, mult, shift, self.shift_lo, self.shift_hi, self.acc_bits)


def recurrent_gates(
    gates: int, units: int, outputs: int, hidden: DType, rescale: GateRescale, at: tuple[Dim, Dim],
    limits: tuple[int, int] = (-32768, 32767),
) -> Stmt:  # fmt: skip
    """gates[g * units + q] = saturated(x + held to limits(rescaled(start + sum over k of state_h[k] * r[q, k])))."""
    g, q, k = variable("g", gates), variable("q", units), variable("k", outputs)
    row, acc = g.expr * units + q.expr, Load("acc", (), rescale.sums)
    left = cast(Load("state_h", (k.expr,), hidden), rescale.sums)
    term = op("mul", left, cast(Load("r", (row, k.expr), I8), rescale.sums))
    total = op("add", cast(Load("x", (*at, row), I16), I32), held(Ref("scaled", I32), *limits))
    each = loop(
        q,
        units,
        Alloc(Buffer("acc", rescale.sums, (), "register")),
        Store("acc", (), Load("start", (row,), rescale.sums)),
        loop(k, outputs, Store("acc", (), op("add", acc, term))),
        Let("scaled", rescale.of(acc, g.expr)),
        Store("gates", (row,), cast(held(total), I16)),
    )
    return loop(g, gates, each)


@dataclass(frozen=True)
class _Step:
    """The statements of one step of an element of the batch: ``state_h``, ``state_c`` and ``gates`` are its buffers."""

    units: int
    hidden: DType
    sums: DType
    given: Mapping[str, Any]

    def recurrent(self, time: Dim, batch: Dim) -> Stmt:
        """gates = saturated(x + saturated(rescaled(start + r times h)))."""
        rescale = GateRescale(self.sums, *(int(self.given[n]) for n in ("shift_lo", "shift_hi", "acc_bits")))
        return recurrent_gates(_GATES, self.units, self.units, self.hidden, rescale, (time, batch))

    def update(self) -> Stmt:
        """New cells and hidden states from the gates."""
        j, given = variable("j", self.units), self.given
        body: list[Stmt] = []
        for k, (tag, tanh) in enumerate(_FUNCTIONS):
            names, value = half_curve(Load("gates", (j.expr + k * self.units,), I16), *_STEPS, tanh, f"{tag}_")
            body += [*names, Let(f"gate_{tag}", value)]
        old = Load("state_c", (j.expr,), I16)
        kept = scaled_product(Ref("gate_f", I16), old, given["forget"])
        new = scaled_product(Ref("gate_i", I16), Ref("gate_n", I16), given["enter"])
        cell = held(op("add", held(kept), held(new)))
        if int(given["clip"]) < _NO_CLIP:
            cell = held(cell, -int(given["clip"]), int(given["clip"]))
        mult, shift = (int(v) for v in given["cell_steps"])
        names, value = half_curve(Ref("cell", I16), mult, shift, True, "c_")
        raw = scaled_product(value, Ref("gate_o", I16), given["result"])
        lo, hi = self.hidden.limits
        body += [
            Let("cell", cast(cell, I16)), Store("state_c", (j.expr,), Ref("cell", I16)), *names,
            Store("state_h", (j.expr,), saturate(raw, int(given["zp"]), lo, hi, str(self.hidden))),
        ]  # fmt: skip
        return loop(j, self.units, *body)


def held(value: ValueExpr, lo: int = -32768, hi: int = 32767) -> ValueExpr:
    """``value`` saturated, to i16 if nothing else is said."""
    return op("min", op("max", value, imm(lo)), imm(hi))


def scaled_product(a: ValueExpr, b: ValueExpr, by: Any) -> ValueExpr:
    """a * b of i16, times a ratio below 1 as a multiplier and a shift."""
    return multiply_quantized_const(op("mul", cast(a, I32), cast(b, I32)), int(by[0]), int(by[1]), _PRODUCT_BITS)


def _loops(name: str, types: Types, outs: Types, given: Mapping[str, Any]) -> Loops:
    """Each of the batch { states = initial; steps { gates; states = step(states); o = h }; last states }."""
    x, start, h = types[0], types[2], types[5]
    units = int(types[1].shape[1])  # type: ignore[arg-type]  # a number by infer
    rows = row_vars(x.shape[1])
    batch, time = variable("b", x.shape[1]), variable("t", x.shape[0])
    params = [param(n, t) for n, t in zip(INPUTS, types, strict=True)]
    params += [param(f"o{k}", t, "write") for k, t in enumerate(outs)]
    step = _Step(units, h.dtype, start.dtype, given)
    space = (
        Alloc(Buffer("gates", I16, (_GATES * units,), "scratch")),
        Alloc(Buffer("state_h", h.dtype, (units,), "scratch")), Alloc(Buffer("state_c", I16, (units,), "scratch")),
    )  # fmt: skip
    b, kinds = batch.expr, {"h": h.dtype, "c": I16}
    first, last, put = variable("i", units), variable("l", units), variable("y", units)
    begin = (Store(f"state_{s}", (first.expr,), Load(s, (b, first.expr), kind)) for s, kind in kinds.items())
    end = (
        Store(f"o{k}", (b, last.expr), Load(f"state_{s}", (last.expr,), kind))
        for k, (s, kind) in enumerate(kinds.items(), start=1)
    )
    show = Store("o0", (time.expr, b, put.expr), Load("state_h", (put.expr,), h.dtype))
    steps = (step.recurrent(time.expr, b), step.update(), loop(put, units, show))
    each = (*space, loop(first, units, *begin), loop(time, x.shape[0], *steps), loop(last, units, *end))
    return function(name, params, [loop(batch, rows.hi.expr, *each, lo=rows.lo.expr)], rows)


def _sample(steps: Dim, batch: Dim, units: int, hidden: DType, **given: Any) -> Any:
    sums = I32 if hidden == I8 else I64
    types = [
        TensorType(I16, (steps, batch, _GATES * units)), TensorType(I8, (_GATES * units, units)),
        TensorType(sums, (_GATES * units,)), TensorType(I32, (_GATES,)), TensorType(I32, (_GATES,)),
        TensorType(hidden, (batch, units)), TensorType(I16, (batch, units)), TensorType(I32, (HALF_ENTRIES,)),
    ]  # fmt: skip
    low, high = (-9, -2) if hidden == I8 else (-18, -10)
    values = {
        2: lambda rng: rng.integers(-3000, 3000, _GATES * units),
        3: lambda rng: rng.integers(1 << 30, (1 << 31) - 1, _GATES),
        4: lambda rng: rng.integers(low, high, _GATES, endpoint=True),
        7: lambda rng: 32768 + np.arange(HALF_ENTRIES) * 127,
    }
    all_of = {
        "forget": (1 << 30, -14), "enter": (1 << 30, -17), "result": (1518500250, -22 if hidden == I8 else -15),
        "zp": 0, "cell_steps": (3, 0), "clip": _NO_CLIP, "shift_lo": low, "shift_hi": high, "acc_bits": 24,
    }  # fmt: skip
    return sample(*types, values=values, **{**all_of, **given})


_T: Dim = Var("t", 1, 5).expr
_B: Dim = Var("b", 1, 3).expr
define(
    OpDef(
        "lstm_scan_q",
        INPUTS,
        _infer,
        _reference,
        _loops,
        samples=(
            _sample(_T, 2, 3, I8, zp=-4),
            _sample(4, _B, 2, I8, clip=20000, cell_steps=(6, 0)),
            _sample(3, 1, 4, I16, cell_steps=(3, 2), zp=3),
        ),
        kind=OPAQUE,
    )
)
