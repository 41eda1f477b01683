"""Reads types, attributes and declarations of dims."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, get_args

from sdk.compiler.ir.graph import Attr, Attrs
from sdk.compiler.ir.op_table import OpTable
from sdk.compiler.ir.text.scope import Scope, implied_var
from sdk.compiler.ir.types import DType, Quant, TensorType, dtype
from sdk.compiler.sym import Dim, Var
from sdk.compiler.sym.text import read_bounds, read_dim
from sdk.compiler.sym.tokens import Cursor
from sdk.errors import UsageError

__all__ = [
    "Reader",
    "finish_var",
    "one_of",
    "read_attrs",
    "read_defined",
    "read_dims_header",
    "read_dtype",
    "read_loop_var",
    "read_new_dim",
    "read_number",
    "read_type",
]

_WORDS: Final = {"inf": math.inf, "nan": math.nan}


@dataclass(slots=True)
class Reader:
    """A cursor with what is declared at it, and the ops to check written types against (None: unchecked)."""

    cursor: Cursor
    scope: Scope
    ops: OpTable | None = None

    def dim(self) -> Dim:
        """Reads a dim."""
        return read_dim(self.cursor, self.scope.dims)

    def index(self) -> tuple[Dim, ...]:
        """Reads ``[i, j]``."""
        self.cursor.expect("[")
        return self.cursor.many(self.dim, "]")

    def first(self) -> Dim | None:
        """Reads ``first(n)``, the number of lanes of an access that count, if it is there."""
        if not self.cursor.accept("first"):
            return None
        self.cursor.expect("(")
        count = self.dim()
        self.cursor.expect(")")
        return count

    def range(self) -> tuple[Dim, Dim]:
        """Reads ``lo..hi``."""
        lo = self.dim()
        self.cursor.expect("..")
        return lo, self.dim()


def one_of(cursor: Cursor, allowed: object, what: str) -> str:
    """Takes one of the words of a ``Literal`` type."""
    words: tuple[str, ...] = get_args(allowed)
    if cursor.text not in words:
        cursor.fail(f"expected {what}, found {cursor.found()}", hint=f"one of {', '.join(words)}")
    return cursor.advance()


def read_dtype(cursor: Cursor) -> DType:
    """Reads ``i8`` or ``i8x4``."""
    if cursor.kind != "name":
        cursor.fail(f"expected a data type, found {cursor.found()}")
    try:
        found = dtype(cursor.text)
    except UsageError as error:
        cursor.fail(error.message, hint=error.hint)
    cursor.advance()
    return found


def read_number(cursor: Cursor) -> int | float:
    """Reads an integer, a float, ``inf`` or ``nan``, with an optional sign."""
    negative = cursor.accept("-")
    value: int | float
    if cursor.kind == "int":
        value = int(cursor.text)
    elif cursor.kind == "float":
        value = float(cursor.text)
    elif cursor.text in _WORDS:
        value = _WORDS[cursor.text]
    else:
        cursor.fail(f"expected a number, found {cursor.found()}")
    cursor.advance()
    return -value if negative else value


def read_type(r: Reader) -> TensorType:
    """Reads ``i8[1, n] q(0.5, 3)``."""
    kind = read_dtype(r.cursor)
    shape = r.index()
    if not r.cursor.accept("q"):
        return TensorType(kind, shape)
    r.cursor.expect("(")
    scale = float(read_number(r.cursor))
    r.cursor.expect(",")
    quant = Quant(scale, r.cursor.integer())
    r.cursor.expect(")")
    return TensorType(kind, shape, quant)


def read_var(cursor: Cursor) -> Var:
    """Reads ``n in 1..256 multiple 8``."""
    at = cursor.mark
    name = cursor.name("the name of a dim")
    if cursor.text != "in":
        why = "its bounds tell the most memory and time that a run may take"
        cursor.fail(f"the dim {name} has no bounds: {why}", at, hint=f"write {name} in LO..HI")
    cursor.expect("in")
    return read_bounds(cursor, name, at)


def read_new_dim(r: Reader) -> Var:
    """Reads ``k in 0..64`` and declares it."""
    at = r.cursor.mark
    var = read_var(r.cursor)
    if var.name in r.scope.dims:
        r.cursor.fail(f"the dim {var.name} has a value already", at)
    r.scope.dims[var.name] = var
    return var


def read_dims_header(r: Reader) -> tuple[Var, ...]:
    """Reads ``<n in 1..256>`` if it is here, and declares the dims."""
    found = r.cursor.many(lambda: read_var(r.cursor), ">") if r.cursor.accept("<") else ()
    r.scope.dims.update((v.name, v) for v in found)
    return found


def read_loop_var(r: Reader) -> tuple[str, Var | None, int]:
    """Reads ``i`` or ``i:0..8``: the name, the variable where bounds are given, and the mark of the name."""
    at = r.cursor.mark
    name = r.cursor.name("the name of a loop variable")
    return name, read_bounds(r.cursor, name, at) if r.cursor.accept(":") else None, at


def finish_var(r: Reader, name: str, given: Var | None, hi: Dim, at: int) -> Var:
    """The variable of a loop that ends before ``hi``."""
    var = given or implied_var(name, hi)
    if var is None:
        r.cursor.fail(f"{name} needs bounds: its loop has no upper bound", at, hint=f"write {name}:0..LAST")
    return var


def read_defined(r: Reader) -> tuple[TensorType, ...]:
    """Reads the types of results after the dims that they bring: ``<m in 1..9> f32[m], i8[4]`` or ``()``."""
    read_dims_header(r)
    if r.cursor.accept("("):
        r.cursor.expect(")")
        return ()
    found = [read_type(r)]
    while r.cursor.accept(","):
        found.append(read_type(r))
    return tuple(found)


def read_attrs(r: Reader) -> Attrs:
    """Reads ``{k = v, …}`` if it is here; in the order of names."""
    cursor = r.cursor
    if not cursor.accept("{"):
        return ()
    found: dict[str, Attr] = {}

    def one() -> None:
        at = cursor.mark
        name = cursor.name("the name of an attribute")
        if name in found:
            cursor.fail(f"attribute {name} is given twice", at)
        cursor.expect("=")
        found[name] = _attr(r)

    cursor.many(one, "}")
    return tuple(sorted(found.items()))


def _attr(r: Reader) -> Attr:
    cursor = r.cursor
    if cursor.kind == "string":
        return cursor.string()
    if cursor.text in ("true", "false"):
        return cursor.advance() == "true"
    if cursor.accept("("):
        return cursor.many(lambda: _attr(r), ")")
    if cursor.accept("["):
        dim = r.dim()
        cursor.expect("]")
        return dim
    return read_number(cursor)
