"""The next token by its logits, as ``c_runtime/llm/sample.c`` chooses it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sdk.errors import UsageError

__all__ = ["Sampler", "Sampling"]

_MASK = (1 << 64) - 1
_MAX_LOGIT = np.float32(1e30)  # of a logit: penalties cannot make it infinite
_ORDERED = 256  # tokens that are put in order at first; more where that is not enough


@dataclass(frozen=True)
class Sampling:
    """How a token is chosen. What is 0 is off (``repetition``: 1), with ``temperature`` 0 the most probable token is
    taken. Penalties are taken from the logits of tokens that were there; then ``temperature`` divides them, the
    ``top_k`` most probable stay, of those as few as have the probability ``top_p`` together, and of those the ones that
    have ``min_p`` of the most probable one's.

    Raises:
        UsageError: a number is not in its range.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0

    def __post_init__(self) -> None:
        ranges = {
            "temperature": (0, 100), "top_k": (0, (1 << 31) - 1), "top_p": (0, 1), "min_p": (0, 1),
            "repetition": (0.01, 100), "presence": (-100, 100), "frequency": (-100, 100),
        }  # fmt: skip
        for name, (low, high) in ranges.items():
            if not low <= getattr(self, name) <= high:
                raise UsageError(
                    f"{name} is {getattr(self, name)}, which is no way to choose tokens", hint=f"give {low} to {high}"
                )


class Sampler:
    """Chooses tokens; the same ``seed`` and logits give the same tokens."""

    def __init__(self, sampling: Sampling | None = None, seed: int = 0) -> None:
        self.sampling = sampling or Sampling()
        self._state = seed & _MASK

    def copy(self) -> Sampler:
        """One that draws the same numbers from here on."""
        return Sampler(self.sampling, self._state)

    def next(
        self, logits: NDArray[np.float32], last: Sequence[int] = (), allowed: NDArray[np.uint32] | None = None
    ) -> int:
        """The next token by f32 [vocabulary] logits; ``last`` are those that were there, for the penalties. ``allowed``
        has a bit for each token that may come, from the lowest of the first word on; None: all.

        Raises:
            UsageError: no token may come: all logits are NaN or minus infinity.
        """
        values = self._penalised(logits, last)
        if allowed is not None:
            bits = np.unpackbits(allowed.astype("<u4").view(np.uint8), bitorder="little", count=len(values))
            values[bits == 0] = -np.inf
        if not (values > -np.inf).any():
            raise UsageError(
                "no token may come next", why="all logits are NaN or minus infinity", hint="check the model"
            )
        if not self.sampling.temperature > 0:
            return int(values.argmax())
        ids, weights, total = self._kept(values)
        chosen = self._draw() * total
        passed = np.flatnonzero(np.cumsum(weights) > chosen)
        return int(ids[passed[0] if len(passed) else -1])

    def _penalised(self, logits: NDArray[np.float32], last: Sequence[int]) -> NDArray[np.float32]:
        there = logits >= np.finfo(np.float32).min  # neither NaN nor minus infinity
        values = np.where(there, np.clip(logits, -_MAX_LOGIT, _MAX_LOGIT), -np.inf).astype(np.float32)
        if not len(last):
            return values
        ids, times = np.unique(np.asarray(last), return_counts=True)
        inside = ids < len(values)
        ids, times = ids[inside], times[inside].astype(np.float32)
        held, s = values[ids], self.sampling
        repetition = np.float32(s.repetition)
        held = np.where(held > 0, held / repetition, held * repetition)
        values[ids] = held - times * np.float32(s.frequency) - np.float32(s.presence)
        return values

    def _weights(self, values: NDArray[np.float32], best: np.float32) -> NDArray[np.float64]:
        with np.errstate(under="ignore"):
            found: NDArray[np.float64] = np.exp(
                (values.astype(np.float64) - float(best)) / _f32(self.sampling.temperature)
            )
        return found

    def _kept(self, values: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float64], float]:
        """The tokens that may be drawn, the most probable first, their weights, and the sum of these."""
        s, best = self.sampling, values.max()
        alive = int((values > -np.inf).sum())
        maximum = min(s.top_k or alive, alive)
        total = None if maximum < alive else float(self._weights(values, best).sum())
        ordered = maximum if maximum < alive else min(_ORDERED, alive)
        while True:
            ids = _first(values, ordered)
            weights = self._weights(values[ids], best)
            whole = float(weights.sum()) if total is None else total
            enough = whole * _f32(s.top_p) if 0 < s.top_p < 1 else whole
            kept = int(np.searchsorted(np.cumsum(weights), enough, side="left")) + 1 if enough < whole else maximum
            kept = min(kept, int((weights >= _f32(s.min_p)).sum()) if s.min_p > 0 else kept, maximum)
            unlimited = enough >= whole and s.min_p <= 0
            if ordered == maximum or (kept < ordered and not unlimited):
                break
            ordered = maximum
        cut = enough < whole or s.min_p > 0
        return ids[:kept], weights[:kept], float(weights[:kept].sum()) if cut else whole

    def _draw(self) -> float:
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return math.ldexp((z ^ (z >> 31)) >> 11, -53)


def _f32(number: float) -> float:
    return float(np.float32(number))


def _first(values: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """The places of the ``count`` largest, the largest first, equal ones as they stand."""
    if count < len(values):
        minimum = np.partition(values, len(values) - count)[len(values) - count]
        places = np.flatnonzero(values >= minimum)
    else:
        places = np.flatnonzero(values > -np.inf)
    return places[np.argsort(-values[places], kind="stable")][:count]
