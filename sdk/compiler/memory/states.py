"""Where states lie in the state region."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sdk.compiler.ir.module import State
from sdk.compiler.sym import Dim, Var, ceildiv, max_value, prove_eq
from sdk.errors import BuildError

__all__ = ["state_offsets"]

_MAX_STATE_BYTES: Final = (1 << 31) - 1


def state_offsets(
    states: Mapping[str, State], align: int, iterations: Mapping[int, Var] | None = None
) -> tuple[dict[str, Dim], Dim]:
    """Offsets of all states in the state region, in the order of the module, and the region's bytes: dims of those
    bound at init. One with iterations is there once for each, at places that depend on the number of the iteration,
    for which ``iterations`` has a dim by how many there are.

    Raises:
        BuildError: more bytes than 32 bits count.
    """
    out: dict[str, Dim] = {}
    at: Dim = 0
    for state in states.values():
        to = max(align, state.type.dtype.nbytes)
        first, size = _up(at, to), state.type.nbytes
        stride = _up(size, to)
        out[state.name] = first if state.iterations == 1 else first + (iterations or {})[state.iterations].expr * stride
        at = first + stride * (state.iterations - 1) + size
    maximum = max_value(at)
    if not isinstance(at, int) and (maximum is None or maximum > _MAX_STATE_BYTES):
        raise BuildError(f"states of {at} bytes may not fit 32 bits", hint="give their dims smaller upper bounds")
    return out, at


def _up(size: Dim, to: int) -> Dim:
    """The next multiple of ``to``."""
    return size if prove_eq(size % to, 0) is True else ceildiv(size, to) * to
