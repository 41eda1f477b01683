"""Real values traced back to the integers they stand for, through ops that only move or choose elements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr, Call, Value, attr_symbols
from sdk.compiler.ir.types import I8, I16, U8, TensorType
from sdk.compiler.ops.registry import get_op, kind_of
from sdk.compiler.ops.traits import Movement, Reduction
from sdk.compiler.passes.edit import GraphEdit

__all__ = ["Stored", "Tracer", "selects"]

Array = NDArray[Any]


def selects(node: Call) -> bool:
    """Whether the results of a call are elements of what it reads, or of one value besides: then it does to the
    integers that stand for reals what it does to these."""
    match kind_of(node):
        case Movement():
            return True
        case Reduction(combine=combine):
            return combine.chooses
        case _:
            return False


@dataclass(frozen=True, slots=True)
class Stored:
    """Integers (i8 or i16) and what they mean: ``real = scale * (value - zero)``."""

    value: Value
    scale: float
    zero: int

    def same_as(self, scale: float, zero: int) -> bool:
        """Whether the integers mean the same with these parameters."""
        return bool(np.isclose(self.scale, scale, rtol=1e-6, atol=0.0)) and self.zero == zero


@dataclass
class Tracer:
    """Traces values of the graph that ``edit`` rebuilds. ``shadow`` gives for a u8 value the i8 one, 128 lower."""

    edit: GraphEdit
    shadow: dict[str, Value] = field(default_factory=dict)
    _seen: dict[str, Stored | None] = field(default_factory=dict)

    def stored(self, value: Value) -> Stored | None:
        """The integers that ``value`` stands for; moves of them are emitted where it is a move."""
        if value.const:
            return None
        if value.name not in self._seen:
            node = self.edit.made_by(value)
            self._seen[value.name] = self._trace(node) if node is not None else None
        return self._seen[value.name]

    def _trace(self, node: Call) -> Stored | None:
        if node.callee == "dequantize":
            return self._leaf(node)
        if not selects(node):
            return None
        sources = get_op(node.callee).sources(node.args)
        parts = [self.stored(v) for v in sources]
        first = parts[0]
        if first is None or any(p is None or not p.same_as(first.scale, first.zero) for p in parts):
            return None
        args = tuple(p.value for p in parts if p is not None)
        given = self.filling(node, first.scale, first.zero, args[0].type)
        if given is None or len({v.type.dtype for v in args}) > 1:
            return None
        args = (*args, *node.args[len(args) :])
        out = self.edit.call(node.callee, args, node, f"{node.out.name}_q", **given)
        return Stored(out, first.scale, first.zero)

    def filling(self, node: Call, scale: float, zero: int, type: TensorType) -> dict[str, Attr] | None:
        """The attributes of a call that selects among the integers; None where the value that it fills its result with
        is none of them."""
        kind, given = kind_of(node), dict(node.attrs)
        if not isinstance(kind, Movement) or not kind.fill:
            return given
        real: Any = given[kind.fill]
        exact = real / scale + zero if given.get("mode", "constant") == "constant" else 0.0  # else nothing is filled
        lo, hi = type.dtype.limits
        if not lo - 0.5 < exact < hi + 0.5 or abs(exact - round(exact)) > 1e-4:
            return None
        given[kind.fill] = round(exact)
        return given

    def _leaf(self, node: Call) -> Stored | None:
        x, scale, zero = node.args
        s, z = self.edit.number(scale), self.edit.number(zero)
        if s is None or z is None or x.type.dtype not in (I8, U8, I16):
            return None
        if x.type.dtype != U8:
            return Stored(x, s, int(z))
        return Stored(self.lowered(x, node), s, int(z) - 128)

    def lowered(self, x: Value, like: Call) -> Value:
        """The u8 value ``x`` less 128, as i8."""
        data = self.edit.data(x)
        if data is not None:
            moved = (data.astype(np.int16) - 128).astype(np.int8)
            return self.edit.const(f"{x.name}_i8", moved, None, TensorType(I8, x.type.shape))
        if x.name not in self.shadow:
            given: dict[str, Attr] = {"in_zp": 128, "mult": 1 << 30, "shift": 1, "zp": 0, "lo": -128, "hi": 127}
            self.shadow[x.name] = self.edit.call("rescale", (x,), like, f"{x.name}_i8", out="i8", **given)
        return self.shadow[x.name]

    # --- constants ---------------------------------------------------------------------------------------------------

    def constant(self, value: Value) -> tuple[Array, Array] | None:
        """Integers of a dequantised constant less their zero points, and the scale of each; moved as the value is."""
        node = self.edit.made_by(value)
        if node is None:
            return None
        if node.callee == "dequantize":
            data, scale, zero = (self.edit.data(v) for v in node.args)
            if data is None or scale is None or zero is None:
                return None
            exact = data.astype(np.int64) - zero.astype(np.int64)
            return exact, np.broadcast_to(scale.astype(np.float64), exact.shape)
        if kind_of(node) != Movement() or len(node.args) > 1 or attr_symbols(node.attrs):
            return None
        if node.out.type.max_bytes > node.args[0].type.max_bytes:
            return None  # repeated as often as a file says
        inner = self.constant(node.args[0])
        if inner is None:
            return None
        move = get_op(node.callee).reference
        return move(inner[0], **dict(node.attrs)), move(np.ascontiguousarray(inner[1]), **dict(node.attrs))

    def reals(self, value: Value) -> Array | None:
        """The elements of a constant, dequantised where it is stored as integers."""
        found = self.edit.data(value)
        if found is not None:
            return found.astype(np.float64)
        parts = self.constant(value)
        return None if parts is None else parts[0] * parts[1]
