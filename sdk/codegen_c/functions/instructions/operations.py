"""Operations that only instructions have: beside those of ``INTRINSICS``, what one of them does of several at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import Cost, Intrinsic, srdhm
from sdk.compiler.ir.loops import Imm, Op, ValueExpr
from sdk.compiler.ir.types import I8, I16, U8, DType

__all__ = ["MEMORY", "OWN", "operation"]

Array = NDArray[Any]

# the first lanes of a vector read and written, and a vector read into scalars: statements, which have no value
MEMORY: Final = ("loadn", "storen", "apart")


def _words(fn: Callable[..., Array]) -> Callable[[list[Array], DType], Array]:
    """Computes in 64 bits, of which the lower 32 stay."""
    return lambda args, dtype: np.asarray(fn(*(a.astype(np.int64) for a in args))).astype(dtype.numpy)


def _saturated(dtype: DType, shifted: bool) -> Callable[[list[Array], DType], Array]:
    lo, hi = dtype.limits
    return _words((lambda x, by: np.clip(x >> by, lo, hi)) if shifted else (lambda x: np.clip(x, lo, hi)))


def _rescale_product(args: list[Array], dtype: DType) -> Array:
    a, b, e, twice = args
    return np.asarray((srdhm(a, b).astype(np.int64) >> (e - 1)) + twice).astype(dtype.numpy)


def _own(name: str, arity: int, fn: Callable[[list[Array], DType], Array]) -> Intrinsic:
    return Intrinsic(name, arity, "same", Cost.CHEAP, fn)


OWN: Final = {
    row.name: row
    for row in (
        # what the type holds that is nearest to an i32, or to one shifted right
        *(_own(f"clamp_{t}", 1, _saturated(t, shifted=False)) for t in (I8, U8, I16)),
        *(_own(f"clamp_shr_{t}", 2, _saturated(t, shifted=True)) for t in (I8, U8, I16)),
        # (a, b, e, twice): srdhm30 of a and b shifted right by e - 1, and twice added; |twice| < 512, 1 <= e <= 22
        _own("rescale_product", 4, _rescale_product),
        _own("mla", 3, _words(lambda c, a, b: c + a * b)),
        _own("mul_high", 2, _words(lambda a, b: (a * b + (1 << 31)) >> 32)),  # the high word, rounded
        _own("mac_high_rounded", 3, _words(lambda a, b, c: c + ((a * b + (1 << 31)) >> 32))),
        _own("add_sign", 1, _words(lambda x: x + (x >> 31))),  # -1 where x is negative
        _own("complement", 1, _words(lambda x: ~x)),
    )
}


def operation(value: Op) -> tuple[str, tuple[ValueExpr, ...]]:
    """The operation that a value is and its arguments: one of ``OWN`` where that does several operations at once."""
    match value:
        case Op("add", (total, Op("mul", (a, b)))):
            return "mla", (total, a, b)
        case Op("sub", (Op("neg", (x,)), Imm(1))):
            return "complement", (x,)
        case _:
            return value.name, value.args
