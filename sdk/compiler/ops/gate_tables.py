"""Logistic and tanh of 16-bit integers as TensorFlow Lite Micro computes them: straight lines between 257 points.

The points are those of the logistic function from 0 on, 24 to 1, moved by half of what the line to the next one misses
in its middle; tanh(x) is 2 * logistic(2x) - 1, and negative numbers go by symmetry.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import cast, imm, op
from sdk.compiler.ir.loops import Let, Load, Ref, Stmt, ValueExpr
from sdk.compiler.ir.types import I16, I32, U8, U16
from sdk.compiler.sym import Var

__all__ = ["POINTS", "interpolated", "interpolation", "points"]

Array = NDArray[Any]
POINTS: Final = 257
_PER_ONE: Final = 24
_BITS: Final = {"sigmoid": 9, "tanh": 8}  # of the place between two points


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def points() -> Array:
    """u16[257], in steps of 2**-16; the last two are equal: there the functions are flat."""
    found = []
    for k in range(POINTS - 2):
        here, there = _logistic(k / _PER_ONE), _logistic((k + 1) / _PER_ONE)
        missed = _logistic((k + 0.5) / _PER_ONE) - (here + there) / 2
        found.append(math.floor((here + missed / 2) * 65536 + 0.5))
    return np.asarray([*found, 65535, 65535], np.uint16)


def interpolated(name: str, x: Array, shift: int, table: Array) -> Array:
    """``name`` (sigmoid or tanh) of i16 numbers of scale 2**(shift - 12), as i16 of scale 2**-15."""
    bits = _BITS[name]
    wide = x.astype(np.int64) * 3
    scaled = wide << shift if shift >= 0 else (wide + (1 << (-shift - 1))) >> -shift
    size = np.abs(scaled)
    at = np.minimum(size >> bits, 254)
    here, there = (table[at + k].astype(np.int64) for k in (0, 1))
    line = (here << bits) + (size & ((1 << bits) - 1)) * (there - here)
    flat = (0x7FFF << 10) if name == "sigmoid" else (0xFFFF << 8)
    line = np.where(size >> bits >= 255, flat, line)
    if name == "sigmoid":
        found = np.where(scaled >= 0, line + (1 << 9), (1 << 25) - line + (1 << 9) - 1) >> 10
    else:
        found = np.where(scaled >= 0, line - (1 << 23) + (1 << 7), -line + (1 << 23) + (1 << 7) - 1) >> 8
    return np.asarray(found).astype(np.int16)


def interpolation(name: str, x: ValueExpr, shift: int, tag: str) -> tuple[list[Stmt], ValueExpr]:
    """The same as statements, named after ``tag``, and the value; the points are in the buffer ``table``."""
    bits = _BITS[name]
    scaled, size, line = (Ref(f"{tag}_{what}", I32) for what in ("scaled", "size", "line"))
    wide = op("mul", cast(x, I32), imm(3 << max(shift, 0)))
    if shift < 0:
        wide = op("shr", op("add", wide, imm(1 << (-shift - 1))), imm(-shift))
    at = Var(f"{tag}_at", *U8.limits).expr
    here, there = (cast(Load("table", (at + k,), U16), I32) for k in (0, 1))
    rest = op("and", size, imm((1 << bits) - 1))
    slope = op("add", op("shl", here, imm(bits)), op("mul", rest, op("sub", there, here)))
    flat = op("ge", op("shr", size, imm(bits)), imm(255))
    end, middle, half, down = (0x7FFF << 10, 1 << 25, 1 << 9, 10) if name == "sigmoid" else (0xFFFF << 8, 0, 1 << 7, 8)
    begin = 0 if name == "sigmoid" else 1 << 23
    above = op("add", line, imm(half - begin))
    below = op("sub", imm(middle + begin + half - 1), line)
    found = op("select", op("ge", scaled, imm(0)), above, below, dtype=I32)
    names: list[Stmt] = [
        Let(scaled.name, wide),
        Let(size.name, op("max", scaled, op("neg", scaled))),
        Let(f"{tag}_at", cast(op("min", op("shr", size, imm(bits)), imm(254)), U8)),
        Let(line.name, op("select", flat, imm(end), slope, dtype=I32)),
    ]
    return names, cast(op("shr", found, imm(down)), I16)
