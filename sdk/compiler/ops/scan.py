"""Running sums and products along the last axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import op
from sdk.compiler.ir.loops import Alloc, Buffer, Load, Loops, Stmt, Store
from sdk.compiler.ir.types import F16, F32, F64, I32, I64, TensorType
from sdk.compiler.ops.build import function, loop, nest, param, variable
from sdk.compiler.ops.numerics import compute_type, number, single, stored, widened
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.traits import OPAQUE
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

Array = NDArray[Any]


def _infer(name: str) -> Callable[..., TensorType]:
    def infer(x: TensorType, *, exclusive: bool, reverse: bool) -> TensorType:
        if x.rank < 1 or x.dtype.kind not in "fiu":
            raise BuildError(f"{name} is not defined on a {x.dtype} tensor of rank {x.rank}")
        return x

    return infer


def _reference(step: np.ufunc) -> Callable[..., Array]:
    def run(x: Array, *, exclusive: bool, reverse: bool) -> Array:
        line = x[..., ::-1] if reverse else x
        found = step.accumulate(line, axis=-1, dtype=x.dtype)
        if exclusive:
            start = np.full((*x.shape[:-1], 1), step.identity, x.dtype)
            found = np.concatenate([start, found[..., :-1]], axis=-1)[..., : x.shape[-1]]
        return np.ascontiguousarray(found[..., ::-1] if reverse else found)

    return run


def _loops(row: str, start: int) -> Callable[..., Loops]:
    def build(
        name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]
    ) -> Loops:
        """Each row { acc = start; elements { acc = step(acc, x); o = acc } }, in either direction."""
        x, over = types[0], nest(types[0].shape, inner=1)
        kind, size = compute_type(x.dtype), x.shape[-1]
        j = variable("j", size)
        at = (*over.index, size - 1 - j.expr if given["reverse"] else j.expr)
        acc = Load("acc", (), kind)
        steps: list[Stmt] = [
            Store("acc", (), op(row, acc, widened(Load("x", at, x.dtype)))),
            Store("o", at, stored(acc, x.dtype)),
        ]
        body = over.around(
            Alloc(Buffer("acc", kind, (), "register")),
            Store("acc", (), number(start, kind)),
            loop(j, size, *(reversed(steps) if given["exclusive"] else steps)),
        )
        return function(name, [param("x", x), param("o", outs[0], "write")], [body], over.rows)

    return build


_T = TensorType
_N: Dim = Var("n", 1, 6).expr
_WAYS = [(e, r) for e in (False, True) for r in (False, True)]

for _name, _row, _step, _start in (("cumsum", "add", np.add, 0), ("cumprod", "mul", np.multiply, 1)):
    define(
        OpDef(
            _name,
            ("x",),
            _infer(_name),
            single(_reference(_step)),
            _loops(_row, _start),
            samples=(
                *(sample(_T(F32, (2, 3, _N)), exclusive=e, reverse=r) for e, r in _WAYS),
                sample(_T(F32, (_N,)), exclusive=False, reverse=True),
                *(sample(_T(k, (_N, 5)), exclusive=True, reverse=False) for k in (F64, I32, I64)),
                sample(_T(F16, (2, 4)), exclusive=False, reverse=False),
            ),
            kind=OPAQUE,
        )
    )
