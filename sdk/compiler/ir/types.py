"""Types of values: scalar and packed data types, quantisation parameters, tensor types."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.sym import Dim, evaluate, max_value, product
from sdk.errors import BuildError, UsageError

__all__ = [
    "BOOL",
    "F16",
    "F32",
    "F64",
    "I8",
    "I16",
    "I32",
    "I64",
    "SCALARS",
    "U8",
    "U16",
    "U32",
    "U64",
    "DType",
    "Quant",
    "TensorType",
    "dtype",
    "dtype_of",
]


@cache
def _numpy(kind: str, bits: int) -> np.dtype[np.generic]:
    return np.dtype(np.bool_ if kind == "b" else {"i": "int", "u": "uint", "f": "float"}[kind] + str(bits))


@dataclass(frozen=True, slots=True)
class DType:
    """A scalar (``i8``) or a short vector of equal scalars (``i8x4``)."""

    kind: str
    bits: int
    lanes: int = 1

    def __str__(self) -> str:
        base = "bool" if self.kind == "b" else f"{self.kind}{self.bits}"
        return base if self.lanes == 1 else f"{base}x{self.lanes}"

    @property
    def nbytes(self) -> int:
        """Storage in bytes of all lanes."""
        return max(self.bits // 8, 1) * self.lanes

    @property
    def scalar(self) -> DType:
        """The type of one lane."""
        return self if self.lanes == 1 else _of_lanes(self, 1)

    @property
    def is_float(self) -> bool:
        """Whether lanes are floating point."""
        return self.kind == "f"

    def with_lanes(self, lanes: int) -> DType:
        """The same scalar in ``lanes`` lanes."""
        return _of_lanes(self, lanes)

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """numpy's type of one lane."""
        return _numpy(self.kind, self.bits)

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest value of an integer lane."""
        if self.kind == "b":
            return 0, 1
        if self.kind == "u":
            return 0, (1 << self.bits) - 1
        return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1


@cache
def _of_lanes(of: DType, lanes: int) -> DType:
    return replace(of, lanes=lanes)


BOOL: Final = DType("b", 1)
I8: Final = DType("i", 8)
U8: Final = DType("u", 8)
I16: Final = DType("i", 16)
U16: Final = DType("u", 16)
I32: Final = DType("i", 32)
U32: Final = DType("u", 32)
I64: Final = DType("i", 64)
U64: Final = DType("u", 64)
F16: Final = DType("f", 16)
F32: Final = DType("f", 32)
F64: Final = DType("f", 64)
SCALARS: Final = {str(t): t for t in (BOOL, I8, U8, I16, U16, I32, U32, I64, U64, F16, F32, F64)}


def dtype(text: str) -> DType:
    """The data type spelled ``i8``, ``f32``, ``i8x4``, ``bool`` …

    Raises:
        UsageError: no such type.
    """
    base, _, lanes = text.partition("x")
    if base not in SCALARS or (lanes and not lanes.isdigit()):
        raise UsageError(f"unknown data type {text!r}", hint=f"one of {', '.join(SCALARS)}, or one with lanes as i8x4")
    return SCALARS[base].with_lanes(int(lanes)) if lanes else SCALARS[base]


def dtype_of(array: NDArray[Any], where: str | None = None) -> DType:
    """The data type of an array's elements; ``where`` names the array in a report.

    Raises:
        BuildError: there is none (text, complex numbers, 8-bit floats ...).
    """
    for kind in SCALARS.values():
        if kind.numpy == array.dtype:
            return kind
    raise BuildError(f"elements of type {array.dtype} are not supported", where=where)


@dataclass(frozen=True, slots=True)
class Quant:
    """Affine quantisation of a whole tensor: ``real = scale * (stored - zero_point)``."""

    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type and shape (dims, outermost first, row-major) of a tensor, and what its integers mean."""

    dtype: DType
    shape: tuple[Dim, ...]
    quant: Quant | None = None

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Dim:
        """Number of elements."""
        return product(self.shape)

    @property
    def nbytes(self) -> Dim:
        """Bytes of the dense tensor."""
        return self.size * self.dtype.nbytes

    @property
    def max_bytes(self) -> int:
        """Most bytes over the box of the dims (not at its corner: a size may peak inside).

        Raises:
            BuildError: a dim has no upper bound.
        """
        maximum = max_value(self.nbytes)
        if maximum is None:
            raise BuildError(
                f"the size {self.nbytes} has no upper bound",
                hint="give every dim a bound, e.g. --dim n=1:256",
            )
        return maximum

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape as ints.

        Raises:
            SdkError: the shape is symbolic.
        """
        return tuple(evaluate(d, {}) for d in self.shape)
