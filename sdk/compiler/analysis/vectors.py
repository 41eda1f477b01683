"""What an expression of elements of vectors is at every place of these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import apply
from sdk.compiler.ir.loops import Imm, Load, Op, ValueExpr
from sdk.errors import BuildError

__all__ = ["at_every_place"]


def at_every_place(value: ValueExpr, vectors: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """The value for each element of ``vectors``, which are equally long.

    Raises:
        BuildError: it is made of something else than their elements, numbers and operations.
    """
    match value:
        case Load():
            return vectors[value.buffer]
        case Imm():
            return np.full_like(next(iter(vectors.values())), value.value)
        case Op():
            return np.asarray(apply(value.name, [at_every_place(a, vectors) for a in value.args], value.dtype))
    raise BuildError(f"{value} is not made of elements of vectors")
