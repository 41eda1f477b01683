"""Element types narrower than any of ours: their values stand in wider types, rounded by conversions to them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from onnx import TensorProto

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32, I32, U32
from sdk.errors import BuildError
from sdk.frontends.onnx.context import OnnxNode
from sdk.frontends.onnx.reader import WIDER_TYPES, element_name

__all__ = ["check_narrow", "narrow_limits", "narrow_result", "rounded"]

_BITS: Final[dict[int, int]] = {TensorProto.INT4: 4, TensorProto.UINT4: 4, TensorProto.INT2: 2, TensorProto.UINT2: 2}
_SIGNED: Final[frozenset[int]] = frozenset({TensorProto.INT4, TensorProto.INT2})


@dataclass(frozen=True)
class _Float:
    """A small float type: significant bits, smallest normal number, step below it, largest number; what a number
    beyond that is multiplied with where it does not saturate."""

    digits: int
    normal: float
    step: float
    largest: float
    beyond: float = math.nan
    saturates: bool = False


_FLOATS: Final[dict[int, _Float]] = {
    TensorProto.FLOAT8E4M3FN: _Float(4, 2.0**-6, 2.0**-9, 448.0),
    TensorProto.FLOAT8E4M3FNUZ: _Float(4, 2.0**-7, 2.0**-10, 240.0),
    TensorProto.FLOAT8E5M2: _Float(3, 2.0**-14, 2.0**-16, 57344.0, math.inf),
    TensorProto.FLOAT8E5M2FNUZ: _Float(3, 2.0**-15, 2.0**-17, 57344.0),
    TensorProto.FLOAT4E2M1: _Float(2, 1.0, 0.5, 6.0, saturates=True),
}
_CONVERSIONS: Final = frozenset({"Cast", "CastLike"})
# What moves elements, or says on its own what they mean.
_MOVES: Final = frozenset(
    {
        "Compress", "Concat", "Constant", "DepthToSpace", "DequantizeLinear", "Expand", "Flatten", "Gather",
        "GatherElements", "GatherND", "Identity", "If", "QuantizeLinear", "Reshape", "ReverseSequence", "Shape", "Size",
        "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
    }
)  # fmt: skip
_TYPE_ATTRIBUTES: Final = ("dtype", "output_dtype")


def check_narrow(node: OnnxNode, codes: Mapping[str, int]) -> None:
    """Refuses nodes that compute in a narrow type other than bfloat16, whose values f32 holds with room to spare.

    Raises:
        BuildError: the node computes in such a type.
    """
    if node.op in _CONVERSIONS | _MOVES:
        return
    found = [codes[v.name] for v in node.inputs if v is not None and v.name in codes]
    found += [node.int(name) for name in _TYPE_ATTRIBUTES if node.int(name, 0) in WIDER_TYPES]
    computed = [code for code in found if code != TensorProto.BFLOAT16]
    if computed:
        raise BuildError(f"{node.op} on elements of type {element_name(computed[0])} is not supported")


def narrow_result(node: OnnxNode, results: tuple[Value | None, ...], codes: dict[str, int]) -> tuple[Value | None, ...]:
    """The results of a node, rounded where it converts to a narrow type; ``codes`` learns of narrow results.

    Raises:
        BuildError: a conversion to that type is not supported.
    """
    given = [codes.get(v.name, 0) if v is not None else 0 for v in node.inputs]
    if node.op in _CONVERSIONS:
        code = node.int("to", 0) if node.op == "Cast" else given[1]
        if code not in WIDER_TYPES or results[0] is None or given[0] == code:
            return results
        found = _whole(node, code) if code in _BITS else rounded(node, results[0], code)
        codes[found.name] = code
        return (found,)
    kept = [code for code in given if code]
    if kept and node.op not in ("DequantizeLinear", "QuantizeLinear", "Shape", "Size"):
        for value in results:
            if value is not None and value.type.dtype == WIDER_TYPES[kept[0]]:
                codes[value.name] = kept[0]
    return results


def _whole(node: OnnxNode, code: int) -> Value:
    """The low bits of a number, fractions cut off."""
    x = node.x(0)
    wide = x if x.type.dtype == I32 else node.call("cast", x, to=str(I32))
    count, half = node.scalar(1 << _BITS[code], I32), node.scalar(1 << (_BITS[code] - 1), I32)
    if code in _SIGNED:
        low = node.call("sub", node.call("mod", node.call("add", wide, half), count), half)
    else:
        low = node.call("mod", wide, count)
    return node.call("cast", low, to=str(WIDER_TYPES[code]))


def narrow_limits(code: int) -> tuple[int, int] | None:
    """The smallest and largest number of a narrow integer type, by ONNX's number of it; None for any other type."""
    bits = _BITS.get(code)
    if bits is None:
        return None
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if code in _SIGNED else (0, (1 << bits) - 1)


def rounded(node: OnnxNode, x: Value, code: int) -> Value:
    """``x``, of type f32, as the nearest numbers of a narrow float type, by ONNX's number of it.

    Raises:
        BuildError: it is no such type.
    """
    if code == TensorProto.BFLOAT16:
        return _significant(node, x, 8)
    if code == TensorProto.FLOAT8E8M0:
        return _power_of_two(node, x)
    if code not in _FLOATS:
        node.fail(f"a conversion to elements of type {element_name(code)} is not supported")
    return _small_float(node, x, _FLOATS[code])


def _significant(node: OnnxNode, x: Value, digits: int) -> Value:
    """The nearest number with so many significant bits, ties to even; NaN and infinities stay."""
    dropped = 24 - digits
    shift = node.scalar(dropped, U32)
    bits = node.call("bitcast", x, to=str(U32))
    odd = node.call("mod", node.call("shift_right", bits, shift), node.scalar(2, U32))
    up = node.call("add", bits, node.call("add", odd, node.scalar((1 << (dropped - 1)) - 1, U32)))
    top = node.call("shift_left", node.call("shift_right", up, shift), shift)
    return node.call("where", node.call("is_nan", x), x, node.call("bitcast", top, to=str(F32)))


def _small_float(node: OnnxNode, x: Value, kind: _Float) -> Value:
    """The nearest number of a small float type; one beyond its largest becomes that, or what the type has for it."""
    magnitude = node.call("abs", x)
    magic = node.scalar(1.5 * 2.0**23 * kind.step, F32)  # its last bit is worth one step
    tiny = node.call("sub", node.call("add", x, magic), magic)
    is_tiny = node.call("less", magnitude, node.scalar(kind.normal, F32))
    near = node.call("where", is_tiny, tiny, _significant(node, x, kind.digits))
    if kind.saturates or node.int("saturate", 1):
        beyond = node.call("mul", node.call("sign", x), node.scalar(kind.largest, F32))
    else:
        beyond = node.call("mul", x, node.scalar(kind.beyond, F32))
    is_beyond = node.call("greater", node.call("abs", near), node.scalar(kind.largest, F32))
    found = node.call("where", is_beyond, beyond, near)
    if kind.saturates:  # this type has no NaN
        return node.call("where", node.call("is_nan", x), node.scalar(0.0, F32), found)
    return found


def _power_of_two(node: OnnxNode, x: Value) -> Value:
    """The exponent alone, of a number without sign, rounded as ``round_mode`` says: 0 counts as 2**-127, what is not
    finite as NaN."""
    mode = node.text("round_mode", "up")
    if mode not in ("up", "down", "nearest"):
        node.fail(f"the round_mode {mode} is not supported")

    def number(value: int) -> Value:
        return node.scalar(value, U32)

    bits = node.call("bitcast", node.call("abs", x), to=str(U32))
    exponent, rest = node.call("shift_right", bits, number(23)), node.call("mod", bits, number(1 << 23))
    if mode != "down":
        # half of the way up: from 0, the even one, nearest goes up only above it
        minimum = number(1) if mode == "up" else number(1 << 22)
        if mode == "nearest":
            minimum = node.call("where", node.call("equal", exponent, number(0)), number((1 << 22) + 1), minimum)
        up = node.call("cast", node.call("greater_equal", rest, minimum), to=str(U32))
        exponent = node.call("add", exponent, up)
        if node.int("saturate", 1):
            exponent = node.call("minimum", exponent, number(254))
    power = node.call("bitcast", node.call("shift_left", exponent, number(23)), to=str(F32))
    power = node.call("where", node.call("equal", exponent, number(0)), node.scalar(2.0**-127, F32), power)
    finite = node.call("less", node.call("abs", x), node.scalar(math.inf, F32))
    held = node.call("and", finite, node.call("less", exponent, number(255)))
    return node.call("where", held, power, node.scalar(math.nan, F32))
