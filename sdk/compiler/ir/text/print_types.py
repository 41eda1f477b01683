"""Types, attributes and declarations of dims as text."""

from __future__ import annotations

from collections.abc import Iterable

from sdk.compiler.ir.graph import Attr, Attrs
from sdk.compiler.ir.layout import Layout
from sdk.compiler.ir.text.scope import Scope
from sdk.compiler.ir.types import TensorType
from sdk.compiler.sym import Dim, Expr, Var, free_vars
from sdk.compiler.sym.text import DimPrinter, print_bounds
from sdk.compiler.sym.tokens import bare_name, string
from sdk.errors import BuildError

__all__ = ["TypePrinter", "dims_header", "layout_text", "number"]


def number(value: int | float) -> str:
    """A literal; a float always has a point or an exponent, or is ``inf`` or ``nan``."""
    return repr(float(value)) if isinstance(value, float) else str(int(value))


def layout_text(layout: Layout) -> str:
    """`` layout tile(1, 4)``; "" for one without steps."""
    return f" layout {layout}" if layout.steps else ""


def var_header(var: Var) -> str:
    """``n in 1..256``."""
    return f"{bare_name(var.name)} in {print_bounds(var)}"


def dims_header(dims: tuple[Var, ...], scope: Scope) -> str:
    """``<n in 1..256>``, "" for none; declares them."""
    for var in dims:
        scope.dims[var.name] = var
    return f"<{', '.join(map(var_header, dims))}>" if dims else ""


class TypePrinter:
    """Prints dims and types, sharing the text of dims over a module."""

    def __init__(self) -> None:
        self._dims = DimPrinter()

    def dim(self, dim: Dim, scope: Scope) -> str:
        """A dim."""
        return self._dims.text(dim, scope.dims)

    def attr(self, value: Attr, scope: Scope) -> str:
        """An attribute's value; a symbolic dim stands in brackets.

        Raises:
            BuildError: not a value that attributes may have.
        """
        match value:
            case bool():
                return "true" if value else "false"
            case int() | float():
                return number(value)
            case str():
                return string(value)
            case Expr():
                return f"[{self.dim(value, scope)}]"
            case tuple():
                items = ", ".join([self.attr(v, scope) for v in value])
                return f"({items}{',' if len(value) == 1 else ''})"
        why = "attributes are ints, floats, strings, bools, dims and tuples of them"
        raise BuildError(f"an attribute holds {value!r}", why=why)

    def attrs(self, given: Attrs, scope: Scope) -> str:
        """`` {k = v, …}``; "" for none."""
        if not given:
            return ""
        return " {" + ", ".join([f"{bare_name(k)} = {self.attr(v, scope)}" for k, v in given]) + "}"

    def index(self, index: Iterable[Dim], scope: Scope) -> str:
        """``[i, j]``."""
        return f"[{', '.join([self._dims.text(d, scope.dims) for d in index])}]"

    def type(self, type: TensorType, scope: Scope) -> str:
        """``i8[1, n] q(0.5, 3)``."""
        text = f"{type.dtype}{self.index(type.shape, scope)}"
        if type.quant:
            text += f" q({number(float(type.quant.scale))}, {type.quant.zero_point})"
        return text

    def defined(self, types: Iterable[TensorType], scope: Scope) -> str:
        """The types of results, after a declaration of the dims that they bring: ``<m in 1..9> f32[m]``."""
        listed = tuple(types)
        header = dims_header(self.fresh(listed, scope), scope)
        text = ", ".join([self.type(t, scope) for t in listed]) or "()"
        return f"{header} {text}" if header else text

    def fresh(self, types: Iterable[TensorType], scope: Scope) -> tuple[Var, ...]:
        """The dims of types whose names mean nothing yet, in order."""
        found: dict[str, Var] = {}
        for type_ in types:
            for dim in type_.shape:
                for var in sorted(free_vars(dim), key=lambda v: v.name):
                    if var.name not in scope.dims:
                        found.setdefault(var.name, var)
        return tuple(found.values())
