"""Whether threads may share a call, and how its rows are cut for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sdk.compiler.analysis.rows import row_granule, shared_params
from sdk.compiler.analysis.work import PART_WORK, operations
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.plan import Split
from sdk.compiler.sym import Dim, max_value, substitute

__all__ = ["split_of"]


def split_of(
    function: Loops, args: Sequence[str], dims: Sequence[Dim], alias: Mapping[str, str], threads: int
) -> Split | None:
    """How ``threads`` may share a call for all rows; None where one does it, or its parts are not proved independent.

    ``args`` are its buffers, ``alias`` gives each the one whose bytes it shares ("" = none), ``dims`` are the values
    of the dims of the function.
    """
    if threads == 1:
        return None
    granule = row_granule(function, shared_params(function, args, alias))
    if granule is None:
        return None
    env = dict(zip(function.dims, dims, strict=True))
    work = substitute(operations(function, granule), env)
    extent = substitute(function.rows.extent, env) if function.rows is not None else 0
    total = (max_value(work) or 0) * (max_value(extent) or 0)
    worth = total >= 2 * PART_WORK * granule and max_value(extent) != granule
    return Split(threads, granule, work) if worth else None
