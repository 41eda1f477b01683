"""Weights in 16 bits scaled by what their sums are shifted left by, which then costs no instruction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.analysis.vectors import at_every_place
from sdk.compiler.ir.intrinsics import imm
from sdk.compiler.ir.types import I8
from sdk.compiler.ir.walk import walk
from sdk.compiler.machines.nest import Nest
from sdk.compiler.schedules.rules.joined import bias_of, farthest
from sdk.compiler.schedules.shift_sums import Requantized, requantized
from sdk.compiler.schedules.trace import Schedule

__all__ = ["shift_sums"]

# by how much sums are shifted right in the end where channels allow it: one number for as many layers as may be, so
# that they share kernels; it serves multipliers of 2**-3 to 2**-10, as all but the outliers of MLPerf Tiny's models are
FINAL: Final = 10
LARGEST_FINAL: Final = 31


def shift_sums(s: Schedule, nest: Nest) -> None:
    """Moves the shift of requantised sums into the weights, kept in 16 bits, and makes that to the right one number for
    all channels where their shifts are near each other; does nothing where the constants of a call do not allow it."""
    part, known = nest.part, nest.known or {}
    uses = {use for n in walk(nest.loops.body) if (use := requantized(n)) is not None and use.acc.buffer == part.acc}
    if len(uses) == 1 and nest.loops.param(part.b).buffer.dtype == I8:
        (use,) = uses
        if _fits(nest, use.bits):
            s.attempt(Schedule.shift_sums, part.b, _final(use, known.get(use.right.buffer, ())))


def _fits(nest: Nest, bits: int) -> bool:
    """Whether shifted sums, in any order, fit 32 bits at every call."""
    loops, part, known = nest.loops, nest.part, nest.known or {}
    weights, bias = known.get(part.b), known.get(bias_of(loops, part))
    if weights is None or bias is None:
        return False
    maximum, axis = farthest(loops, part), _row_axis(nest)
    for w, b in zip(weights, bias, strict=True):
        rows = np.moveaxis(w, axis, 0).reshape(w.shape[axis], -1).astype(np.int64)
        reach = np.abs(rows).sum(axis=1) * maximum + np.abs(b.reshape(-1).astype(np.int64))
        if int(reach.max()) << bits >= 1 << 31:
            return False
    return True


def _row_axis(nest: Nest) -> int:
    """The axis of the weights that the channels of the result run over."""
    return 0 if nest.kind == "contraction" else len(nest.loops.param(nest.part.b).buffer.shape) - 1


def _final(use: Requantized, rights: Sequence[NDArray[Any]]) -> int:
    """The number that all sums of all calls may be shifted right by in the end; 0 where there is none."""
    if not rights:
        return 0
    lo, hi = max(*(int(r.max()) - use.bits for r in rights), 1), min(*(int(r.min()) for r in rights), LARGEST_FINAL)
    near = sorted(range(lo, hi + 1), key=lambda n: abs(n - FINAL))
    return next((n for n in near if all(_whole(use, right.reshape(-1), n) for right in rights)), 0)


def _whole(use: Requantized, right: NDArray[Any], final: int) -> bool:
    """Whether what is added stays a whole number where less is shifted."""
    less = (np.int64(1) << (right.astype(np.int64) - final)) - 1
    added = (use.tail, imm(use.away))
    return not any(np.any(at_every_place(part, {use.right.buffer: right}) & less) for part in added)
