"""What must hold of one access to a buffer: its type, its rank, and every element inside."""

from __future__ import annotations

from collections.abc import Iterator

from sdk.compiler.analysis.dependence import row_axis
from sdk.compiler.analysis.path_conditions import PathConditions
from sdk.compiler.ir.loops import Buffer
from sdk.compiler.ir.types import DType
from sdk.compiler.sym import Dim, Var, flat_index, free_vars, product, prove_ge
from sdk.compiler.sym.text import print_dim

__all__ = ["access_errors"]


def access_errors(
    buffer: Buffer,
    index: tuple[Dim, ...],
    dtype: DType,
    exact: bool,
    unrolled: frozenset[Var],
    conditions: PathConditions,
    lanes_used: Dim | None = None,
    by_parts: bool = False,
) -> Iterator[str]:
    """Each finding about ``buffer[index]`` as ``dtype``, of whose lanes the first ``lanes_used`` count (None: all).

    ``exact`` forbids another signedness; ``unrolled`` are the loop variables that code sees as numbers; ``by_parts``
    also looks at the terms of an index apart, which tells of remainders on large images.
    """
    place = f"%{buffer.name}[{', '.join(map(print_dim, index))}]"
    own = buffer.dtype.scalar
    sign = own.kind in "iu" and dtype.kind in "iu" and own.bits == dtype.bits
    if dtype.scalar != own and (exact or not sign):
        yield f"{place} holds {own}, accessed as {dtype.scalar}"
    if len(index) != len(buffer.shape):
        yield f"{place} has {len(index)} indices, the buffer {len(buffer.shape)} axes"
        return
    moving = {v for at in index for v in free_vars(at)} - unrolled
    if buffer.space == "register" and moving:
        yield f"{place} is a register chosen at run time by {', '.join(sorted(v.name for v in moving))}"
    if dtype.lanes % buffer.dtype.lanes:
        yield f"{place} takes {dtype.lanes} lanes of {buffer.dtype}"
    if lanes_used is not None and (dtype.lanes == 1 or buffer.dtype.lanes > 1):
        yield f"{place} takes the first of several lanes, but has none"
    for at, bound, what, held in _checks(buffer, index, dtype.lanes // buffer.dtype.lanes, conditions, lanes_used):
        if held is not True and not (by_parts and held is None and prove_ge(bound, 0)):
            how = "is not always" if held is False else "cannot be proved"
            yield f"{place}: index {print_dim(at)} {how} {what}"


def _checks(
    buffer: Buffer, index: tuple[Dim, ...], count: int, conditions: PathConditions, used: Dim | None
) -> Iterator[tuple[Dim, Dim, str, bool | None]]:
    """Each index, what must not be negative, that in words, and whether it holds, for ``count`` elements from ``index``
    on, of which the first ``used`` are touched."""
    if used is not None:
        conditions = conditions.with_guards([used - 1])  # where no lane is touched, nothing must hold
    for at, extent in zip(index, buffer.shape, strict=True):
        yield at, at, ">= 0", conditions.nonnegative(at)
        yield at, extent - 1 - at, f"< {print_dim(extent)}", conditions.nonnegative(extent - 1 - at)
    if used is not None and index and conditions.nonnegative(buffer.shape[-1] - used - index[-1]) is True:
        return
    if count > 1 and (not index or conditions.nonnegative(buffer.shape[-1] - count - index[-1]) is not True):
        # lanes may run on over what is adjacent, which the slots of a ring are not, only what is in one
        inside = 0 if buffer.ring is None else row_axis(buffer.shape) + 1
        room = product(buffer.shape[inside:]) - count - flat_index(index[inside:], buffer.shape[inside:])
        held = conditions.nonnegative(room) if inside < max(len(index), 1) else None
        yield index[-1] if index else 0, room, f"+ {count} lanes inside", held
