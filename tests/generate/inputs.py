"""What networks read, and values to run them with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .draw import Draw
from .network import Network, Spec

__all__ = ["draw_input", "values"]

Array = NDArray[Any]


def draw_input(d: Draw, kind: str, before: Sequence[Spec]) -> Spec:
    """An input; often one that can be joined with an earlier one."""
    if before and d.chance(0.5):
        same = before[0]
        return same if d.chance(0.5) or same.scale is None else d.quantised(same.shape, same.dtype)
    rank = d.one((2, 3, 4, 4, 4, 4)) if kind != "onnx-integer" else d.one((1, 2, 3, 4))
    if kind in ("int8", "uint8"):
        return d.quantised(d.shape(rank), kind)
    if kind == "int16":
        return d.quantised(d.shape(rank, 1500), "int16")
    if kind == "float":
        return Spec(d.shape(rank, 1000), "float32")
    shape = _channels_first(d.shape(rank, 600 if kind == "onnx-integer" else 800))
    if kind == "onnx-qdq":
        return Spec(shape, d.one(("int8", "int8", "uint8")), d.scale(-8, -2), 0)
    if kind == "onnx-integer":
        return Spec(shape, d.one(("int32", "int64", "int8", "uint8", "bool", "int32")))
    return Spec(shape, "float32")


def _channels_first(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[0], shape[-1], *shape[1:-1]) if len(shape) >= 3 else shape


STYLES = ("random", "random", "level", "minimum", "maximum", "zero", "alternating", "small")


def values(network: Network, case: int, step: int = 0) -> dict[str, Array]:
    """Inputs of a run, by name: whole ranges, levels, all lowest, all highest, stored zeros, both ends in turn."""
    found = {}
    for k, (name, spec) in enumerate(network.inputs):
        d = Draw(network.seed, f"values/{network.kind}/{case}/{step}/{k}")
        style = STYLES[case % len(STYLES)] if case < len(STYLES) else d.one(STYLES)
        found[name] = _value(d, spec, style)
    return found


def _value(d: Draw, spec: Spec, style: str) -> Array:
    raw = np.random.PCG64(d.below(1 << 30)).random_raw(max(spec.elements, 1))[: spec.elements]
    if spec.dtype.startswith("float"):
        return _reals(raw, style).astype(spec.dtype).reshape(spec.shape)
    if spec.dtype == "bool":
        return (raw % np.uint64(2)).astype(bool).reshape(spec.shape) & (style != "zero")
    info = np.iinfo(spec.dtype)
    lo, hi = (int(info.min), int(info.max)) if info.bits < 32 else (-1000 if info.min else 0, 1000)
    if style == "level":
        lo, hi = sorted((d.between(lo, hi), d.between(lo, hi)))
    span = np.uint64(hi - lo + 1)
    out = (raw % span).astype(np.int64) + lo
    if style in ("minimum", "maximum"):
        out[:] = lo if style == "minimum" else hi
    elif style == "zero":
        out[:] = spec.zero
    elif style == "alternating":
        out = np.where(np.arange(spec.elements) % 2 == 0, lo, hi)
    elif style == "small":
        out = np.clip(spec.zero + (raw % np.uint64(5)).astype(np.int64) - 2, lo, hi)
    return out.astype(spec.dtype).reshape(spec.shape)


def _reals(raw: Array, style: str) -> Array:
    """Reals of about -4 to 4 that f16 holds; the styles as for integers."""
    units = (raw % np.uint64(2049)).astype(np.float64) / 1024 - 1
    shaped = {
        "minimum": np.full(units.shape, -4.0), "maximum": np.full(units.shape, 4.0), "zero": np.zeros(units.shape),
        "alternating": np.where(np.arange(units.size) % 2 == 0, -2.0, 2.0), "small": units / 64,
        "level": units / 8 + 1.5,
    }  # fmt: skip
    return shaped.get(style, units * 2)


def unscaled(spec: Spec) -> Spec:
    return replace(spec, scale=None, zero=0)
