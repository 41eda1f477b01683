"""Values as OpenCL C: scalars as the C backend prints them, with the language's functions; lanes as its vectors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final

import numpy as np

from sdk.codegen_c.functions.dims import ATOM, DimPrinter, wrap
from sdk.codegen_c.functions.expr import CValue, ValuePrinter
from sdk.codegen_c.functions.unit import Unit
from sdk.compiler.ir.loops import Idx, Imm, Load, Op, Ref, ValueExpr
from sdk.compiler.ir.types import BOOL, DType
from sdk.compiler.ir.walk import walk
from sdk.errors import BuildError

__all__ = ["HEAD", "WORDS", "Values", "c_type"]

_SCALARS: Final = {
    "bool": "uchar", "i8": "char", "u8": "uchar", "i16": "short", "u16": "ushort", "i32": "int", "u32": "uint",
    "i64": "long", "u64": "ulong", "f16": "ushort", "f32": "float", "f64": "double",
}  # fmt: skip
_INFIX: Final = {
    "add": "+", "sub": "-", "mul": "*", "tdiv": "/", "shl": "<<", "shr": ">>", "and": "&", "or": "|", "xor": "^",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip
# Functions of the language, for floats; accuracies are those of its specification (section 7.4).
_FUNCTIONS: Final = {
    "exp": "exp", "log": "log", "tanh": "tanh", "erf": "erf", "sqrt": "sqrt", "rsqrt": "rsqrt", "sin": "sin",
    "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh",
    "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "pow": "pow", "floor": "floor", "ceil": "ceil",
    "round": "rint", "trunc": "trunc", "fmod": "fmod",
}  # fmt: skip
# What no name of a kernel may be: words of the language, and its functions that are printed here or in `stmt.py`.
WORDS: Final = (
    "as_char", "as_double", "as_float", "as_int", "as_long", "as_short", "as_uchar", "as_uint", "as_ulong", "as_ushort",
    "atomic_add", "atomic_and", "atomic_max", "atomic_min", "atomic_or", "atomic_xor", "barrier", "char", "clamp",
    "constant", "fabs", "fma", "fmax", "fmin", "get_global_id", "get_group_id", "get_local_id", "global", "half",
    "isinf", "isnan", "kernel", "local", "max", "min", "private", "select", "uchar", "uint", "ulong", "ushort",
    *_FUNCTIONS.values(), *(f"v{way}{lanes}" for way in ("load", "store") for lanes in (2, 3, 4, 8, 16)),
)  # fmt: skip
# What the C backend's text relies on and OpenCL C calls otherwise.
_NAMES: Final = {
    "int8_t": "char", "uint8_t": "uchar", "int16_t": "short", "uint16_t": "ushort", "int32_t": "int",
    "uint32_t": "uint", "int64_t": "long", "uint64_t": "ulong", "INT32_MAX": "INT_MAX", "INT32_MIN": "INT_MIN",
    "UINT32_MAX": "UINT_MAX", "INT64_MAX": "LONG_MAX", "INT64_MIN": "LONG_MIN", "UINT64_MAX": "ULONG_MAX",
    "INT64_C(x)": "x##L", "UINT64_C(x)": "x##UL", "half": "half_bits",
}  # fmt: skip
HEAD: Final = "\n".join(f"#define {c} {cl}" for c, cl in _NAMES.items())


def c_type(dtype: DType) -> str:
    """The type of a value: ``float``, ``int4``.

    Raises:
        BuildError: the language has no such type.
    """
    base = _SCALARS.get(str(dtype.scalar))
    if base is None or dtype.lanes not in (1, 2, 3, 4, 8, 16):
        raise BuildError(f"OpenCL C has no data type {dtype}")
    return base if dtype.lanes == 1 else f"{base}{dtype.lanes}"


class Scalars(ValuePrinter):
    """The C backend's printer with the language's functions of real numbers."""

    def _instruction(self, expr: Op) -> CValue | None:
        of = expr.args[0].dtype if expr.args else expr.dtype
        if expr.name == "bits":
            return CValue(f"as_{c_type(expr.dtype)}({self.assigned(expr.args[0])})", ATOM)
        if expr.name == "clz":
            return CValue(f"clz({self.text(expr.args[0])})", ATOM)
        if not of.is_float or of.bits < 32:
            return super()._instruction(expr)
        if expr.name == "sigmoid":
            one = "1.0f" if of.bits == 32 else "1.0"
            return CValue(f"({one} / ({one} + exp(-{self.text(expr.args[0], ATOM)})))", ATOM)
        name = {"abs": "fabs", "fma": "fma", "isnan": "isnan", "isinf": "isinf", **_FUNCTIONS}.get(expr.name)
        if name is None:
            return super()._instruction(expr)
        return CValue(f"{name}({', '.join(self.text(a) for a in expr.args)})", ATOM)


class Values:
    """Prints values; ``load`` gives the text of a read, ``name`` that of a bound scalar. ``scalars`` prints what has no
    lanes, ``dims`` indices."""

    def __init__(
        self, unit: Unit, dims: DimPrinter, load: Callable[[Load], str], name: Callable[[str], str]
    ) -> None:
        self._load, self._dims, self._name = load, dims, name
        self.scalars = Scalars(unit, dims, lambda one: CValue(load(one), ATOM), name)

    def text(self, expr: ValueExpr) -> str:
        """``expr`` as a primary expression.

        Raises:
            BuildError: an operation that OpenCL C has not, or on lanes none that is printed.
        """
        if all(e.dtype.lanes == 1 for e in walk(expr) if isinstance(e, Imm | Idx | Ref | Load | Op)):
            value = self.scalars.value(expr)
            whole = value.exact or isinstance(expr, Imm)
            return wrap(value[:2], ATOM) if whole else f"({self.scalars.assigned(expr)})"
        _refuse_half_lanes(expr)
        match expr:
            case Imm():
                return _literal(expr)
            case Idx():
                return self._dims.text(expr.dim, ATOM)
            case Ref():
                return self._name(expr.name)
            case Load():
                return self._load(expr)
            case Op():
                return self._op(expr)

    def _op(self, expr: Op) -> str:
        args = [self.text(a) for a in expr.args]
        float_ = expr.args[0].dtype.is_float
        match expr.name:
            case "cast":
                return self._cast(expr, args[0])
            case "broadcast" if expr.args[0].dtype.lanes == 1:
                return f"({c_type(expr.dtype)})({args[0]})"
            case "select" if expr.args[0].dtype.lanes == 1:
                return f"({args[0]} ? {args[1]} : {args[2]})"
            case "select":
                mask = DType("i", expr.dtype.bits, expr.dtype.lanes)
                return f"select({args[2]}, {args[1]}, convert_{c_type(mask)}({args[0]}))"
            case "min" | "max":
                return f"{'f' if float_ else ''}{expr.name}({args[0]}, {args[1]})"
            case "neg":
                return f"(-{args[0]})"
            case "not":
                return f"(!{args[0]})"
            case "abs":
                return f"{'fabs' if float_ else 'abs'}({args[0]})"
            case "sigmoid":
                return f"(1.0f / (1.0f + exp(-{args[0]})))"
        if expr.name in _INFIX:
            text = f"({args[0]} {_INFIX[expr.name]} {args[1]})"
            narrow = expr.dtype.lanes == 1 and expr.dtype.bits < 32 and expr.dtype != BOOL
            return f"({c_type(expr.dtype)}){text}" if narrow else text
        if expr.name in _FUNCTIONS and float_:
            return f"{_FUNCTIONS[expr.name]}({', '.join(args)})"
        raise BuildError(f"{expr.name} on {expr.args[0].dtype} is no intrinsic of OpenCL C")

    def _cast(self, expr: Op, arg: str) -> str:
        if expr.dtype == BOOL:
            return f"({arg} != 0)"
        return f"convert_{c_type(expr.dtype)}({arg})"


def _refuse_half_lanes(expr: ValueExpr) -> None:
    """16-bit floats lie in memory as integers, which functions of one element convert: in lanes they are only moved.

    Raises:
        BuildError: a number in lanes of 16-bit floats, or what computes with them.
    """
    computes = isinstance(expr, Op) and expr.name not in ("broadcast", "select")
    args = expr.args if isinstance(expr, Op) else ()
    for one in (expr.dtype, *(a.dtype for a in args)) if computes or isinstance(expr, Imm) else ():
        if one.is_float and one.bits == 16 and one.lanes > 1:
            raise BuildError(f"{one} has no arithmetic in OpenCL C")


def _literal(expr: Imm) -> str:
    if not expr.dtype.is_float:
        text = f"({c_type(expr.dtype.scalar)}){int(expr.value)}"
    elif math.isnan(expr.value):
        text = "NAN"
    elif math.isinf(expr.value):
        text = "INFINITY" if expr.value > 0 else "(-INFINITY)"
    else:
        text = f"{np.float32(expr.value)!s}f" if expr.dtype.bits == 32 else repr(float(expr.value))
        text = text if re.search(r"[.e]", text) else text.replace("f", ".0f") if "f" in text else f"{text}.0"
    if expr.dtype == DType("i", 32):
        text = f"({int(expr.value)})" if expr.value < 0 else str(int(expr.value))
    return text if expr.dtype.lanes == 1 else f"({c_type(expr.dtype)})({text})"
