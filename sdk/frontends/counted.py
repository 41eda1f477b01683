"""Results whose size follows from data: a dim that the run counts."""

from __future__ import annotations

from sdk.compiler.ir.graph import BindDim, Value, fresh_name
from sdk.compiler.sym import Dim, Var, max_value
from sdk.frontends.emit import Emitter

__all__ = ["new_dim", "positions"]


def new_dim(node: Emitter, count: Value, maximum: Dim) -> Dim:
    """A dim that is at run time what ``count`` (one integer) holds, at most ``maximum``; a number where that is known.

    Raises:
        BuildError: nothing bounds ``maximum``.
    """
    known = node.builder.contents_of(count)
    if known is not None and known.numbers is not None:
        return int(known.numbers.reshape(-1)[0])
    hi = max_value(maximum)
    if hi is None:
        node.fail(f"nothing bounds how large its result is: {maximum}", hint="give bounds to the dims of the inputs")
    taken = node.builder.names | set(node.builder.dims)
    var = Var(fresh_name(f"{node.stem}_count", taken), 0, hi)
    node.builder.names.add(var.name)
    node.builder.body.append(BindDim(var, count, node.source))
    return var.expr


def positions(node: Emitter, flags: Value, maximum: Dim) -> Value:
    """Where ``flags`` are set, i64[rank, count]: for the same flags the same value."""
    found = node.builder.places
    if flags.name not in found:
        count = new_dim(node, node.call("count_nonzero", flags), maximum)
        found[flags.name] = node.call("nonzero", flags, count=count)
    return found[flags.name]
