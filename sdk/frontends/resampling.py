"""Where the elements of a resized axis come from: as a fraction of dims, or as positions and weights of fixed sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.budget import AXIS_TABLE, check_limit
from sdk.compiler.sym import Dim, Expr, dmax, dmin, floordiv

__all__ = ["Axis", "Filter", "nearest_map", "nearest_positions", "place", "positions", "scaled_size"]

Array = NDArray[Any]
LARGEST_TERM: Final = 64


def simple(scale: float) -> Fraction | None:
    """The fraction of small numbers that a scale stands for; None where there is none."""
    found = Fraction(scale).limit_denominator(LARGEST_TERM)
    near = found > 0 and abs(float(found) - scale) <= 1e-6 * scale
    return found if near else None


def scaled_size(size: Dim, scale: float) -> Dim | None:
    """``floor(size * scale)``, in single precision as in onnxruntime, where 10 * 0.7 is 7; None for an open size and a
    scale that is no simple fraction."""
    if isinstance(size, int):
        return int(np.float32(size) * np.float32(scale))
    exact = simple(scale)
    return None if exact is None else floordiv(size * exact.numerator, exact.denominator)


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis to resize from ``size`` to ``extent``. ``scale`` is the given one, None where the sizes tell it;
    ``roi`` the part of the axis that ``tf_crop_and_resize`` takes."""

    size: Dim
    extent: Dim
    scale: float | None
    roi: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        if isinstance(self.size, int) and isinstance(self.extent, int):
            check_limit(AXIS_TABLE, self.extent, f"resizing an axis of {self.size}")

    @property
    def ratio(self) -> tuple[Dim, Dim] | None:
        """The scale as a fraction of dims; None where the given one is no simple fraction."""
        if self.scale is None:
            return self.extent, self.size
        exact = simple(self.scale)
        return None if exact is None else (exact.numerator, exact.denominator)

    @property
    def fixed(self) -> bool:
        """Whether both sizes are numbers."""
        return isinstance(self.size, int) and isinstance(self.extent, int)


def place(axis: Axis, mode: str) -> tuple[Dim, Dim, Dim] | None:
    """Where output i lies in the input, ``(num * i + add) / den``; None where that is no such fraction."""
    if mode == "align_corners":
        return axis.size - 1, 0, dmax(axis.extent - 1, 1)
    ratio = axis.ratio
    if ratio is None:
        return None
    p, q = ratio
    if mode == "asymmetric":
        return q, 0, p
    if mode == "pytorch_half_pixel":  # the one output of an axis lies at 0
        return 2 * q, (q - p) * dmin(axis.extent - 1, 1), 2 * p
    symmetric = mode == "half_pixel_symmetric" and axis.scale is not None and isinstance(axis.extent, Expr)
    if mode in ("half_pixel", "half_pixel_symmetric") and not symmetric:
        return 2 * q, q - p, 2 * p
    return None


def nearest_map(where: tuple[Dim, Dim, Dim], rounding: str) -> tuple[Dim, Dim, Dim] | None:
    """The map ``(num * i + add) // den`` of the element nearest to a place."""
    num, add, den = where
    match rounding:
        case "floor":
            return num, add, den
        case "ceil":
            return num, add + den - 1, den
        case "round_prefer_floor":  # ceil(x - 1/2)
            return 2 * num, 2 * add + den - 1, 2 * den
        case "round_prefer_ceil":  # floor(x + 1/2)
            return 2 * num, 2 * add + den, 2 * den
    return None


@dataclass(frozen=True, slots=True)
class Filter:
    """How elements around a place are mixed: ``mode`` linear or cubic with its coefficient, wider for ``antialias``."""

    mode: str
    coordinates: str
    cubic: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False

    def weights(self, part: Array, scale: float) -> tuple[int, Array]:
        """The first tap, counted from the element before a place, and the weights of each tap [n, taps]."""
        step = min(scale, 1.0) if self.antialias else 1.0
        reach = 1 if self.mode == "linear" else 2
        first = math.floor(-reach / step) + 1
        check_limit(AXIS_TABLE, (2 - 2 * first) * max(len(part), 1), f"resizing by {scale} with antialias")
        taps = np.arange(first, 2 - first)
        distance = np.abs(taps[None, :] - part[:, None]) * step
        shape: Callable[[Array], Array] = _triangle if self.mode == "linear" else self._keys
        found = shape(distance)
        return first, found / found.sum(axis=1, keepdims=True)

    def _keys(self, d: Array) -> Array:
        a = self.cubic
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        return np.asarray(np.where(d <= 1, near, np.where(d < 2, far, 0.0)))


def _triangle(d: Array) -> Array:
    return np.asarray(np.maximum(1 - d, 0.0))


def coordinates(axis: Axis, mode: str) -> Array:
    """Where each output lies in the input, for fixed sizes."""
    assert isinstance(axis.size, int)
    assert isinstance(axis.extent, int)
    size, extent = axis.size, axis.extent
    scale = axis.scale if axis.scale is not None else extent / size
    i = np.arange(extent, dtype=np.float64)
    if mode == "align_corners":
        return np.zeros(extent) if extent == 1 else i * (size - 1) / (extent - 1)
    if mode == "asymmetric":
        return i / scale
    if mode == "tf_crop_and_resize":
        start, end = axis.roi
        if extent == 1:
            return np.full(1, (start + end) * (size - 1) / 2)
        return start * (size - 1) + i * (end - start) * (size - 1) / (extent - 1)
    if mode == "pytorch_half_pixel" and extent == 1:
        return np.zeros(1)
    offset = size / 2 * (1 - extent / (scale * size)) if mode == "half_pixel_symmetric" else 0.0
    return np.asarray(offset + (i + 0.5) / scale - 0.5)


def positions(axis: Axis, how: Filter) -> tuple[Array, Array, Array]:
    """Positions i32 and weights f32 [n, taps] of fixed sizes, and which outputs lie inside the axis."""
    assert isinstance(axis.size, int)
    assert isinstance(axis.extent, int)
    scale = axis.scale if axis.scale is not None else axis.extent / axis.size
    at = coordinates(axis, how.coordinates)
    base = np.floor(at)
    first, weights = how.weights(at - base, scale)
    index = base.astype(np.int64)[:, None] + first + np.arange(weights.shape[1])
    outside = (index < 0) | (index >= axis.size)
    if how.exclude_outside:
        weights = np.where(outside, 0.0, weights)
        weights = weights / weights.sum(axis=1, keepdims=True)
    inside = (at >= 0) & (at <= axis.size - 1)
    return np.clip(index, 0, axis.size - 1).astype(np.int32), weights.astype(np.float32), inside


def nearest_positions(axis: Axis, mode: str, rounding: str) -> tuple[Array, Array]:
    """The element nearest to each output, for fixed sizes, and which outputs lie inside the axis."""
    assert isinstance(axis.size, int)
    at = coordinates(axis, mode)
    match rounding:
        case "floor":
            near = np.floor(at)
        case "ceil":
            near = np.ceil(at)
        case "round_prefer_ceil":
            near = np.floor(at + 0.5)
        case _:
            near = np.ceil(at - 0.5)
    inside = (at >= 0) & (at <= axis.size - 1)
    return np.clip(near, 0, axis.size - 1).astype(np.int32), inside
