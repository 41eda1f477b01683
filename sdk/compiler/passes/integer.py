"""Reals between ``dequantize`` and ``quantize`` become integer arithmetic: sums of products, then a requantisation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr, Call, Graph, Node, Value
from sdk.compiler.ir.module import Const, Module
from sdk.compiler.ir.types import I8, I16, I32, I64, U8, DType, TensorType, dtype
from sdk.compiler.ops.fixed import quantize_multiplier
from sdk.compiler.ops.multipliers import Multipliers, channel_multipliers
from sdk.compiler.ops.registry import get_op, kind_of, sum_of_products
from sdk.compiler.ops.traits import Combine, Elementwise, Reduction, SumOfProducts
from sdk.compiler.passes.edit import GraphEdit
from sdk.compiler.passes.stored import Stored, Tracer, selects
from sdk.compiler.sym import product
from sdk.errors import BuildError

__all__ = ["Integer"]

Array = NDArray[Any]
TABLE_DEPTH: Final = 24


@dataclass(frozen=True)
class Integer:
    """Each ``quantize`` whose argument is computed from dequantised tensors by ops that have an integer kernel is
    computed by these. Sums are exact, and rounded once; multipliers have 31 bits.

    u8 tensors are computed on as i8, 128 lower. What has no integer kernel stays as it is, on reals.
    """

    name = "integer"

    def run(self, module: Module) -> Module:
        """The module with integer kernels."""
        consts: dict[str, Const] = {}
        graphs: dict[str, Graph] = {}
        for name, graph in module.graphs.items():
            found = any(isinstance(n, Call) and n.kind == "op" and n.callee == "quantize" for n in graph.body)
            graphs[name] = _Rewriter.of(module, graph, consts) if found else graph
        if all(graphs[name] is g for name, g in module.graphs.items()):
            return module
        for graph in graphs.values():
            module = module.with_graph(graph)
        return module.with_consts(*consts.values())


@dataclass(frozen=True, slots=True)
class _Target:
    """What a real value is to be stored as: scale, zero point, the limits it is clamped to, the type."""

    scale: float
    zero: int
    lo: int
    hi: int
    kind: DType

    def clamped(self, lo: float, hi: float) -> _Target:
        """Clamped to reals besides."""
        low = max(self.lo, self._step(lo))
        return _Target(self.scale, self.zero, low, max(min(self.hi, self._step(hi)), low), self.kind)

    def _step(self, real: float) -> int:
        exact = min(max(real / self.scale, -(2.0**20)), 2.0**20) + self.zero
        return min(max(round(exact), self.kind.limits[0]), self.kind.limits[1])

    @property
    def whole(self) -> bool:
        """Whether nothing is clamped but by the type."""
        return (self.lo, self.hi) == self.kind.limits

    @property
    def given(self) -> dict[str, Attr]:
        """The attributes that all ops which store have."""
        return {"out": str(self.kind), "zp": self.zero, "lo": self.lo, "hi": self.hi}


@dataclass
class _Rewriter:
    edit: GraphEdit
    trace: Tracer
    done: dict[tuple[str, _Target], Value] = field(default_factory=dict)

    @classmethod
    def of(cls, module: Module, graph: Graph, consts: dict[str, Const]) -> Graph:
        """The graph rewritten."""
        edit = GraphEdit(module, graph, consts)
        rewriter = cls(edit, Tracer(edit))
        return edit.run(lambda _, node: rewriter.rule(node))

    def rule(self, node: Node) -> bool:
        if not isinstance(node, Call) or node.kind != "op":
            return False
        if node.callee == "dequantize":
            return self._leaf(node)
        return self._quantize(node) if node.callee == "quantize" else False

    def _leaf(self, node: Call) -> bool:
        """A u8 tensor that was computed as i8 is read as that."""
        shadow = self.trace.shadow.get(node.args[0].name)
        zero = self.edit.number(node.args[2])
        if shadow is None or zero is None or node.args[0].const:
            return False
        at = self.edit.const(f"{node.args[2].name}_i8", np.asarray(zero - 128, np.int8), None, TensorType(I8, ()))
        self.edit.into(node, "dequantize", (shadow, node.args[1], at))
        return True

    def _quantize(self, node: Call) -> bool:
        x, scale, zero = node.args
        s, z = self.edit.number(scale), self.edit.number(zero)
        kind: Any = node.attr("out")
        out = dtype(kind)
        if s is None or z is None or out not in (I8, U8, I16):
            return False
        target = _Target(s, int(z), *out.limits, out)
        if out == U8:
            target = _Target(s, int(z) - 128, *I8.limits, I8)
        value = self.produce(x, target)
        if value is None:
            return False
        if out == U8:
            given: dict[str, Attr] = {"in_zp": 0, "mult": 1 << 30, "shift": 1, "zp": 128, "lo": 0, "hi": 255}
            self.edit.into(node, "rescale", (value,), out="u8", **given)
            self.trace.shadow[node.out.name] = value
        elif node.out.name in self.edit.results:
            self.edit.into(node, "reshape", (value,), shape=node.out.type.shape)
        else:
            self.edit.replace(node.out, value)
        return True

    # --- real values as integers -------------------------------------------------------------------------------------

    def produce(self, value: Value, target: _Target) -> Value | None:
        """The integers that ``value`` is stored as; None where some op on the way has no integer kernel."""
        if value.const:
            return None
        key = (value.name, target)
        if key not in self.done:
            found = self._made(value, target)
            if found is None:
                return None
            self.done[key] = found
        return self.done[key]

    def _made(self, value: Value, target: _Target) -> Value | None:
        stored = self.trace.stored(value)
        if stored is not None:
            return self._rescaled(stored, target, value)
        node = self.edit.made_by(value)
        if node is None or len(node.outs) > 1:
            return None
        if node.callee == "relu":
            return self.produce(node.args[0], target.clamped(0.0, math.inf))
        if node.callee == "clip":
            lo, hi = (float(dict(node.attrs)[k]) for k in ("lo", "hi"))  # type: ignore[arg-type]  # numbers
            found = self.produce(node.args[0], target.clamped(lo, hi))
            if found is not None:
                return found
        rule = _rule_of(node)
        found = rule(self, node, target) if rule is not None else None
        return found if found is not None else self._table(node, target)

    def _rescaled(self, stored: Stored, target: _Target, value: Value) -> Value | None:
        kind = stored.value.type.dtype
        if stored.same_as(target.scale, target.zero) and target.whole and kind == target.kind:
            return stored.value
        if kind == target.kind == I8:
            return self._table(self._like(value), target)
        try:
            mult, shift = quantize_multiplier(stored.scale / target.scale)
        except BuildError:
            return None
        if stored.same_as(target.scale, stored.zero):
            mult, shift = 1 << 30, 1
        if kind.bits + 1 + max(shift, 0) > 31:
            return None
        like = self._like(value)
        given = {"in_zp": stored.zero, "mult": mult, "shift": shift}
        return self.edit.call("rescale", (stored.value,), like, f"{value.name}_q", **given, **target.given)

    def _like(self, value: Value) -> Call:
        node = self.edit.made_by(value)
        assert node is not None
        return node

    def move(self, node: Call, target: _Target) -> Value | None:
        """An op that selects elements: it selects among the integers."""
        sources = get_op(node.callee).sources(node.args)
        parts = [self.produce(v, target) for v in sources]
        args = tuple(p for p in parts if p is not None)
        if len(args) < len(parts):
            return None
        given = self.trace.filling(node, target.scale, target.zero, args[0].type)
        if given is None:
            return None
        args = (*args, *node.args[len(args) :])
        return self.edit.call(node.callee, args, node, f"{node.out.name}_q", **given)

    # --- sums of products --------------------------------------------------------------------------------------------

    def window(self, node: Call, target: _Target) -> Value | None:
        """A convolution."""
        x, bias = self.trace.stored(node.args[0]), self.trace.reals(node.args[2])
        found = self.trace.constant(node.args[1])
        if x is None or bias is None or found is None:
            return None
        given = {**dict(node.attrs), "x_offset": -x.zero, "pad_value": x.zero}
        return self._sum(node, node.callee, x, found, bias, given, target)

    def matrix(self, node: Call, target: _Target) -> Value | None:
        """A matrix product with constant weights, perhaps with a bias added."""
        bias, product_ = None, node
        if node.callee == "add":
            for k in (0, 1):
                inner = self.edit.made_by(node.args[k], "matmul")
                reals = self.trace.reals(node.args[1 - k])
                if inner is not None and reals is not None and reals.size in (1, *reals.shape[-1:]):
                    bias, product_ = reals, inner
                    break
            else:
                return self.sum(node, target)
        flags = dict(product_.attrs)
        x, found = self.trace.stored(product_.args[0]), self.trace.constant(product_.args[1])
        if x is None or found is None or found[0].ndim != 2 or flags.get("trans_a"):
            return None
        if not flags.get("trans_b"):
            found = (found[0].T, found[1].T)
        outputs = found[0].shape[0]
        shift = np.broadcast_to(np.zeros(1) if bias is None else bias.reshape(-1), outputs)
        given: dict[str, Attr] = {"x_offset": -x.zero, "w_offset": 0}
        return self._sum(node, "dense", x, found, shift, given, target)

    def _sum(
        self, node: Call, op: str, x: Stored, weights: tuple[Array, Array], bias: Array, given: dict[str, Attr],
        target: _Target,
    ) -> Value | None:  # fmt: skip
        """Emits the sum of products and its requantisation; None where 32 bits do not hold the sum."""
        axis = sum_of_products(op).output_axis(given)
        exact = np.moveaxis(weights[0], axis, 0).reshape(weights[0].shape[axis], -1)
        scales = np.moveaxis(weights[1], axis, 0).reshape(exact.shape)
        per_channel = scales[:, 0]
        if not np.array_equal(scales, np.broadcast_to(per_channel[:, None], scales.shape)):
            return None
        wide = x.value.type.dtype == I16
        steps = np.rint(bias.astype(np.float64) / (per_channel * x.scale))
        lo, hi = x.value.type.dtype.limits
        maximum = max(abs(lo - x.zero), abs(hi - x.zero))
        bounds = np.abs(exact).sum(axis=1) * maximum + np.abs(steps)
        small = exact.min(initial=0) >= -128 and exact.max(initial=0) <= 127
        if bounds.max(initial=0) >= (1 << 47 if wide else I32.limits[1]) or (wide and x.zero):
            return None
        try:
            ratios = per_channel * x.scale / target.scale
            m = channel_multipliers(ratios, bounds.astype(np.int64).astype(object), wide)
        except BuildError:
            return None
        stem, kind = node.out.name, I64 if wide else I32
        w = self._const(f"{stem}_w", weights[0], I8 if small else I16)
        b = self._const(f"{stem}_b", steps.astype(np.int64), kind)
        acc = self.edit.call(op, (x.value, w, b), node, f"{stem}_sum", **given)
        exact_ratios = [_rational(s) * _rational(x.scale) / _rational(target.scale) for s in set(per_channel.tolist())]
        return self._requantized(node, acc, m, exact_ratios, target)

    def _const(self, stem: str, data: Array, kind: DType) -> Value:
        return self.edit.const(stem, np.ascontiguousarray(data.astype(kind.numpy)), None, TensorType(kind, data.shape))

    def _requantized(
        self, node: Call, acc: Value, m: Multipliers, ratios: Sequence[Fraction], target: _Target
    ) -> Value:
        stem, mult, shift, bits = node.out.name, m.mult, m.shift, m.acc_bits
        given: dict[str, Attr] = {"shift_lo": int(shift.min()), "shift_hi": int(shift.max()), "acc_bits": bits}
        if acc.type.dtype == I32:
            given |= _rounding(shift, ratios, bits - max(int(shift.max()), 0), target.zero)
        if (mult == mult[0]).all() and (shift == shift[0]).all():
            mult, shift = mult[:1], shift[:1]
        args = (acc, self._const(f"{stem}_mult", mult, I32), self._const(f"{stem}_shift", shift, I32))
        return self.edit.call("requantize", args, node, f"{stem}_q", **given, **target.given)

    def mean(self, node: Call, target: _Target) -> Value | None:
        """A mean over axes, or over windows that all count the same taps: a sum, then one scale."""
        x, kind = self.trace.stored(node.args[0]), kind_of(node)
        if x is None:
            return None
        given: dict[str, Any] = dict(node.attrs)
        if not (isinstance(kind, Reduction) and kind.windowed):
            return self._mean_over(node, x, given["axes"], target)
        kernel, shape = given["kernel"], x.value.type.shape
        padded = any(given["pad"])
        if not padded and tuple(kernel) == shape[1:-1]:
            return self._mean_over(node, x, tuple(range(1, len(shape) - 1)), target)
        channels = shape[-1]
        counted = not padded or given.get("include_pad", False)
        if len(kernel) != 2 or given.get("ceil", False) or not counted or not isinstance(channels, int):
            return None
        ones = np.ones((*kernel, channels), np.int64)
        scale = np.full(ones.shape, 1.0 / math.prod(kernel))
        window = {"stride": given["stride"], "dilation": given.get("dilation") or (1, 1), "pad": given["pad"]}
        window |= {"multiplier": 1, "x_offset": -x.zero, "pad_value": x.zero}
        return self._sum(node, "depthwise_conv2d", x, (ones, scale), np.zeros(channels), window, target)

    def _mean_over(self, node: Call, x: Stored, axes: tuple[int, ...], target: _Target) -> Value | None:
        count = product(tuple(x.value.type.shape[k] for k in axes))
        lo, hi = x.value.type.dtype.limits
        maximum = max(abs(lo - x.zero), abs(hi - x.zero))
        if not isinstance(count, int) or count * maximum >= I32.limits[1]:
            return None
        ratio = np.asarray([x.scale / (target.scale * count)])
        try:
            m = channel_multipliers(ratio, np.asarray([count * maximum], dtype=object), wide=False)
        except BuildError:
            return None
        total = self.edit.call("reduce_sum", (x.value,), node, f"{node.out.name}_sum", axes=axes, x_offset=-x.zero)
        exact_ratio = _rational(x.scale) / (_rational(target.scale) * count)
        return self._requantized(node, total, m, [exact_ratio], target)

    # --- two operands ------------------------------------------------------------------------------------------------

    def _pair(self, node: Call, target: _Target) -> tuple[Stored, Stored] | None:
        found = [self._operand(v) for v in node.args]
        a, b = found
        if a is None or b is None or not a.value.type.dtype == b.value.type.dtype == target.kind:
            return None
        return a, b

    def _operand(self, value: Value) -> Stored | None:
        found = self.trace.stored(value)
        data = self.edit.data(value)
        if found is not None or data is None or data.size == 0:
            return found
        maximum = float(np.abs(data).max())  # a constant of reals: 8 bits of it, symmetric
        scale = maximum / 127 if maximum > 0 else 1.0
        exact = data / scale
        if np.abs(exact - np.rint(exact)).max() > 1e-3:
            return None
        return Stored(self._const(f"{value.name}_q", np.rint(exact), I8), scale, 0)

    def sum(self, node: Call, target: _Target) -> Value | None:
        """A sum or difference of two tensors."""
        pair = self._pair(node, target)
        if pair is None:
            return None
        a, b = pair
        reals = a.scale / target.scale, b.scale / target.scale
        left = 15 if target.kind == I16 else 22  # bits that a difference leaves free
        exponent = max(math.frexp(r)[1] for r in reals)
        right = left - 1 - exponent
        if not 1 <= right <= 30:
            return None
        mults = [min(round(math.ldexp(r, 31 - exponent)), I32.limits[1]) for r in reals]
        sign = -1 if node.callee == "sub" else 1
        given: dict[str, Attr] = {
            "a_offset": -a.zero, "a_mult": mults[0], "b_offset": -b.zero, "b_mult": sign * mults[1], "left": left,
            "right": right,
        }  # fmt: skip
        return self.edit.call("weighted_sum", (a.value, b.value), node, f"{node.out.name}_q", **given, **target.given)

    def product(self, node: Call, target: _Target) -> Value | None:
        """A product of two tensors."""
        pair = self._pair(node, target)
        if pair is None or pair[0].value == pair[1].value:
            return None
        a, b = pair
        ratio = a.scale * b.scale / target.scale
        if ratio >= 1 << 12:
            return None
        mult, shift = quantize_multiplier(ratio)
        left = 14 if a.value.type.dtype.bits == 8 else 0  # all that an i32 holds beside the product
        given: dict[str, Attr] = {
            "a_offset": -a.zero, "b_offset": -b.zero, "mult": mult, "shift": shift - left, "left_shift": left,
        }  # fmt: skip
        return self.edit.call("mul_q", (a.value, b.value), node, f"{node.out.name}_q", **given, **target.given)

    # --- any function of one byte ------------------------------------------------------------------------------------

    def _table(self, node: Call, target: _Target) -> Value | None:
        """Elementwise functions of one i8 tensor: a table of what they give for each of its 256 values."""
        if target.kind != I8:
            return None
        leaves: dict[str, Stored] = {}
        evaluate = self._function(node.out, leaves, TABLE_DEPTH)
        if evaluate is None or len(leaves) != 1:
            return None
        (leaf,) = leaves.values()
        if leaf.value.type.dtype != I8 or leaf.value.type.shape != node.out.type.shape:
            return None
        steps = np.arange(-128, 128)
        reals = (steps - leaf.zero) * np.float64(leaf.scale)
        with np.errstate(all="ignore"):
            found = np.rint(evaluate(reals).astype(np.float64) / target.scale) + target.zero
        entries = np.clip(np.nan_to_num(found), target.lo, target.hi)
        table = self._const(f"{node.out.name}_table", entries, I8)
        return self.edit.call("lookup", (leaf.value, table), node, f"{node.out.name}_q")

    def _function(self, value: Value, leaves: dict[str, Stored], depth: int) -> Callable[[Array], Array] | None:
        """``value`` as a function of the reals of the one stored tensor it is computed from."""
        number = self.edit.number(value) if value.const else None
        if number is not None:
            fixed = np.asarray(number, dtype=value.type.dtype.numpy)
            return lambda _: fixed
        stored = self.trace.stored(value)
        if stored is not None:
            leaves[stored.value.name] = stored
            return lambda reals: reals
        node = self.edit.made_by(value)
        if node is None or depth == 0 or not isinstance(kind_of(node), Elementwise) or not node.out.type.dtype.is_float:
            return None
        parts = [self._function(v, leaves, depth - 1) for v in node.args]
        if any(p is None for p in parts) or len(leaves) > 1:
            return None
        reference, given = get_op(node.callee).reference, dict(node.attrs)
        return lambda reals: np.asarray(reference(*(p(reals) for p in parts if p is not None), **given))


def _rounding(shift: Array, ratios: Sequence[Fraction], bits: int, zero: int) -> dict[str, Attr]:
    """How to round sums below 2**bits, scaled by ``ratios``, as floats would be (``requantize``): once where none ends
    at a half, else halves to even; as TensorFlow Lite does it where the sums leave no bits free for that."""
    low, high = int(shift.min()), int(shift.max())
    spare = max(high + 2, 1)
    tail = abs(2 * zero + 1) << max(spare - 2 - low, 0)  # what joins the high word
    # n * p / q is a half where 2n is an odd number of times q
    halves = any(r.denominator % 2 == 0 and r.denominator // 2 < 1 << bits for r in ratios)
    if not halves and bits + spare <= 31 and tail <= 1 << 30:
        return {"spare": spare, "halves": "up", "acc_bits": bits + spare}
    free = min(30 - bits, 30 + low)
    return {"spare": free, "acc_bits": bits + free} if free > max(high, 0) else {}


def _rational(scale: float) -> Fraction:
    """A scale as it was meant: 1/9 and not the double next to it."""
    simple = Fraction(scale).limit_denominator(1 << 20)
    return simple if float(simple) == scale else Fraction(scale)


_Rule = Callable[[_Rewriter, Call, _Target], Value | None]
_RULES: Final[dict[str, _Rule]] = {
    **dict.fromkeys(("matmul", "add"), _Rewriter.matrix),
    "sub": _Rewriter.sum,
    "mul": _Rewriter.product,
}


def _rule_of(node: Call) -> _Rule | None:
    """How the op is computed on integers, but for what a table computes."""
    if selects(node):
        return _Rewriter.move
    match kind_of(node):
        case SumOfProducts(window=True, partial=False):
            return _Rewriter.window
        case Reduction(combine=Combine.MEAN):
            return _Rewriter.mean
        case _:
            return _RULES.get(node.callee)
