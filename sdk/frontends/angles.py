"""Angles of points."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.frontends.emit import Emitter

__all__ = ["angle"]

_LARGEST: Final = {bits: float(np.finfo(kind).max) for bits, kind in ((16, "f2"), (32, "f4"), (64, "f8"))}


def angle(node: Emitter, y: Value, x: Value) -> Value:
    """The angle of the points (x, y) of one float type, from -pi to pi; a negative zero of x counts as zero."""
    kind = y.type.dtype
    maximum = _LARGEST[kind.bits]  # of two infinities the quotient is 1
    y, x = (node.call("clip", v, lo=-maximum, hi=maximum) for v in (y, x))
    zero = node.scalar(0, kind)
    found = node.call("atan", node.call("div", y, x))
    below = node.call("or", node.call("less", y, zero), node.call("less", node.call("reciprocal", y), zero))
    turn = node.call("where", below, node.scalar(-math.pi, kind), node.scalar(math.pi, kind))
    found = node.call("where", node.call("less", x, zero), node.call("add", found, turn), found)
    none = node.call("and", node.call("equal", x, zero), node.call("equal", y, zero))
    return node.call("where", none, zero, found)
