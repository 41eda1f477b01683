"""The loops that write rows of a state: into their slots where it is a ring, at their places where it is plain."""

from __future__ import annotations

from typing import Final

from sdk.compiler.ir.loops import Block, If, Load, Loops, Stmt, Store
from sdk.compiler.ir.module import State
from sdk.compiler.ir.types import TensorType
from sdk.compiler.ops.build import function, loop, param, variable, within
from sdk.compiler.sym import Dim, ceildiv, floordiv, max_value, mod, product, prove_ge
from sdk.errors import BuildError

__all__ = ["write_rows"]

_MAX_PLACE: Final = (1 << 31) - 1


def write_rows(name: str, rows: TensorType, state: State, at: Dim) -> Loops:
    """``s[.., at + k, ..] = x[.., k, ..]`` for each row k in order; in a ring row r lies in slot ``r mod`` its extent,
    in one of blocks of ``b`` rows at ``[.., r / b, .., r mod b]``. Rows of a plain state that are not proved inside it
    are written where they are.

    Raises:
        BuildError: the place of a row as if there were no ring may not fit the 32 bits that generated code counts in.
    """
    shape, axis, row_axis = state.type.shape, state.axis, state.row_axis
    block = shape[-1] if state.layout == "blocked" else 1
    assert isinstance(block, int)  # as the verifier has it
    last = ceildiv(at + rows.shape[row_axis], block) * product(shape[axis + 1 :])
    maximum = max_value(last)
    if maximum is None or maximum > _MAX_PLACE:
        raise BuildError(
            f"rows of a state are written up to element {last}, which may not fit 32 bits",
            hint="give the position a smaller upper bound",
        )
    over = [variable(f"i{k}", extent) for k, extent in enumerate(rows.shape)]
    index = [v.expr for v in over]
    place, extent = at + index[row_axis], state.extent
    slot = place if state.layout == "plain" else mod(place, extent)
    if state.layout == "blocked":
        others = [i for k, i in enumerate(index) if k != row_axis]
        to = (*others[:axis], floordiv(slot, block), *others[axis:], mod(slot, block))
    else:
        to = (*index[:axis], slot, *index[axis + 1 :])
    # the last row written into a slot stays: the loop over rows is the outer one
    store: Stmt = Store("s", to, Load("x", tuple(index), rows.dtype))
    proved = state.layout != "plain" or (
        prove_ge(at, 0) is True and prove_ge(extent - rows.shape[row_axis] - at, 0) is True
    )
    cond = None if proved else within([(place, extent)])
    body: Stmt = store if cond is None else If(cond, Block((store,)))
    for var, size in reversed([(v, s) for v, s in zip(over, rows.shape, strict=True) if v is not over[row_axis]]):
        body = loop(var, size, body)
    body = loop(over[row_axis], rows.shape[row_axis], body)
    return function(name, [param("x", rows), param("s", state.type, "update")], [body])
