"""Quantised tensors of u8 as tensors of i8 that stand for the same reals: stored values and zero points 128 lower.

So one set of kernels serves both: sums, differences and products see only ``stored - zero point``, and what clamps or
compares stored values does so in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from sdk.compiler.ir.types import I8, U8
from sdk.errors import BuildError
from sdk.frontends.tflite.reader import Tensor

__all__ = ["LOWER", "LOWERED", "RAISE", "is_unsigned", "lowered"]

LOWERED: Final = 128  # by how much
_SAME: Final = {"mult": 1 << 30, "shift": 1}  # a ratio of one
# Attributes of ``rescale`` from u8 to i8, and back.
LOWER: Final[Mapping[str, Any]] = {"out": "i8", "in_zp": LOWERED, **_SAME, "zp": 0, "lo": -128, "hi": 127}
RAISE: Final[Mapping[str, Any]] = {"out": "u8", "in_zp": 0, **_SAME, "zp": LOWERED, "lo": 0, "hi": 255}


def is_unsigned(tensor: Tensor) -> bool:
    """Whether it is a quantised tensor of u8; one without a scale holds numbers that stand for themselves."""
    return tensor.dtype == U8 and bool(tensor.scales)


def lowered(tensor: Tensor) -> Tensor:
    """The tensor of i8 that stands for the reals of one of u8.

    Raises:
        BuildError: a zero point that u8 does not hold.
    """
    bad = [z for z in tensor.zero_points if not 0 <= z <= 255]
    if bad:
        raise BuildError(f"tensor {tensor.name} has the zero point {bad[0]}, outside {tensor.dtype}")
    data = None if tensor.data is None else (tensor.data ^ np.uint8(128)).view(np.int8)
    return replace(tensor, dtype=I8, data=data, zero_points=tuple(z - LOWERED for z in tensor.zero_points))
