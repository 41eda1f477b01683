"""Loops functions whose own names are none of a model's dims: a model calls its sizes what it likes.

Loop variables, row ranges and integer scalars share one namespace with dims, and a variable is its name and bounds: a
dim ``i0`` would be the loop variable ``i0`` of the same bounds. So a function is made for dims of names that nothing
else has; its own names then give way to the dims of the whole model, since functions are merged later; so do names
that schedules would derive from them (``i0_o``, ``i0_i`` of ``i0``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sdk.compiler.ir.graph import Attr, Attrs, attr_symbols, map_attr
from sdk.compiler.ir.loops import For, Let, Loops, Ref
from sdk.compiler.ir.types import TensorType
from sdk.compiler.ir.walk import rewrite, statements, substitute_dims
from sdk.compiler.sym import Dim, Var, free_vars, substitute

__all__ = ["Make", "derives", "loops_apart"]

Make = Callable[[Sequence[TensorType], Sequence[TensorType], Mapping[str, Attr]], Loops]
_ASIDE = "@"  # no name has it: those of a file are made identifiers, ours are


def derives(name: str, own: str) -> bool:
    """Whether ``name`` is ``own`` or may be derived from it by a schedule."""
    return name == own or (name.startswith(own) and name[len(own)] in "_0123456789")


def loops_apart(
    make: Make, types: Sequence[TensorType], outs: Sequence[TensorType], given: Attrs, dims: Iterable[str] = ()
) -> Loops:
    """What ``make(types, outs, attributes)`` builds, with no name of its own that is one of ``dims`` or of the dims it
    uses."""
    used = {v for t in (*types, *outs) for d in t.shape for v in free_vars(d)} | attr_symbols(given)
    avoid = {*dims, *(v.name for v in used)}
    if not avoid:
        return make(types, outs, dict(given))
    aside = {v: Var(v.name + _ASIDE, v.lo, v.hi, v.multiple) for v in used}
    env: dict[Var, Dim] = {v: new.expr for v, new in aside.items()}
    ins, results = ([_moved(t, env) for t in side] for side in (types, outs))
    loops = _renamed(make(ins, results, {k: map_attr(v, lambda d: substitute(d, env)) for k, v in given}), avoid)
    back = {new: v for v, new in aside.items()}
    found = substitute_dims(loops, {new: v.expr for new, v in back.items()})
    return replace(found, dims=tuple(sorted((back.get(v, v) for v in loops.dims), key=lambda v: v.name)))


def _moved(type: TensorType, env: Mapping[Var, Dim]) -> TensorType:
    return replace(type, shape=tuple(substitute(d, env) for d in type.shape))


def _renamed(loops: Loops, avoid: set[str]) -> Loops:
    """The function with other names for what it declares where these stand in the way of ``avoid``."""
    scalars = {s.name: s for s in statements(loops.body) if isinstance(s, Let)}
    variables = {s.var for s in statements(loops.body) if isinstance(s, For)}
    variables |= {loops.rows.lo, loops.rows.hi} if loops.rows else set()
    taken = {v.name for v in variables} | set(scalars)
    names = {own: _free(own, avoid, taken) for own in sorted(taken) if any(derives(name, own) for name in avoid)}
    if not names:
        return loops
    new = {v: Var(names[v.name], v.lo, v.hi, v.multiple) for v in variables if v.name in names}
    for name in scalars.keys() & names.keys():
        kind = scalars[name].value.dtype
        if kind.kind in "iu" and kind.lanes == 1:  # which as an index is a variable of the range of its type
            new[Var(name, *kind.limits)] = Var(names[name], *kind.limits)

    def one(node: Any) -> Any:
        if isinstance(node, For):
            return replace(node, var=new.get(node.var, node.var))
        if isinstance(node, Let | Ref) and node.name in names:
            return replace(node, name=names[node.name])
        return node

    found = rewrite(substitute_dims(loops, {v: n.expr for v, n in new.items()}), one)
    if found.rows is None:
        return found
    lo, hi = (new.get(v, v) for v in (found.rows.lo, found.rows.hi))
    return replace(found, rows=replace(found.rows, lo=lo, hi=hi))


def _free(own: str, avoid: set[str], taken: set[str]) -> str:
    name = own
    while name in taken or any(derives(other, name) for other in avoid):
        name += "_"
    taken.add(name)
    return name
