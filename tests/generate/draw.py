"""Random choices of sizes, scales and attributes, the odd and extreme ones more often than chance would."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

import numpy as np

from .fills import FILLS, Fill
from .network import Spec

__all__ = ["Draw"]

T = TypeVar("T")
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33)
CHANNELS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33)


class Draw:
    """A stream of choices; only methods of ``random`` whose results Python has never changed are used."""

    def __init__(self, seed: int, kind: str) -> None:
        self.random = Random(f"{kind}/{seed}")

    def below(self, count: int) -> int:
        return int(self.random.random() * count)

    def between(self, minimum: int, maximum: int) -> int:
        return minimum + self.below(maximum - minimum + 1)

    def chance(self, likely: float) -> bool:
        return self.random.random() < likely

    def one(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        left, found = list(items), []
        while left:
            found.append(left.pop(self.below(len(left))))
        return found

    # -- sizes --------------------------------------------------------------------------------------------------

    def size(self, maximum: int = 33) -> int:
        return self.one([s for s in SIZES if s <= maximum])

    def channels(self, maximum: int = 33) -> int:
        return self.one([c for c in CHANNELS if c <= maximum])

    def shape(self, rank: int, maximum: int = 2500, batch: bool = True) -> tuple[int, ...]:
        """A shape of at most ``maximum`` elements whose first axis is 1, now and then more."""
        first = 1 if not batch or self.chance(0.85) else self.between(2, 3)
        while True:
            found = (first, *(self.size() for _ in range(rank - 1)))
            if rank == 4:
                found = (*found[:3], self.channels())
            if rank >= 3 and self.chance(0.15):  # an image of one row or column: a 1-D convolution
                k = self.between(1, 2)
                found = (*found[:k], 1, *found[k + 1 :])
            if math.prod(found) <= maximum:
                return tuple(found)

    def factors(self, count: int, rank: int) -> tuple[int, ...]:
        """A shape of ``rank`` axes and ``count`` elements."""
        found = [1] * rank
        for prime in _primes(count):
            found[self.below(rank)] *= prime
        return tuple(found)

    # -- values -------------------------------------------------------------------------------------------------

    def fill(self) -> Fill:
        return self.one(FILLS), self.below(1 << 30)

    def real(self, minimum: float, maximum: float) -> float:
        """A number that f32 holds, made without functions that differ by machine."""
        return float(np.float32(minimum + (maximum - minimum) * self.below(1 << 16) / (1 << 16)))

    def scale(self, low: int = -10, high: int = 0) -> float:
        """Between 2**low and 2**(high + 1), now and then a power of two."""
        part = 1.0 if self.chance(0.2) else 1 + self.below(1 << 20) / (1 << 20)
        return float(np.float32(math.ldexp(part, self.between(low, high))))

    def zero(self, dtype: str) -> int:
        """A zero point, often at an end of its type."""
        if dtype not in ("int8", "uint8"):
            return 0
        offset = 128 if dtype == "uint8" else 0
        return offset + (self.one((-128, -128, -128, 127, 0, 0, 0)) if self.chance(0.5) else self.between(-100, 100))

    def activation(self, choices: Sequence[T], zero: int) -> T:
        """A fused activation, seldom one that leaves a single value of those above ``zero``."""
        return self.one(choices) if zero < 100 or self.chance(0.1) else choices[0]

    def quantised(self, shape: tuple[int, ...], dtype: str) -> Spec:
        if dtype == "float32":
            return Spec(shape, dtype)
        return Spec(shape, dtype, self.scale(-14, -6) if dtype == "int16" else self.scale(-8, -2), self.zero(dtype))

    def pair(self, choices: Sequence[Any], equal: float = 0.65) -> tuple[Any, Any]:
        """Two choices, often the same one twice."""
        first = self.one(choices)
        return first, first if self.chance(equal) else self.one(choices)


def _primes(number: int) -> list[int]:
    found, factor = [], 2
    while number > 1:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return found
