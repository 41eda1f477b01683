"""The sizes that an exported program leaves open, and their bounds: its own, and the user's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sdk.compiler.ir.graph import fresh_name
from sdk.compiler.sym import Dim, Var
from sdk.errors import UsageError
from sdk.frontends.base import OpenSizesError, UnknownDimsError
from sdk.frontends.loop_bounds import Passes
from sdk.frontends.names import identifier
from sdk.frontends.torch.symbols import free_symbols, is_symbolic

__all__ = ["Bounds", "bounded"]

Bounds = int | tuple[int, ...]


def bounded(
    program: Any, inputs: Sequence[tuple[str, Any]], dims: Mapping[str, Bounds], names: Mapping[str, Any],
    passes: Passes | None = None,
) -> dict[str, Dim | Var]:  # fmt: skip
    """Each symbol of the shapes of inputs as a variable with bounds, or as a number.

    A symbol is called as ``names`` says for the input and axis that it is the size of, else after the first of these.
    What else ``dims`` names may be loops of the program, which ``passes`` is for.

    Raises:
        UsageError: one has no bounds; those given are beyond the program's; or they are for no size of it.
    """
    titles = _titles(inputs, names)
    unknown = sorted(set(dims) - set(titles.values()))
    if passes is not None:
        passes.given = {name: dims[name] for name in unknown}
    elif unknown:
        hint = f"open sizes: {', '.join(titles.values())}" if titles else "every size of this program is fixed"
        raise UnknownDimsError(tuple(unknown), hint)
    ranges = {str(symbol): found for symbol, found in program.range_constraints.items()}
    limits = {symbol: _limits(ranges.get(symbol)) for symbol in titles}
    missing = [title for symbol, title in titles.items() if limits[symbol][1] is None and title not in dims]
    if missing:
        example = ", ".join(f'"{name}": (1, 64)' for name in missing)
        flags = " ".join(f"--dim {name}=1:64" for name in missing)
        error = OpenSizesError(tuple(missing))
        error.hint = f"give each its bounds: dims={{{example}}}, {flags}, or torch.export.Dim(..., max=64)"
        raise error
    return {symbol: _variable(title, limits[symbol], dims.get(title)) for symbol, title in titles.items()}


def _titles(inputs: Sequence[tuple[str, Any]], names: Mapping[str, Any]) -> dict[str, str]:
    """The name of each symbol."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    axes = [(name, axis, size) for name, tensor in inputs for axis, size in enumerate(tensor.shape)]
    for alone in (True, False):  # a size that is a symbol names it before one that is computed from it
        for name, axis, size in axes:
            for symbol in free_symbols(size):
                if symbol in found or (alone and not _is_symbol(size)):
                    continue
                given = names.get(f"{name}:{axis}") if len(free_symbols(size)) == 1 else None
                found[symbol] = fresh_name(identifier(given or f"{name}_dim{axis}"), taken)
    return found


def _is_symbol(size: Any) -> bool:
    return is_symbolic(size) and bool(size.node.expr.is_Symbol)


def _limits(found: Any) -> tuple[int, int | None]:
    """The bounds of a symbol in the program; of none, None. PyTorch's default of 0 is 1 here."""
    if found is None:
        return 1, None
    lower, upper = (int(v) if getattr(v, "is_Integer", False) else None for v in (found.lower, found.upper))
    maximum = upper if upper is not None and upper < 1 << 31 else None
    return max(lower or 0, 1), maximum


def _variable(name: str, limits: tuple[int, int | None], given: Bounds | None) -> Dim | Var:
    own_lo, own_hi = limits
    if given is None:
        assert own_hi is not None
        return own_lo if own_lo == own_hi else Var(name, own_lo, own_hi)
    lo, hi, *rest = (given, given) if isinstance(given, int) else given
    multiple = rest[0] if rest else 1
    if lo < 0 or lo > hi or multiple < 1:
        raise UsageError(f"the dim {name} cannot lie in {lo}..{hi}", hint=f"--dim {name}=1:64")
    if (lo and lo < own_lo) or (own_hi is not None and hi > own_hi):
        maximum = "" if own_hi is None else own_hi
        raise UsageError(
            f"the dim {name} cannot lie in {lo}..{hi}", why=f"the program was exported for {own_lo}..{maximum}",
            hint="export it with other bounds: torch.export.Dim(name, min=..., max=...)",
        )  # fmt: skip
    return lo if lo == hi else Var(name, lo, hi, multiple)
