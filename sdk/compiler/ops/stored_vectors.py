"""Vectors of floats stored in 8 bits within a nest, by their own largest and smallest number, as LiteRT does for
products with weights of 8 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import cast, imm, op
from sdk.compiler.ir.loops import Alloc, Buffer, Let, Load, Ref, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import F32, F64, I16
from sdk.compiler.ops.build import loop, variable
from sdk.compiler.ops.numerics import number

__all__ = ["STEPS", "store_vector", "stored_rows"]

STEPS = I16  # of a step's number, less that of zero, which may need 9 bits
Array = NDArray[Any]
_F32 = np.float32


def stored_rows(x: Array, asymmetric: bool) -> tuple[Array, Array]:
    """Rows of f32 as integers in steps of one size a row, and these sizes."""
    low = np.minimum(x.min(axis=-1, keepdims=True), 0) if asymmetric else x.min(axis=-1, keepdims=True)
    high = np.maximum(x.max(axis=-1, keepdims=True), 0) if asymmetric else x.max(axis=-1, keepdims=True)
    point = np.zeros_like(low)
    if asymmetric:
        wide = (high.astype(np.float64) - low) / 255
        first, last = low / wide, high / wide
        exact = np.where(np.abs(first) + 128 < np.abs(last) + 127, -128 - first, 127 - last)
        point = _away(np.clip(exact, -128, 127)).astype(np.float32)
        none, scale = low == high, wide.astype(np.float32)
        by = _F32(1) / scale
    else:
        maximum = np.maximum(-low, high)
        none, scale, by = maximum == 0, maximum / _F32(127), _F32(127) / maximum
    point, scale, by = (np.where(none, n, v).astype(np.float32) for n, v in ((0, point), (1, scale), (1, by)))
    minimum = -128 if asymmetric else -127
    steps = np.clip(_away(point + x * by), minimum, 127) - point
    return steps.astype(np.int16), scale[..., 0]


def _away(x: Array) -> Array:
    """To the nearest integers, halves away from zero."""
    whole = np.trunc(x)
    return np.asarray(whole + np.sign(x) * (np.abs(x - whole) >= 0.5))


def _nearest(x: ValueExpr) -> ValueExpr:
    """The same of a value."""
    whole, kind = op("trunc", x), x.dtype
    half = op("ge", op("abs", op("sub", x, whole)), number(0.5, kind))
    one = op("select", op("lt", x, number(0, kind)), number(-1, kind), number(1, kind), dtype=kind)
    return op("add", whole, op("select", half, one, number(0, kind), dtype=kind))


def _limited(x: ValueExpr, lo: float, hi: float) -> ValueExpr:
    return op("min", op("max", x, number(lo, x.dtype)), number(hi, x.dtype))


def _where(cond: ValueExpr, yes: ValueExpr, no: ValueExpr) -> ValueExpr:
    return op("select", cond, yes, no, dtype=no.dtype)


def store_vector(source: str, target: str, size: int, asymmetric: bool, tag: str) -> tuple[list[Stmt], ValueExpr]:
    """Statements, named after ``tag``, that store the f32 buffer ``source[size]`` in ``target``, and a step's size."""
    first, second = variable(f"m{tag}", size), variable(f"v{tag}", size)
    low, high = f"low{tag}", f"high{tag}"
    at = Load(source, (first.expr,), F32)
    ends = (
        Store(low, (), op("min", Load(low, (), F32), at)),
        Store(high, (), op("max", Load(high, (), F32), at)),
    )
    # both kinds start at 0: where all numbers have one sign, a symmetric range does not change by it
    begin: list[Stmt] = [Alloc(Buffer(name, F32, (), "register")) for name in (low, high)]
    begin += [Store(name, (), number(0, F32)) for name in (low, high)]
    names = (_asymmetric if asymmetric else _symmetric)(Load(low, (), F32), Load(high, (), F32), tag)
    point, by = Ref(f"point{tag}", F32), Ref(f"by{tag}", F32)
    value = op("mul", Load(source, (second.expr,), F32), by)
    if asymmetric:
        held = _limited(_nearest(op("add", point, value)), -128, 127)
        step: ValueExpr = op("sub", held, point)
    else:
        step = _limited(_nearest(value), -127, 127)
    fill = loop(second, size, Store(target, (second.expr,), cast(step, STEPS)))
    return [*begin, loop(first, size, *ends), *names, fill], Ref(f"scale{tag}", F32)


def _symmetric(low: ValueExpr, high: ValueExpr, tag: str) -> list[Stmt]:
    maximum, one, limit = Ref(f"maximum{tag}", F32), number(1, F32), number(127, F32)
    none = op("eq", maximum, number(0, F32))
    return [
        Let(maximum.name, op("max", op("neg", low), high)),
        Let(f"scale{tag}", _where(none, one, op("tdiv", maximum, limit))),
        Let(f"by{tag}", _where(none, one, op("tdiv", limit, maximum))),
    ]


def _asymmetric(low: ValueExpr, high: ValueExpr, tag: str) -> list[Stmt]:
    def wide(value: float) -> ValueExpr:
        return imm(float(value), F64)

    names = {what: Ref(f"{what}{tag}", F64) for what in ("wide", "first", "last", "exact")}
    none, scale = op("eq", low, high), Ref(f"scale{tag}", F32)
    nearer = op("lt", op("add", op("abs", names["first"]), wide(128)), op("add", op("abs", names["last"]), wide(127)))
    exact = _where(nearer, op("sub", wide(-128), names["first"]), op("sub", wide(127), names["last"]))
    span = op("tdiv", op("sub", cast(high, F64), cast(low, F64)), wide(255))
    point = cast(_nearest(_limited(names["exact"], -128, 127)), F32)
    return [
        Let(names["wide"].name, _where(none, wide(1), span)),
        Let(names["first"].name, op("tdiv", cast(low, F64), names["wide"])),
        Let(names["last"].name, op("tdiv", cast(high, F64), names["wide"])),
        Let(names["exact"].name, exact),
        Let(scale.name, cast(names["wide"], F32)),
        Let(f"by{tag}", op("tdiv", number(1, F32), scale)),
        Let(f"point{tag}", _where(none, number(0, F32), point)),
    ]
