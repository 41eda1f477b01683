"""Real values traced back to the integers they stand for, through ops that only move or choose elements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr, Call, Value
from sdk.compiler.ir.types import I8, I16, U8, TensorType
from sdk.compiler.ops.registry import get_op
from sdk.compiler.passes.edit import GraphEdit

__all__ = ["MOVES", "Stored", "Tracer"]

Array = NDArray[Any]
# ops of one tensor whose results are elements of it; other arguments are positions
MOVES: Final = frozenset(
    ("transpose", "reshape", "slice", "gather", "resize_nearest", "broadcast_to", "max_pool2d", "max_pool3d",
     "reduce_max", "reduce_min", "depth_to_space", "space_to_depth")
)  # fmt: skip


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
        if node.callee == "pad":
            inner = self.stored(node.args[0])
            given = self.padding(node, inner.scale, inner.zero, inner.value.type) if inner else None
            return self._moved(node, inner, given) if inner is not None and given is not None else None
        if node.callee == "concat":
            parts = [self.stored(v) for v in node.args]
            first = parts[0]
            if first is None or any(p is None or not p.same_as(first.scale, first.zero) for p in parts):
                return None
            args = tuple(p.value for p in parts if p is not None)
            if len({v.type.dtype for v in args}) > 1:
                return None
            joined = self.edit.call("concat", args, node, f"{node.out.name}_q", **dict(node.attrs))
            return Stored(joined, first.scale, first.zero)
        if node.callee not in MOVES:
            return None
        inner = self.stored(node.args[0])
        return self._moved(node, inner, dict(node.attrs)) if inner is not None else None

    def _moved(self, node: Call, inner: Stored, given: Mapping[str, Attr]) -> Stored:
        args = (inner.value, *node.args[1:])
        out = self.edit.call(node.callee, args, node, f"{node.out.name}_q", **given)
        return Stored(out, inner.scale, inner.zero)

    def padding(self, node: Call, scale: float, zero: int, type: TensorType) -> dict[str, Attr] | None:
        """The attributes of a ``pad`` of the integers; None where its value is none of them."""
        given = dict(node.attrs)
        real: Any = given["value"]
        if given.get("mode", "constant") == "constant":
            exact = real / scale + zero
            lo, hi = type.dtype.limits
            if abs(exact - round(exact)) > 1e-4 or not lo <= round(exact) <= hi:
                return None
            given["value"] = round(exact)
        else:
            given["value"] = 0
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
        if node.callee not in ("transpose", "reshape"):
            return None
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
