"""Arithmetic, comparisons and choices, element by element, of tensors that broadcast."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import BOOL, F32, F64, I8, I16, I32, I64, U8, DType
from sdk.compiler.ops.shapes import same_extent
from sdk.errors import BuildError
from sdk.frontends.angles import angle
from sdk.frontends.moves import type_text
from sdk.frontends.tflite.context import Importer, OpNode, Table
from sdk.frontends.tflite.operators.real.common import apply

__all__ = ["TABLE"]

_NUMBERS: Final = (F32, I32, I64)
_WHOLE: Final = (I32, I64)
_STORED: Final = (I8, U8, I16)  # what is stored, whatever it stands for


def _pair(node: OpNode, *kinds: DType) -> tuple[Value, Value]:
    a, b = node.input(0, *kinds), node.input(1, *kinds)
    if a.type.dtype != b.type.dtype:
        raise BuildError(f"its inputs are {a.type.dtype} and {b.type.dtype}")
    return a, b


# --- operators that are one of our ops --------------------------------------------------------------------------


def _with_activation(op: str) -> Importer:
    """Two tensors, and an activation after it."""

    def run(node: OpNode) -> None:
        apply(node, op, *_pair(node, *_NUMBERS))

    return run


def _binary(op: str, *kinds: DType) -> Importer:
    def run(node: OpNode) -> None:
        node.call(op, *_pair(node, *kinds))

    return run


def _unary(op: str, *kinds: DType) -> Importer:
    def run(node: OpNode) -> None:
        node.call(op, node.input(0, *kinds))

    return run


# op, and the element types
_BINARY: Final[Mapping[str, tuple[str, tuple[DType, ...]]]] = {
    "MAXIMUM": ("maximum", _NUMBERS),
    "MINIMUM": ("minimum", _NUMBERS),
    "POW": ("pow", (F32, I32)),
    "FLOOR_MOD": ("mod", (*_NUMBERS, I8, I16)),
    "EQUAL": ("equal", (*_NUMBERS, BOOL)),
    "NOT_EQUAL": ("not_equal", (*_NUMBERS, BOOL)),
    "GREATER": ("greater", _NUMBERS),
    "GREATER_EQUAL": ("greater_equal", _NUMBERS),
    "LESS": ("less", _NUMBERS),
    "LESS_EQUAL": ("less_equal", _NUMBERS),
    "LOGICAL_AND": ("and", (BOOL,)),
    "LOGICAL_OR": ("or", (BOOL,)),
    "BITWISE_XOR": ("xor", (*_WHOLE, *_STORED)),
}
_UNARY: Final[Mapping[str, tuple[str, tuple[DType, ...]]]] = {
    "ABS": ("abs", (F32, I32)),
    "NEG": ("neg", _NUMBERS),
    "SIGN": ("sign", (F32, I32)),
    "SQRT": ("sqrt", (F32,)),
    "RSQRT": ("rsqrt", (F32,)),
    "EXP": ("exp", (F32,)),
    "LOG": ("log", (F32,)),
    "SIN": ("sin", (F32,)),
    "COS": ("cos", (F32,)),
    "FLOOR": ("floor", (F32,)),
    "CEIL": ("ceil", (F32,)),
    "ROUND": ("round", (F32,)),
    "LOGICAL_NOT": ("not", (BOOL,)),
}


# --- operators that are several ---------------------------------------------------------------------------------


def square(node: OpNode) -> None:
    """SQUARE."""
    x = node.input(0, F32)
    node.call("mul", x, x)


def squared_difference(node: OpNode) -> None:
    """SQUARED_DIFFERENCE."""
    difference = node.call("sub", *_pair(node, F32, I32), to="difference")
    node.call("mul", difference, difference)


def atan2(node: OpNode) -> None:
    """ATAN2: the angle of the points (x, y), inputs (y, x) of one shape."""
    y, x = _pair(node, F32, F64)
    if y.type.rank != x.type.rank or not all(map(same_extent, y.type.shape, x.type.shape)):
        raise BuildError(f"its inputs are {type_text(y)} and {type_text(x)}")
    node.call("reshape", angle(node.emitter, y, x), shape=y.type.shape)  # a view


def floor_div(node: OpNode) -> None:
    """FLOOR_DIV: the quotient rounded down."""
    a, b = _pair(node, F32, I32, I8, I16)
    if a.type.dtype.is_float:
        node.call("floor", node.call("div", a, b, to="quotient"))
        return
    rest = node.call("mod", a, b, to="rest")
    node.call("div", node.call("sub", a, rest, to="whole"), b)


def right_shift(node: OpNode) -> None:
    """RIGHT_SHIFT, by 0 to one less than the width: what is beyond is held to that."""
    x, by = _pair(node, *_WHOLE, *_STORED)
    maximum, known = x.type.dtype.bits - 1, node.data(1)
    if known is None or ((known < 0) | (known > maximum)).any():
        by = node.call("clip", by, to="by", lo=0, hi=maximum)
    node.call("shift_right", x, by)


def add_n(node: OpNode) -> None:
    """ADD_N: the sum of any number of tensors of one shape."""
    parts = [node.input(k, F32, I32) for k in range(len(node.operator.inputs))]
    if len(parts) < 2:
        raise BuildError(f"it has {len(parts)} inputs instead of at least 2")
    total = parts[0]
    for k, part in enumerate(parts[1:], start=2):
        total = node.call("add", total, part, to=0 if k == len(parts) else "sum")


def prelu(node: OpNode) -> None:
    """PRELU: below 0 a slope for each element, or broadcast."""
    x, slope = _pair(node, F32)
    below = node.call("less", x, node.scalar(0, x), to="below")
    node.call("where", below, node.call("mul", x, slope, to="slope"), x)


def select(node: OpNode) -> None:
    """SELECT: a condition of the operands' shape, of rank 0, or one for each slice of the first axis."""
    flags, a, b = _operands(node)
    shape = a.type.shape
    if flags.type.rank == 1 and len(shape) > 1:
        if not same_extent(flags.type.shape[0], shape[0]):
            raise BuildError(f"{flags.type.shape[0]} conditions for {shape[0]} slices")
        flags = node.call("reshape", flags, to="flags", shape=(flags.type.shape[0], *(1,) * (len(shape) - 1)))
    node.call("where", flags, a, b)


def select_v2(node: OpNode) -> None:
    """SELECT_V2: condition and operands broadcast."""
    node.call("where", *_operands(node))


def _operands(node: OpNode) -> tuple[Value, Value, Value]:
    a, b = node.input(1), node.input(2)
    if a.type.dtype != b.type.dtype:
        raise BuildError(f"its operands are {a.type.dtype} and {b.type.dtype}")
    return node.input(0, BOOL), a, b


def cast(node: OpNode) -> None:
    """CAST; a float is cut off, then held to an integer type, of which NaN is 0."""
    x, tensor = node.input(0), node.output()
    if tensor.dtype is None:
        raise BuildError(f"output {tensor.title} has type {tensor.type_name}")
    node.cast(x, tensor.dtype)


_OTHERS: Final[Mapping[str, Callable[[OpNode], None]]] = {
    "SQUARE": square,
    "SQUARED_DIFFERENCE": squared_difference,
    "ATAN2": atan2,
    "FLOOR_DIV": floor_div,
    "RIGHT_SHIFT": right_shift,
    "ADD_N": add_n,
    "PRELU": prelu,
    "SELECT": select,
    "SELECT_V2": select_v2,
    "CAST": cast,
}
TABLE: Table = {
    **{name: _with_activation(op) for name, op in (("ADD", "add"), ("SUB", "sub"), ("MUL", "mul"), ("DIV", "div"))},
    **{name: _binary(op, *kinds) for name, (op, kinds) in _BINARY.items()},
    **{name: _unary(op, *kinds) for name, (op, kinds) in _UNARY.items()},
    **_OTHERS,
}
