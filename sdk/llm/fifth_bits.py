"""Q5_0 and Q5_1 of GGUF files in blocks that products take.

The fifth bits of a block are one word in a file, bit ``n`` that of number ``n``. What multiplies four neighbours at a
time wants their fifth bits in four bytes, like the others. So the bits of each word change places, and nothing else:
bit ``4 * k + i`` becomes bit ``k`` of byte ``i``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sdk.llm.weights import FORMATS, Weight

__all__ = ["with_bytes_of_bits"]

_TURNED: Final = {"Q5_0": ("Q5_0T", 2), "Q5_1": ("Q5_1T", 4)}  # the format's name then, and where its word is
_BLOCKS: Final = 1 << 16  # at a time: what is computed with stays small


def _turned(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Bit 4 * k + i of each as bit 8 * i + k: the five digits of its place, in base 2, turn by two. That is four
    exchanges of the lowest digit with another, and each is a move of half of the bits at once."""
    for digit in (3, 1, 4, 2):
        shift = np.uint32((1 << digit) - 1)
        lower = sum(1 << place for place in range(32) if place & 1 and not place >> digit & 1)
        differ = (words ^ words >> shift) & np.uint32(lower)
        words = words ^ differ ^ differ << shift
    return words


def with_bytes_of_bits(weight: Weight) -> Weight:
    """The tensor in a format that products take, if it is in Q5_0 or Q5_1; others as they are. Its numbers stay."""
    if weight.format.name not in _TURNED:
        return weight
    name, at = _TURNED[weight.format.name]
    data = np.array(weight.data)
    halves = data.view("<u2").reshape(-1, weight.format.bytes // 2)[:, at // 2 : at // 2 + 2]
    for first in range(0, len(halves), _BLOCKS):
        part = halves[first : first + _BLOCKS]
        words = _turned(np.ascontiguousarray(part).view("<u4").astype(np.uint32, copy=False))
        part[...] = words.astype("<u4", copy=False).view("<u2")
    return Weight(weight.name, FORMATS[name], weight.shape, data)
