"""Binding the dims of a function to those of a call by matching parameter types with argument types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sdk.compiler.ir.types import TensorType
from sdk.compiler.sym import Dim, Var, floordiv, free_vars, only_unknown, prove_eq, prove_ge, substitute
from sdk.compiler.sym.text import print_bounds, print_dim

__all__ = ["unify"]

Problem = Callable[[str], None]


def unify(
    dims: Sequence[Var],
    pairs: Sequence[tuple[str, TensorType, TensorType]],
    scope: Mapping[str, Var],
    problem: Problem,
) -> dict[Var, Dim]:
    """The value of each of ``dims`` for which every (name, parameter type, argument type) agrees.

    A dim is bound by the first axis that is that dim alone, else the first ``c*dim + d`` in which only it is left to
    bind; every other axis must then be proved equal. A dim that
    no axis binds is the caller's own of that name and those bounds (a position, say, which is in no shape).
    ``scope`` has the caller's dims by name. What does not fit, or cannot be proved to, goes to ``problem``.
    """
    bound: dict[Var, Dim] = {}
    later: list[tuple[str, int, Dim, Dim]] = []
    mine = set(dims)
    for name, param, arg in pairs:
        if param.dtype != arg.dtype:
            problem(f"{name} is {param.dtype}, given {arg.dtype}")
        if param.rank != arg.rank:
            problem(f"{name} has {param.rank} axes, given {arg.rank}")
            continue
        for axis, (want, have) in enumerate(zip(param.shape, arg.shape, strict=True)):
            names = free_vars(want)
            alone = [v for v in names if v in mine and v not in bound and v.expr is want]
            if alone:
                bound[alone[0]] = have
            else:
                later.append((name, axis, want, have))
    for _, _, want, have in later:
        found = only_unknown(want, bound)
        if found is not None and found[0] in mine and found[1] > 0 and isinstance(found[2], int):
            bound[found[0]] = floordiv(have - found[2], found[1])
    for var in dims:
        if var not in bound and scope.get(var.name) is var:
            bound[var] = var.expr
        if var in bound:
            _check_bounds(var, bound[var], problem)
        else:
            problem(f"no argument binds the dim {var.name}")
    for name, axis, want, have in later:
        value = substitute(want, bound)
        equal = prove_eq(value, have)
        if equal is not True:
            how = "is not" if equal is False else "cannot be proved to be"
            problem(f"axis {axis} of {name} {how} {print_dim(value)}, given {print_dim(have)}")
    return bound


def _check_bounds(var: Var, value: Dim, problem: Problem) -> None:
    inside = prove_ge(value, var.lo) is True and prove_ge(var.hi, value) is True
    whole = var.multiple == 1 or prove_eq(value % var.multiple, 0) is True
    if not inside or not whole:
        problem(f"{print_dim(value)} is not proved inside the bounds {print_bounds(var)} of {var.name}")
