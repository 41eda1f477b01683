"""Recurrences over time: how a scan of one layer in one direction runs a cell (``recurrent_cells.py``).

What the inputs of a step give to the gates is computed before, for all steps at once (``x``, biases included); a
scan adds what the state before gives, ``h @ r``. A sequence of length ``lengths[b]`` leaves the steps after it 0, and
in reverse runs from its own last step; longer ones count as the whole of ``x``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import idx, op
from sdk.compiler.ir.loops import Alloc, Block, Buffer, If, Let, Load, Loops, Ref, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import I32, DType, TensorType
from sdk.compiler.ops.build import Nest, function, loop, param, row_vars, variable
from sdk.compiler.ops.gate_functions import ACTIVATIONS, activate, limited
from sdk.compiler.ops.numerics import number
from sdk.compiler.ops.positions import known, unproved
from sdk.compiler.ops.registry import OpDef, Sample, define
from sdk.compiler.ops.shapes import require_equal
from sdk.compiler.ops.traits import OPAQUE
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

Array = NDArray[Any]
Types = Sequence[TensorType]
# --- the scan -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One kind of step: how many gates it has, its states (the first is its output), the name of one more input of
    ``extra_shape`` and the units. ``step(x, r, states, extra, activations, clip)`` gives the new states in numpy,
    ``build(place)`` the statements that compute them."""

    name: str
    gates: int
    states: tuple[str, ...]
    extra: str
    extra_shape: tuple[int, ...]
    step: Callable[..., tuple[Array, ...]]
    build: Callable[..., list[Stmt]]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the op's inputs."""
        return ("x", "r", *self.states, *((self.extra,) if self.extra else ()), "lengths")


def _infer(cell: Cell) -> Callable[..., tuple[TensorType, ...]]:
    def infer(*types: TensorType, activations: Any, reverse: bool, clip: float, **more: Any) -> tuple[TensorType, ...]:
        x, r, h = types[:3]
        lengths = types[-1]
        if x.rank != 3 or r.rank != 2 or h.rank != 2 or lengths.rank != 1 or lengths.dtype != I32:
            raise BuildError(f"{cell.name} wants x[t, b, gates], r[h, gates], states [b, h] and i32 lengths[b]")
        if not x.dtype.is_float or x.dtype.bits < 32 or any(t.dtype != x.dtype for t in types[:-1]):
            raise BuildError(f"{cell.name} wants tensors of f32 or f64, got {x.dtype}")
        unknown = [name for name, _, _ in activations if name not in ACTIVATIONS]
        if unknown:
            raise BuildError(f"{cell.name} has no activation {unknown[0]}", hint=f"one of {', '.join(ACTIVATIONS)}")
        units = r.shape[0]
        if not isinstance(units, int):
            raise BuildError(f"the number of units {units} of {cell.name} must be known")
        if cell.extra and types[-2].shape != (*cell.extra_shape, units):
            raise BuildError(f"{cell.name} wants {cell.extra} of shape {(*cell.extra_shape, units)}")
        for what, a, b in (
            ("gates", x.shape[2], cell.gates * units),
            ("columns of r", r.shape[1], cell.gates * units),
            ("units of the state", h.shape[1], units),
            ("batch of the state", h.shape[0], x.shape[1]),
            ("lengths", lengths.shape[0], x.shape[1]),
        ):
            require_equal(f"{what} of {cell.name}", a, b)
        return (TensorType(x.dtype, (x.shape[0], x.shape[1], units)), *(types[2 : 2 + len(cell.states)]))

    return infer


def _reference(cell: Cell) -> Callable[..., tuple[Array, ...]]:
    def run(*arrays: Array, activations: Any, reverse: bool, clip: float, **more: Any) -> tuple[Array, ...]:
        x, r = arrays[:2]
        count = len(cell.states)
        states = [s.copy() for s in arrays[2 : 2 + count]]
        extra, lengths = arrays[2 + count : -1], arrays[-1]
        out = np.zeros((*x.shape[:2], r.shape[0]), x.dtype)
        for b in range(x.shape[1]):
            now = [s[b] for s in states]
            length = min(int(lengths[b]), x.shape[0])
            for s in range(length):
                at = length - 1 - s if reverse else s
                now = list(cell.step(x[at, b], r, now, extra, activations, clip, **more))
                out[at, b] = now[0]
            for state, value in zip(states, now, strict=True):
                state[b] = value
        return (out, *states)

    return run


def clipped(x: Array, clip: float) -> Array:
    """Held to ``-clip..clip`` where ``clip`` is not 0."""
    return np.clip(x, -clip, clip) if clip > 0 else x


def _clip(x: ValueExpr, clip: float) -> ValueExpr:
    return limited(x, -clip, clip) if clip > 0 else x


@dataclass(frozen=True)
class Place:
    """What the code of one step refers to: the element of the batch, the number of units, the types."""

    batch: Dim
    at: Dim
    units: int
    kind: DType
    given: Mapping[str, Any]

    def activate(self, which: int, value: ValueExpr) -> ValueExpr:
        """The layer's activation of that number, applied."""
        return activate(self.given["activations"][which], value)

    def clip(self, value: ValueExpr) -> ValueExpr:
        """A sum held to the layer's limits."""
        return _clip(value, float(self.given["clip"]))

    def load(self, buffer: str, *index: Dim) -> Load:
        """An element of a buffer of the layer's type."""
        return Load(buffer, index, self.kind)

    def products(self, source: str, first: int, count: int, tag: str) -> Stmt:
        """sums[first + q] += source[k] * r[k, first + q], the columns of r inside."""
        k, q = variable(f"k{tag}", self.units), variable(f"q{tag}", count)
        at = q.expr + first
        name = f"factor{tag}"
        term = op("mul", Ref(name, self.kind), self.load("r", k.expr, at))
        step = Store("sums", (at,), op("add", self.load("sums", at), term))
        return loop(k, self.units, Let(name, self.load(source, k.expr)), loop(q, count, step))

    def start(self, first: int, count: int, tag: str) -> Stmt:
        """sums[first + q] = x[at, b, first + q]."""
        q = variable(f"s{tag}", count)
        at = q.expr + first
        return loop(q, count, Store("sums", (at,), self.load("x", self.at, self.batch, at)))


def _loops(cell: Cell) -> Callable[[str, Types, Types, Mapping[str, Any]], Loops]:
    def build(name: str, types: Types, outs: Types, given: Mapping[str, Any]) -> Loops:
        """Each of the batch { states = initial; steps { states = step(states); o = state }; last states }."""
        x, units = types[0], int(types[1].shape[0])  # type: ignore[arg-type]  # a number by infer
        rows = row_vars(x.shape[1])
        batch, time, kind = variable("b", x.shape[1]), variable("t", x.shape[0]), x.dtype
        names = [f"state_{s}" for s in cell.states]
        params = [param(n, t) for n, t in zip(cell.inputs, types, strict=True)]
        params += [param(f"o{k}", t, "write") for k, t in enumerate(outs)]
        sizes = {"sums": cell.gates * units, "work": units, **dict.fromkeys(names, units)}
        space = [Alloc(Buffer(n, kind, (size,), "scratch")) for n, size in sizes.items()]
        first, last = variable("i", units), variable("l", units)
        b = batch.expr
        pairs = list(zip(names, cell.states, strict=True))
        begin = loop(first, units, *(Store(n, (first.expr,), Load(s, (b, first.expr), kind)) for n, s in pairs))
        last_states = (Store(f"o{k + 1}", (b, last.expr), Load(n, (last.expr,), kind)) for k, n in enumerate(names))
        end = loop(last, units, *last_states)
        length = Var("length", *I32.limits).expr
        around = Nest(rows, (), ((batch, rows.lo.expr, rows.hi.expr), (time, 0, x.shape[0])))
        at = length - 1 - time.expr if given["reverse"] else time.expr
        place = Place(b, at, units, kind, given)
        step = _within(place, time.expr, length, x.shape[0], known(around), cell.build(place))
        limit = op("min", Load("lengths", (b,), I32), idx(x.shape[0]))
        each: tuple[Stmt, ...] = (*space, Let("length", limit), begin, loop(time, x.shape[0], *step), end)
        return function(name, params, [loop(batch, rows.hi.expr, *each, lo=rows.lo.expr)], rows)

    return build


def _within(place: Place, step: Dim, length: Dim, extent: Dim, conditions: Any, body: Sequence[Stmt]) -> list[Stmt]:
    """The body where the step lies in the sequence; after it the output is 0."""
    q, c = variable("y", place.units), variable("z", place.units)
    put = loop(q, place.units, Store("o0", (place.at, place.batch, q.expr), place.load("state_h", q.expr)))
    cond: ValueExpr = op("lt", idx(step), idx(length))
    inside = unproved([(place.at, extent)], conditions)
    run = Block((*body, put))
    after = loop(c, place.units, Store("o0", (step, place.batch, c.expr), number(0, place.kind)))
    whole: Stmt = run if inside is None else If(inside, run)
    return [If(cond, Block((whole,)), Block((after,)))]


def define_cell(cell: Cell, samples: Sequence[Sample]) -> None:
    """Registers the scan of a cell."""
    define(
        OpDef(
            cell.name, cell.inputs, _infer(cell), _reference(cell), _loops(cell), tuple(samples), kind=OPAQUE
        )
    )
