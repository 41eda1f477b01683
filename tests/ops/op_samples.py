"""The samples of ops as arrays: their symbols at some values, random elements where nothing else is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sdk.compiler.ir.graph import attr_symbols
from sdk.compiler.ir.types import TensorType
from sdk.compiler.ops import Sample
from sdk.compiler.sym import Var, free_vars, substitute


def symbols(sample: Sample) -> list[Var]:
    found = {v for t in sample.inputs for d in t.shape for v in free_vars(d)} | attr_symbols(sample.attrs)
    return sorted(found, key=lambda v: v.name)


def concrete(type: TensorType, dims: Mapping[Var, int]) -> TensorType:
    return replace(type, shape=tuple(substitute(d, dict(dims)) for d in type.shape))


def random_array(type: TensorType, rng: np.random.Generator) -> np.ndarray:
    shape = type.static_shape
    if type.dtype.is_float:
        return rng.standard_normal(shape).astype(type.dtype.numpy)
    lo, hi = type.dtype.limits
    lo, hi = max(lo, -(1 << 20)), min(hi, 1 << 20)
    return rng.integers(lo, hi + 1, shape).astype(type.dtype.numpy)


def arguments(sample: Sample, dims: Mapping[Var, int], rng: np.random.Generator) -> list[np.ndarray]:
    out = []
    for k, type in enumerate(sample.inputs):
        if k in sample.values:
            out.append(np.asarray(sample.values[k](rng)).astype(type.dtype.numpy))
        else:
            out.append(random_array(concrete(type, dims), rng))
    return out


def environments(sample: Sample) -> list[dict[Var, int]]:
    """The dims at both ends of their ranges, and at one point inside."""
    names = symbols(sample)
    if not names:
        return [{}]
    return [{v: v.lo for v in names}, {v: v.hi for v in names}, {v: (v.lo + v.hi) // 2 for v in names}]


def as_tuple(value: Any) -> tuple[np.ndarray, ...]:
    return value if isinstance(value, tuple) else (value,)
