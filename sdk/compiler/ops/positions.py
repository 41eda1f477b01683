"""Positions known only at run time, and conditions that keep an access inside its buffer where no proof does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.analysis.path_conditions import PathConditions
from sdk.compiler.ir.intrinsics import cast, idx, imm, op
from sdk.compiler.ir.loops import Block, If, Let, Load, Ref, Stmt, ValueExpr
from sdk.compiler.ir.types import I32, I64, DType, TensorType
from sdk.compiler.ops.build import Nest
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError

__all__ = [
    "Check", "all_of", "guarded", "known", "position", "read_inside", "require_indices", "resolve", "split_nest",
    "unproved",
]  # fmt: skip

Check = tuple[Dim, Dim]
_MAX = (1 << 31) - 1


def require_indices(what: str, dtype: DType) -> None:
    """Checks that ``dtype`` can hold positions.

    Raises:
        BuildError: it is no integer type.
    """
    if dtype.kind not in "iu":
        raise BuildError(f"{what} wants indices of an integer type, got {dtype}")


def split_nest(over: Nest, axes: Iterable[int]) -> tuple[Nest, Nest]:
    """The loops over ``axes`` of an output as one nest, those over its other axes as another."""
    mine = [over.index[k] for k in axes]
    first = tuple(found for found in over.loops if any(found[0].expr is at for at in mine))
    rest = tuple(found for found in over.loops if found not in first)
    return Nest(over.rows, over.index, first), Nest(over.rows, over.index, rest)


def known(over: Nest) -> PathConditions:
    """What holds inside the loops of a nest."""
    conditions = PathConditions()
    if over.rows is not None:
        rows = over.rows
        conditions = conditions.with_range(rows.lo, 0, rows.extent + 1)
        conditions = conditions.with_range(rows.hi, rows.lo.expr, rows.extent + 1)
    for var, lo, hi in over.loops:
        conditions = conditions.with_range(var, lo, hi)
    return conditions


def all_of(terms: Iterable[ValueExpr | None]) -> ValueExpr | None:
    """The conjunction of the conditions that are not None; None for none."""
    cond: ValueExpr | None = None
    for term in terms:
        if term is not None:
            cond = term if cond is None else op("and", cond, term)
    return cond


def unproved(checks: Sequence[Check], conditions: PathConditions) -> ValueExpr | None:
    """The condition that every ``0 <= index < extent``, without what the conditions prove; None when they prove all."""
    terms: list[ValueExpr] = []
    for at, extent in checks:
        if conditions.nonnegative(at) is not True:
            terms.append(op("ge", idx(at), imm(0)))
        if conditions.nonnegative(extent - 1 - at) is not True:
            terms.append(op("lt", idx(at), idx(extent)))
    return all_of(terms)


def read_inside(name: str, type: TensorType, index: Sequence[Dim], conditions: PathConditions) -> ValueExpr:
    """``name[index]``, or 0 where the index is not proved inside and is not inside at run time."""
    load = Load(name, tuple(index), type.dtype)
    cond = unproved(list(zip(index, type.shape, strict=True)), conditions)
    zero = imm(0.0 if type.dtype.is_float else 0, type.dtype)
    return load if cond is None else op("select", cond, load, zero, dtype=type.dtype)


def position(name: str, value: ValueExpr, extent: Dim) -> tuple[tuple[Stmt, Stmt], Dim]:
    """Names the position that an index means, negative ones counting from the end: the statements, and the
    position as a dim. Nothing says that it is inside: ``unproved`` gives the condition."""
    first = Let(f"{name}_given", _narrow(value))
    given = Ref(first.name, I32)
    wrapped = op("add", given, idx(extent))
    second = Let(name, op("select", op("lt", given, imm(0)), wrapped, given, dtype=I32))
    return (first, second), Var(name, *I32.limits).expr


def _narrow(value: ValueExpr) -> ValueExpr:
    """An integer as i32; one outside its range becomes the end of it, which is outside every buffer."""
    if value.dtype.bits < 32 or value.dtype == I32:
        return cast(value, I32)
    if value.dtype.bits == 32:
        value = cast(value, I64)
    value = op("min", value, imm(_MAX, value.dtype))
    return cast(op("max", value, imm(-_MAX - 1, I64)) if value.dtype == I64 else value, I32)


def guarded(cond: ValueExpr | None, then: Stmt, orelse: Stmt | None = None) -> Stmt:
    """``then`` where the condition holds, ``then`` alone where there is none."""
    if cond is None:
        return then
    return If(cond, Block((then,)), Block((orelse,)) if orelse is not None else None)


def resolve(indices: NDArray[np.integer], extent: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """In numpy: positions inside ``0..extent`` (0 for those outside), and which indices were inside."""
    wide = np.minimum(indices, _MAX) if indices.dtype.itemsize == 8 else indices
    at = np.maximum(np.asarray(wide).astype(np.int64), -_MAX - 1)
    at = np.where(at < 0, at + extent, at)
    inside = (at >= 0) & (at < extent)
    return np.where(inside, at, 0), inside
