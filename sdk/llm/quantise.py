"""Matrices of floats in groups of 32: round to nearest, as GGUF files have Q8_0 and Q4_0."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sdk.errors import UsageError
from sdk.llm.weights import FORMATS, Weight

__all__ = ["MADE", "is_matrix", "quantised"]

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
_GROUP: Final = 32
_ROWS: Final = 1 << 16  # groups at a time: what is computed with stays small


def quantised(weights: Mapping[str, Weight], format: str) -> dict[str, Weight]:
    """The tensors with every matrix of floats in groups whose rows are whole groups; others as they are.

    Args:
        weights: by name.
        format: one of ``MADE``.

    Raises:
        UsageError: there is no such format.
    """
    if format not in MADE:
        raise UsageError(f"weights cannot be quantised to {format!r}", hint=f"use one of {', '.join(MADE)}")
    return {name: _quantised(weight, format) for name, weight in weights.items()}


def is_matrix(weight: Weight) -> bool:
    """Whether a tensor is a matrix of floats whose rows are whole groups."""
    fits = weight.is_float and len(weight.shape) == 2 and weight.shape[1] % _GROUP == 0
    return fits and not weight.name.startswith("position_embd")


def _quantised(weight: Weight, format: str) -> Weight:
    if not is_matrix(weight):
        return weight
    groups = weight.floats().reshape(-1, _GROUP)
    made = [MADE[format](groups[at : at + _ROWS]) for at in range(0, len(groups), _ROWS)]
    return Weight.of(weight.name, FORMATS[format], weight.shape, np.concatenate(made).reshape(-1))


def _scaled(groups: Floats, step: Floats) -> tuple[Bytes, Floats]:
    """The steps as f16 bytes, and numbers over their steps; all 0 where a group is."""
    with np.errstate(divide="ignore"):
        inverse = np.where(step == 0, np.float32(0), np.float32(1) / step)
    return step.astype("<f2").view(np.uint8).reshape(-1, 2), groups * inverse


def _to_q8_0(groups: Floats) -> Bytes:
    step = np.abs(groups).max(axis=1, keepdims=True) / np.float32(127)
    scales, numbers = _scaled(groups, step)
    away = np.trunc(np.abs(numbers) + np.float32(0.5)) * np.sign(numbers)
    return np.concatenate((scales, away.astype(np.int8).view(np.uint8)), axis=1)


def _to_q4_0(groups: Floats) -> Bytes:
    """The number furthest from 0 becomes -8."""
    furthest = np.take_along_axis(groups, np.abs(groups).argmax(axis=1, keepdims=True), axis=1)
    scales, numbers = _scaled(groups, furthest / np.float32(-8))
    whole = np.clip(np.trunc(numbers + np.float32(8.5)), 0, 15).astype(np.uint8)
    return np.concatenate((scales, whole[:, :16] | whole[:, 16:] << np.uint8(4)), axis=1)


MADE: Final[Mapping[str, Callable[[Floats], Bytes]]] = {"Q8_0": _to_q8_0, "Q4_0": _to_q4_0}
