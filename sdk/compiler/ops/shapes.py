"""Shape rules that several operators share: broadcasting, equal extents, window extents."""

from __future__ import annotations

from collections.abc import Sequence

from sdk.compiler.sym import Dim, floordiv, prove_eq
from sdk.errors import BuildError

__all__ = ["broadcast_shapes", "require_equal", "same_extent", "window_extent"]


def same_extent(a: Dim, b: Dim) -> bool:
    """Whether two extents are proved equal."""
    return prove_eq(a, b) is True


def require_equal(what: str, a: Dim, b: Dim) -> None:
    """Checks that two extents are proved equal.

    Raises:
        BuildError: they differ, or may differ for some value of their symbols.
    """
    if not same_extent(a, b):
        raise BuildError(f"{what}: {a} and {b} are not known to be equal")


def broadcast_shapes(*shapes: Sequence[Dim]) -> tuple[Dim, ...]:
    """The shape the operands broadcast to by numpy's rules.

    Raises:
        BuildError: two extents are neither 1 nor proved equal.
    """
    rank = max((len(s) for s in shapes), default=0)
    out: list[Dim] = [1] * rank
    for shape in shapes:
        for k, dim in enumerate(shape, start=rank - len(shape)):
            if out[k] == 1:
                out[k] = dim
            elif dim != 1:
                require_equal(f"axis {k} of broadcast operands", out[k], dim)
    return tuple(out)


def window_extent(size: Dim, kernel: Dim, stride: int, dilation: int, before: int, after: int) -> Dim:
    """Output rows or columns of a window op on ``size`` padded by ``before`` and ``after``.

    Raises:
        BuildError: the stride or dilation is not positive, a pad is negative, or no window fits.
    """
    if stride < 1 or dilation < 1 or before < 0 or after < 0:
        raise BuildError(f"stride {stride}, dilation {dilation}, pads {before}, {after} are out of range")
    extent = floordiv(size + (before + after) - (kernel - 1) * dilation - 1, stride) + 1
    if isinstance(extent, int) and extent < 1:
        raise BuildError(f"a window of {kernel} does not fit into {size} padded by {before} and {after}")
    return extent
