"""Rates of rotary positions: how fast each pair of a head's numbers turns, with what is known of longer contexts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.errors import BuildError
from sdk.llm.config import Rope

__all__ = ["rates"]

Rates = NDArray[np.float64]


def rates(rope: Rope, context: int) -> tuple[NDArray[np.float32], float]:
    """Radians by position for each of ``rope.dim // 2`` pairs, and what cosines and sines are multiplied by.

    Args:
        rope: which positions.
        context: positions that will be used; what depends on that ("longrope") is chosen by it once.

    Raises:
        BuildError: the scaling is none of those below, or lacks a parameter.
    """
    scale = _SCALINGS.get(rope.kind)
    if scale is None:
        known = ", ".join(_SCALINGS)
        raise BuildError(f"positions are scaled by {rope.kind[:40]!r}, which is not supported", hint=f"known: {known}")
    try:
        with np.errstate(all="ignore"):  # what comes of it is looked at
            plain = np.float64(rope.theta) ** -(np.arange(0, rope.dim, 2, dtype=np.float64) / rope.dim)
            found, magnitude = scale(plain, rope, rope.scaling, context)
            table = found.astype(np.float32)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise BuildError(
            f"the scaling {rope.kind} of positions is damaged", why=f"{type(error).__name__}: {error}"[:200],
            hint="fetch config.json again",
        ) from None  # fmt: skip
    if not (np.isfinite(table).all() and math.isfinite(magnitude)):
        raise BuildError(f"the scaling {rope.kind} of positions is damaged", hint="fetch config.json again")
    return table, magnitude


def _default(plain: Rates, rope: Rope, given: Mapping[str, Any], context: int) -> tuple[Rates, float]:
    return plain, 1.0


def _linear(plain: Rates, rope: Rope, given: Mapping[str, Any], context: int) -> tuple[Rates, float]:
    return plain / float(given["factor"]), 1.0


def _ntk(plain: Rates, rope: Rope, given: Mapping[str, Any], context: int) -> tuple[Rates, float]:
    """The base grows with the context that is asked for, beyond the one of training."""
    trained = int(given["original_max_position_embeddings"])
    if context <= trained:
        return plain, 1.0
    factor = float(given["factor"])
    stretch = factor * context / trained - (factor - 1)
    theta = rope.theta * np.float64(stretch) ** (rope.dim / (rope.dim - 2))
    return theta ** -(np.arange(0, rope.dim, 2, dtype=np.float64) / rope.dim), 1.0


def _llama3(plain: Rates, rope: Rope, given: Mapping[str, Any], context: int) -> tuple[Rates, float]:
    """Long waves are stretched, short ones stay, and those between are mixed."""
    factor, low, high = (float(given[k]) for k in ("factor", "low_freq_factor", "high_freq_factor"))
    trained = float(given["original_max_position_embeddings"])
    turns = trained * plain / (2 * math.pi)  # within the context of training
    mix = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return (1 - mix) * plain / factor + mix * plain, 1.0


def _yarn(plain: Rates, rope: Rope, given: Mapping[str, Any], context: int) -> tuple[Rates, float]:
    """As llama3 by the index of the pair, and scores are sharpened."""
    factor = float(given["factor"])
    trained = float(given["original_max_position_embeddings"])

    def pair(turns: float) -> float:
        return rope.dim * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(rope.theta))

    first, last = pair(float(given.get("beta_fast") or 32)), pair(float(given.get("beta_slow") or 1))
    if given.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, rope.dim - 1)
    ramp = np.clip((np.arange(rope.dim // 2) - first) / max(last - first, 0.001), 0.0, 1.0)
    found = ramp * plain / factor + (1 - ramp) * plain
    given_factor = given.get("attention_factor")
    return found, _sharpness(factor, given) if given_factor is None else float(given_factor)


def _sharpness(factor: float, given: Mapping[str, Any]) -> float:
    def one(mscale: float) -> float:
        return 0.1 * mscale * math.log(factor) + 1.0 if factor > 1 else 1.0

    mscale, of_all = given.get("mscale"), given.get("mscale_all_dim")
    return one(float(mscale)) / one(float(of_all)) if mscale and of_all else one(1.0)


def _longrope(plain: Rates, rope: Rope, given: Mapping[str, Any], context: int) -> tuple[Rates, float]:
    """A factor for each pair: one list for contexts as in training, one for longer ones."""
    trained = int(given["original_max_position_embeddings"])
    factors = np.array(given["long_factor" if context > trained else "short_factor"], dtype=np.float64)
    if factors.shape != plain.shape:
        raise ValueError(f"{factors.size} factors for {plain.size} pairs")
    magnitude = given.get("attention_factor")
    if magnitude is None:
        factor = float(given["factor"])
        magnitude = math.sqrt(1 + math.log(factor) / math.log(trained)) if factor > 1 else 1.0
    return plain / factors, float(magnitude)


def _factors(plain: Rates, rope: Rope, given: Mapping[str, Any], context: int) -> tuple[Rates, float]:
    """What GGUF files keep of llama3: each rate's divisor."""
    divisors = np.array(given["factors"], dtype=np.float64)
    if divisors.shape != plain.shape:
        raise ValueError(f"{divisors.size} factors for {plain.size} pairs")
    return plain / divisors, 1.0


_SCALINGS: Final[Mapping[str, Callable[[Rates, Rope, Mapping[str, Any], int], tuple[Rates, float]]]] = {
    "default": _default, "linear": _linear, "dynamic": _ntk, "llama3": _llama3, "yarn": _yarn, "longrope": _longrope,
    "factors": _factors,
}  # fmt: skip
