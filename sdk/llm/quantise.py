"""Matrices of floats in groups of 32, as GGUF files have Q8_0 and Q4_0: rounded to nearest, or by what each input
contributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sdk.errors import UsageError
from sdk.llm.weights import FORMATS, Weight

__all__ = ["LARGEST", "MADE", "check_held", "is_matrix", "quantised"]

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
_GROUP: Final = 32
_LARGEST_STEP: Final = np.float32(65504)  # of a group: f16
LARGEST: Final = {"Q8_0": 127 * 65504.0, "Q4_0": 8 * 65504.0}  # weight, by format
_ROWS: Final = 1 << 16  # groups at a time: what is computed with stays small
_FACTORS: Final = (0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, -0.95, -1.05)  # of the nearest step, that are tried


def quantised(
    weights: Mapping[str, Weight], format: str, squares: Mapping[str, Floats] | None = None
) -> dict[str, Weight]:
    """The tensors with every matrix of floats in groups whose rows are whole groups; others as they are.

    Args:
        weights: by name.
        format: one of ``MADE``.
        squares: mean squares of the inputs of matrices, f32[inputs], by the names of these: the step of each group of
            Q4_0 is then the one that loses least of what such inputs give.

    Raises:
        UsageError: there is no such format, or a matrix has numbers that it does not hold.
    """
    if format not in MADE:
        raise UsageError(f"weights cannot be quantised to {format!r}", hint=f"use one of {', '.join(MADE)}")
    known = squares or {}
    return {name: _quantised(weight, format, known.get(name)) for name, weight in weights.items()}


def check_held(weights: Mapping[str, Weight], format: str) -> None:
    """Checks that a format holds the numbers of each matrix of floats.

    Raises:
        UsageError: it does not.
    """
    for weight in weights.values():
        if is_matrix(weight):
            _check(weight.name, weight.floats(), format)


def is_matrix(weight: Weight) -> bool:
    """Whether a tensor is a matrix of floats whose rows are whole groups."""
    fits = weight.is_float and len(weight.shape) == 2 and weight.shape[1] % _GROUP == 0
    return fits and not weight.name.startswith("position_embd")


def _quantised(weight: Weight, format: str, squares: Floats | None) -> Weight:
    if not is_matrix(weight):
        return weight
    groups = weight.floats().reshape(-1, _GROUP)
    _check(weight.name, groups, format)
    made = []
    for at in range(0, len(groups), _ROWS):
        part = groups[at : at + _ROWS]
        if squares is None or format != "Q4_0" or not squares.any():
            made.append(MADE[format](part))
        else:
            places = np.arange(at, at + len(part)) % (len(squares) // _GROUP)
            made.append(_to_q4_0_for(part, squares.reshape(-1, _GROUP)[places]))
    return Weight.of(weight.name, FORMATS[format], weight.shape, np.concatenate(made).reshape(-1))


def _check(name: str, numbers: Floats, format: str) -> None:
    largest = max(numbers.max(initial=0), -numbers.min(initial=0))
    if not largest <= LARGEST[format]:  # nor where one is no number
        raise UsageError(
            f"{name} has weights of {largest:g}", why=f"{format} holds at most {LARGEST[format]:g}",
            hint="leave --quantize out, or fetch the checkpoint again",
        )  # fmt: skip


def _steps(groups: Floats, step: Floats) -> Floats:
    """Numbers over the step of their group; 0 where that is."""
    with np.errstate(divide="ignore"):
        return groups * np.where(step == 0, np.float32(0), np.float32(1) / step)


def _half(step: Floats) -> Bytes:
    """Steps as the bytes of f16."""
    return step.astype("<f2").view(np.uint8).reshape(-1, 2)


def _to_q8_0(groups: Floats) -> Bytes:
    step = np.abs(groups).max(axis=1, keepdims=True) / np.float32(127)
    numbers = _steps(groups, step)
    away = np.trunc(np.abs(numbers) + np.float32(0.5)) * np.sign(numbers)
    return np.concatenate((_half(step), away.astype(np.int8).view(np.uint8)), axis=1)


def _to_q4_0(groups: Floats) -> Bytes:
    """The number furthest from 0 becomes -8."""
    step = _furthest(groups) / np.float32(-8)
    return _packed(step, _near(groups, step))


def _to_q4_0_for(groups: Floats, squares: Floats) -> Bytes:
    """Steps around that of ``_to_q4_0`` are tried, each changed to what fits the numbers best that it gives: weighted
    least squares."""
    first = _furthest(groups) / np.float32(-8)
    best = np.full((len(groups), 1), np.inf, np.float32)
    step = first
    for factor in _FACTORS:
        numbers = _near(groups, first * np.float32(factor)) - np.float32(8)
        size = (squares * numbers * numbers).sum(axis=1, keepdims=True)
        fitting = (squares * groups * numbers).sum(axis=1, keepdims=True) / np.where(size == 0, np.float32(1), size)
        fitting = np.clip(fitting, -_LARGEST_STEP, _LARGEST_STEP).astype(np.float16).astype(np.float32)
        numbers = _near(groups, fitting) - np.float32(8)
        error = (squares * np.square(groups - fitting * numbers)).sum(axis=1, keepdims=True)
        better = error < best
        best, step = np.where(better, error, best), np.where(better, fitting, step)
    return _packed(step, _near(groups, step))


def _near(groups: Floats, step: Floats) -> Floats:
    """The nearest of the numbers 0 to 15, which stand for -8 to 7 steps."""
    numbers: Floats = np.clip(np.trunc(_steps(groups, step) + np.float32(8.5)), 0, 15)
    return numbers


def _furthest(groups: Floats) -> Floats:
    return np.take_along_axis(groups, np.abs(groups).argmax(axis=1, keepdims=True), axis=1)


def _packed(step: Floats, numbers: Floats) -> Bytes:
    whole = numbers.astype(np.uint8)
    return np.concatenate((_half(step), whole[:, :16] | whole[:, 16:] << np.uint8(4)), axis=1)


MADE: Final[Mapping[str, Callable[[Floats], Bytes]]] = {"Q8_0": _to_q8_0, "Q4_0": _to_q4_0}
