"""The primitive for wide sums: a part of a reduction summed in 32 bits, then added to the sum of 64."""

from __future__ import annotations

from typing import Final

from sdk.compiler.ir.intrinsics import cast, imm, op
from sdk.compiler.ir.loops import Alloc, Block, Buffer, For, Load, Loops, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import I32, I64
from sdk.compiler.ir.walk import walk
from sdk.compiler.schedules.locate import Loop, ScheduleError, fresh, replace_loop
from sdk.compiler.schedules.tensorize import factors_of
from sdk.compiler.sym import free_vars, max_value

__all__ = ["MAX_PRODUCTS", "partial"]

MAX_PRODUCTS: Final = I32.limits[1] // ((1 << 15) * (1 << 7))  # products of 16 by 8 bits that one sum of 32 bits holds


def partial(loops: Loops, name: Loop) -> Loops:
    """Sums what a loop adds to a sum of 64 bits in 32 bits first.

    rewrite: ``for k in 0..256 { c = c + i64(a[k])*i64(b[k]) }`` -->
    ``alloc t: i32; t = 0; for k in 0..256 { t = t + i32(a[k])*i32(b[k]) }; c = c + i64(t)``
    obligation: the loop holds one multiply-accumulate, whose sum does not vary with it; as many products as it has
    iterations, of the largest factors of their types, fit 32 bits.
    """
    part = fresh(loops, "part")

    def one(loop: For) -> tuple[Stmt, ...]:
        store, a, b = factors_of(loop.body.body[0])
        steps = max_value(loop.hi - loop.lo)
        varies = any(loop.var in free_vars(d) for d in store.index)
        if len(loop.body.body) != 1 or loop.until is not None or store.value.dtype != I64 or varies:
            raise ScheduleError(f"partial({name}): the loop does not hold one sum of 64 bits")
        if steps is None or steps * _farthest(a) * _farthest(b) > I32.limits[1]:
            raise ScheduleError(f"partial({name}): {steps} products of {a.dtype} and {b.dtype} may leave 32 bits")
        if any(isinstance(n, Load) and n.buffer == store.buffer for v in (a, b) for n in walk(v)):
            raise ScheduleError(f"partial({name}): the sum is a factor too")
        here: ValueExpr = Load(part, (), I32)
        step = Store(part, (), op("add", here, op("mul", cast(a, I32), cast(b, I32))))
        total = Load(store.buffer, store.index, I64)
        return (
            Alloc(Buffer(part, I32, (), "register")),
            Store(part, (), imm(0)),
            For(loop.var, loop.lo, loop.hi, Block((step,)), loop.kind),
            Store(store.buffer, store.index, op("add", total, cast(here, I64))),
        )

    return replace_loop(loops, name, one)


def _farthest(factor: ValueExpr) -> int:
    return max(map(abs, factor.dtype.limits))
