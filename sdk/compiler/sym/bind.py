"""The values of dims that actual shapes tell, with errors that name the tensor, the axis, the value and the bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sdk.compiler.sym.contents import evaluate, free_vars
from sdk.compiler.sym.dim import Dim, Var
from sdk.compiler.sym.linear import only_unknown
from sdk.errors import UsageError

__all__ = ["bind_entry", "bind_shapes", "check_bounds", "solve"]


def solve(dim: Dim, size: int, env: Mapping[Var, int]) -> tuple[Var, int] | None:
    """The only unbound symbol in ``c*v + d == size`` and its value; None for other forms."""
    found = only_unknown(dim, env)
    if found is None:
        return None
    var, factor, rest = found
    value, left = divmod(size - evaluate(rest, env), factor)
    return (var, value) if left == 0 else None


def check_bounds(what: str, var: Var, value: int) -> None:
    """Refuses a value of a dim that its bounds exclude; ``what`` names where it comes from, as ``x axis 0``.

    Raises:
        UsageError: names what made the dim so, the dim, the value and the bound.
    """
    if not var.lo <= value <= var.hi:
        raise UsageError(
            f"{what} makes {var.name} = {value}, outside its bounds {var.lo}..{var.hi}",
            hint=f"give a {var.name} of {var.lo} to {var.hi}, or build with a wider --dim {var.name}=LO:HI",
        )
    if value % var.multiple:
        raise UsageError(f"{what} makes {var.name} = {value}, which is not a multiple of {var.multiple}")


def bind_shapes(
    tensors: Sequence[tuple[str, Sequence[Dim], Sequence[int]]], given: Mapping[Var, int] | None = None
) -> dict[Var, int]:
    """Values of the symbols of every (name, dims, actual extents), of one rank each; ``given`` are known already.

    Raises:
        UsageError: an extent contradicts a dim, another extent, or the bounds of its symbol; the message names the
            tensor, the axis, the value and the bound. Or nothing tells a symbol.
    """
    env = dict(given or {})
    for name, dims, shape in tensors:
        if len(shape) != len(dims):
            wanted_shape = _text(dims, env)
            raise UsageError(
                f"{name!r} has {len(shape)} axes, the model wants {len(dims)}: shape {list(shape)}, not {wanted_shape}",
                hint=f"give an array of shape {wanted_shape}",
            )
        for axis, (dim, size) in enumerate(zip(dims, shape, strict=True)):
            found = solve(dim, size, env)
            if found is not None:
                check_bounds(f"{name} axis {axis}", *found)
                env[found[0]] = found[1]
    for name, dims, shape in tensors:
        for axis, (dim, size) in enumerate(zip(dims, shape, strict=True)):
            unknown = sorted(v.name for v in free_vars(dim) - env.keys())
            if unknown:
                raise UsageError(f"no shape tells the dim {unknown[0]} of {name} axis {axis}: {dim}", hint="give it")
            wanted = evaluate(dim, env)
            if wanted != size:
                raise UsageError(
                    f"{name!r} has {size} elements on axis {axis}, the model wants {wanted}:"
                    f" shape {list(shape)}, not {_text(dims, env)}",
                    why=_reason(dim, env),
                    hint=f"give an array of shape {_text(dims, env)}",
                )
    return env


def bind_entry(
    entry: str,
    dims: Sequence[Var],
    tensors: Sequence[tuple[str, Sequence[Dim], Sequence[int]]],
    given: Mapping[str, int],
    held: Mapping[Var, int],
) -> dict[Var, int]:
    """The values of the ``dims`` of an entry that runs on ``tensors``, as ``bind_shapes`` takes them. ``given`` tells
    those that stand alone in no shape (it says nothing of the others), ``held`` those bound at init.

    Raises:
        UsageError: a value is outside the bounds of its dim or contradicts a shape, or nothing tells a dim.
    """
    alone = {dim for _, shape, _ in tensors for dim in shape}
    known = {v: given[v.name] for v in dims if v.name in given and v.expr not in alone}
    for var, value in known.items():
        check_bounds("dims", var, value)
    env = bind_shapes(tensors, {**known, **held})
    unbound = [v.name for v in dims if v not in env]
    if unbound:
        raise UsageError(f"dim {unbound[0]} of {entry} has no value", hint="no shape tells it: give it in dims")
    return env


def _text(dims: Sequence[Dim], env: Mapping[Var, int]) -> str:
    """The shape, with the numbers that are known."""
    known = [evaluate(d, env) if free_vars(d) <= env.keys() else d for d in dims]
    return f"[{', '.join(map(str, known))}]"


def _reason(dim: Dim, env: Mapping[Var, int]) -> str | None:
    if isinstance(dim, int):
        return None
    values = ", ".join(f"{v.name} = {env[v]}" for v in sorted(free_vars(dim), key=lambda v: v.name))
    return f"the extent is {dim} with {values}"
