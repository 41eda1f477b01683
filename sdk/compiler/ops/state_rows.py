"""The loops that write rows of a state: into their slots where it is a ring, at their places where it is plain."""

from __future__ import annotations

from typing import Final

from sdk.compiler.ir.loops import Block, If, Load, Loops, Stmt, Store
from sdk.compiler.ir.types import TensorType
from sdk.compiler.ops.build import function, loop, param, variable, within
from sdk.compiler.sym import Dim, max_value, mod, product, prove_ge
from sdk.errors import BuildError

__all__ = ["write_rows"]

_MOST_PLACE: Final = (1 << 31) - 1


def write_rows(name: str, rows: TensorType, state: TensorType, at: Dim, ring: bool, axis: int) -> Loops:
    """``s[.., at + k, ..] = x[.., k, ..]`` for each row k of ``axis`` in order; in a ring row r lies in slot
    ``r mod`` its extent. Rows of a plain state that are not proved inside it are written where they are.

    What must hold: the types differ in the extent of ``axis`` alone.

    Raises:
        BuildError: the place of a row as if there were no ring may not fit the 32 bits that generated code counts in.
    """
    last = (at + rows.shape[axis]) * product(state.shape[axis + 1 :])
    most = max_value(last)
    if most is None or most > _MOST_PLACE:
        raise BuildError(
            f"rows of a state are written up to element {last}, which may not fit 32 bits",
            hint="give the position a smaller upper bound",
        )
    over = [variable(f"i{k}", extent) for k, extent in enumerate(rows.shape)]
    index = [v.expr for v in over]
    extent = state.shape[axis]
    place = at + index[axis]
    slot = mod(place, extent) if ring else place
    # the last row written into a slot stays: the loop over rows is the outer one
    store: Stmt = Store("s", (*index[:axis], slot, *index[axis + 1 :]), Load("x", tuple(index), rows.dtype))
    proved = ring or (prove_ge(at, 0) is True and prove_ge(extent - rows.shape[axis] - at, 0) is True)
    cond = None if proved else within([(place, extent)])
    body: Stmt = store if cond is None else If(cond, Block((store,)))
    for var, size in reversed([(v, s) for v, s in zip(over, rows.shape, strict=True) if v is not over[axis]]):
        body = loop(var, size, body)
    body = loop(over[axis], rows.shape[axis], body)
    return function(name, [param("x", rows), param("s", state, "update")], [body])
