"""Binding dims at a call: by unification of declared shapes with given shapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.types import TensorType
from sdk.compiler.sym import Dim, Expr, Var
from sdk.errors import BuildError

__all__ = ["bind_dims", "unify"]


def unify(shapes: Iterable[tuple[Sequence[Dim], Sequence[Dim]]]) -> dict[Var, Dim]:
    """The value of each variable alone in a declared shape, from the first ``(declared, given)`` pair."""
    env: dict[Var, Dim] = {}
    for declared, given in shapes:
        for dim, value in zip(declared, given, strict=True):
            var = _alone(dim)
            if var is not None:
                env.setdefault(var, value)
    return env


def bind_dims(loops: Loops, types: Sequence[TensorType]) -> tuple[Dim, ...]:
    """Values of ``loops.dims`` in order, where ``types`` are the types of the arguments in parameter order.

    Raises:
        BuildError: wrong number or rank of arguments, or a dim that stands alone in no parameter's shape.
    """
    if len(types) != len(loops.params):
        raise BuildError(f"@{loops.name} has {len(loops.params)} parameters, the call gives {len(types)}")
    for p, given in zip(loops.params, types, strict=True):
        if len(p.buffer.shape) != given.rank:
            raise BuildError(
                f"@{loops.name} wants {p.buffer.name} of rank {len(p.buffer.shape)}, got rank {given.rank}"
            )
    env = unify((p.buffer.shape, t.shape) for p, t in zip(loops.params, types, strict=True))
    missing = [v.name for v in loops.dims if v not in env]
    if missing:
        raise BuildError(
            f"the call of @{loops.name} does not say {', '.join(missing)}",
            why="each dim must stand alone in a parameter's shape",
        )
    return tuple(env[v] for v in loops.dims)


def _alone(dim: Dim) -> Var | None:
    """The variable that ``dim`` is, or None."""
    if isinstance(dim, Expr) and dim.const == 0 and len(dim.terms) == 1:
        ((term, coeff),) = dim.terms
        if coeff == 1 and len(term) == 1 and isinstance(term[0][0], Var) and term[0][1] == 1:
            return term[0][0]
    return None
