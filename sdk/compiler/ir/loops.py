"""The loops level: a closed union of expressions and statements over buffers, matched exhaustively everywhere.

Indices are dims (``sdk.compiler.sym``), so loop variables and shape symbols share one simplifier. Arithmetic on
values is ``Op(name, …)``: what a name computes, on scalars and on lanes, is one row of ``intrinsics.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sdk.compiler.ir.layout import ROW_MAJOR, Layout
from sdk.compiler.ir.types import DType, TensorType
from sdk.compiler.sym import Dim, Var

__all__ = [
    "Alloc",
    "Atomic",
    "Barrier",
    "Block",
    "Buffer",
    "Eval",
    "For",
    "ForKind",
    "Idx",
    "If",
    "Imm",
    "Let",
    "Load",
    "Loops",
    "Mode",
    "Op",
    "Param",
    "Ref",
    "Rows",
    "Space",
    "Stmt",
    "Store",
    "ValueExpr",
]

Space = Literal["param", "register", "scratch", "local"]
Mode = Literal["read", "write", "update"]


@dataclass(frozen=True, slots=True)
class Buffer:
    """A dense row-major array. ``ring`` = rows kept of axis 0: row ``r`` then lives in slot ``r mod ring``."""

    name: str
    dtype: DType
    shape: tuple[Dim, ...]
    space: Space = "param"
    ring: int | None = None

    @property
    def type(self) -> TensorType:
        """The tensor type of the buffer."""
        return TensorType(self.dtype, self.shape)


# --- expressions -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Imm:
    """A literal. Two are equal that are written alike: 0.0 and -0.0 are not, a NaN is what any other is."""

    value: int | float
    dtype: DType

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Imm) and self.dtype == other.dtype and self._exact() == other._exact()

    def __hash__(self) -> int:
        return hash((self._exact(), self.dtype))

    def _exact(self) -> int | str:
        return self.value.hex() if isinstance(self.value, float) else self.value


@dataclass(frozen=True, slots=True)
class Idx:
    """An index expression used as a value (i32)."""

    dim: Dim
    dtype: DType


@dataclass(frozen=True, slots=True)
class Ref:
    """A scalar bound by ``Let``."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class Load:
    """``buffer[index]``; with lanes, that many consecutive elements of the last axis.

    With a ``count`` only the first ``count`` lanes (all when it exceeds them, none when it is not positive) are
    read, the others are 0.
    """

    buffer: str
    index: tuple[Dim, ...]
    dtype: DType
    count: Dim | None = None


@dataclass(frozen=True, slots=True)
class Op:
    """A pure operation of the intrinsic table on values."""

    name: str
    args: tuple[ValueExpr, ...]
    dtype: DType


ValueExpr = Imm | Idx | Ref | Load | Op

# --- statements ------------------------------------------------------------------------------------------------

ForKind = Literal["serial", "parallel", "vector", "unroll", "bind"]


@dataclass(frozen=True, slots=True)
class Block:
    """Statements in order. ``Alloc`` and ``Let`` hold to the end of their block."""

    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class For:
    """``for var in lo..hi`` (hi exclusive). ``axis`` names the hardware axis of kind ``bind``; a non-None
    ``until`` ends the loop early once it is true after an iteration."""

    var: Var
    lo: Dim
    hi: Dim
    body: Block
    kind: ForKind = "serial"
    axis: str = ""
    until: ValueExpr | None = None


@dataclass(frozen=True, slots=True)
class If:
    """Runs ``then`` where ``cond`` is true, else ``orelse``."""

    cond: ValueExpr
    then: Block
    orelse: Block | None = None


@dataclass(frozen=True, slots=True)
class Let:
    """Binds a scalar for the rest of the block."""

    name: str
    value: ValueExpr


@dataclass(frozen=True, slots=True)
class Alloc:
    """Declares a temporary buffer for the rest of the block; its contents start undefined."""

    buffer: Buffer


@dataclass(frozen=True, slots=True)
class Store:
    """``buffer[index] = value``; a value with lanes fills consecutive elements of the last axis, of which a
    ``count`` writes the first ones only, as in ``Load``."""

    buffer: str
    index: tuple[Dim, ...]
    value: ValueExpr
    count: Dim | None = None


@dataclass(frozen=True, slots=True)
class Eval:
    """Calls a library symbol for its effect; a pointer argument is a ``Load`` of the first element."""

    symbol: str
    args: tuple[ValueExpr, ...]


@dataclass(frozen=True, slots=True)
class Barrier:
    """Every thread of ``scope`` arrives before any goes on."""

    scope: Literal["group", "device"]


@dataclass(frozen=True, slots=True)
class Atomic:
    """``buffer[index] = op(buffer[index], value)`` without interference."""

    op: str
    buffer: str
    index: tuple[Dim, ...]
    value: ValueExpr


Stmt = Block | For | If | Let | Alloc | Store | Eval | Barrier | Atomic


@dataclass(frozen=True, slots=True)
class Param:
    """A buffer argument and how the body uses it. With a ``layout`` the argument is the logical one stored so: a
    constant, which is re-laid at build time."""

    buffer: Buffer
    mode: Mode
    layout: Layout = ROW_MAJOR


@dataclass(frozen=True, slots=True)
class Rows:
    """The range of rows ``lo..hi`` (hi exclusive) a call computes, out of ``extent``: rows of the output, or what a
    schedule made of them for threads to divide."""

    lo: Var
    hi: Var
    extent: Dim


@dataclass(frozen=True, slots=True)
class Loops:
    """A loop-level function: destinations are parameters, dims are bound by unification at a call.

    With ``instances`` several functions share this one: a call gives the dims one of these tuples of numbers, and what
    holds of it holds of them alone."""

    name: str
    dims: tuple[Var, ...]
    params: tuple[Param, ...]
    body: Block
    rows: Rows | None = None
    trace: str = ""
    instances: tuple[tuple[int, ...], ...] = ()

    def param(self, name: str) -> Param:
        """The parameter called ``name``; KeyError when absent."""
        for p in self.params:
            if p.buffer.name == name:
                return p
        raise KeyError(name)

    @property
    def layouts(self) -> dict[str, Layout]:
        """The layouts of the parameters that have one."""
        return {p.buffer.name: p.layout for p in self.params if p.layout.steps}
