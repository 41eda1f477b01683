"""Loops functions as text."""

from __future__ import annotations

from typing import Final, assert_never

from sdk.compiler.ir.loops import (
    Alloc,
    Atomic,
    Barrier,
    Block,
    Buffer,
    Eval,
    For,
    Idx,
    If,
    Imm,
    Let,
    Load,
    Loops,
    Op,
    Param,
    Ref,
    Rows,
    Stmt,
    Store,
    ValueExpr,
)
from sdk.compiler.ir.text.print_types import TypePrinter, dims_header, layout_text, number
from sdk.compiler.ir.text.scope import Scope, implied_dtype, implied_var, is_word
from sdk.compiler.ir.types import F32, I32
from sdk.compiler.sym import Dim, Var, free_vars
from sdk.compiler.sym.text import print_bounds
from sdk.compiler.sym.tokens import bare_name, sigil_name, string

__all__ = ["INFIX", "print_loops", "var_name"]

# Spelling and strength of the operations written between their arguments; all associate to the left.
INFIX: Final = {
    "or": ("|", 1),
    "xor": ("^", 2),
    "and": ("&", 3),
    "lt": ("<", 4),
    "le": ("<=", 4),
    "gt": (">", 4),
    "ge": (">=", 4),
    "eq": ("==", 4),
    "shl": ("<<", 5),
    "shr": (">>", 5),
    "add": ("+", 6),
    "sub": ("-", 6),
    "mul": ("*", 7),
}
_STRONGEST: Final = 8


def print_loops(loops: Loops, types: TypePrinter) -> list[str]:
    """The lines of a loops function."""
    scope = Scope()
    head = f"loops {sigil_name('@', loops.name)}{dims_header(loops.dims, scope)}("
    params = [_param(p, scope, types) for p in loops.params]
    for p in loops.params:
        scope.buffers[p.buffer.name] = p.buffer
    tail = []
    if loops.rows:
        tail.append(_rows(loops.rows, scope, types))
    if loops.instances:
        tail.append(f"instances {', '.join(f'[{_numbers(values)}]' for values in loops.instances)}")
    if loops.trace:
        tail.append(f"trace {string(loops.trace)}")
    out: list[str] = []
    printer = _Body(types, out)
    printer.block(loops.body, scope, "  ")
    first = f"{head}{', '.join(params)}) {{" if not tail else f"{head}{', '.join(params)})"
    rest = [f"    {t}" for t in tail[:-1]] + ([f"    {tail[-1]} {{"] if tail else [])
    return [first, *rest, *out, "}"]


def _numbers(values: tuple[int, ...]) -> str:
    return ", ".join(map(str, values))


def var_name(var: Var, hi: Dim) -> str:
    """``i``, with its bounds as ``i:0..8`` where the end of its loop does not imply them."""
    name = bare_name(var.name)
    return name if implied_var(var.name, hi) is var else f"{name}:{print_bounds(var)}"


def _rows(rows: Rows, scope: Scope, types: TypePrinter) -> str:
    extent = types.dim(rows.extent, scope)
    names = [var_name(v, rows.extent + 1) for v in (rows.lo, rows.hi)]
    scope.dims[rows.lo.name] = rows.lo
    scope.dims[rows.hi.name] = rows.hi
    return f"rows {names[0]}, {names[1]} of {extent}"


def _param(param: Param, scope: Scope, types: TypePrinter) -> str:
    return f"{param.mode} {_buffer(param.buffer, scope, types, 'param')}{layout_text(param.layout)}"


def _buffer(buffer: Buffer, scope: Scope, types: TypePrinter, usual: str) -> str:
    text = f"{sigil_name('%', buffer.name)}: {types.type(buffer.type, scope)}"
    if buffer.space != usual:
        text += f" in {buffer.space}"
    return text if buffer.ring is None else f"{text} ring {buffer.ring}"


class _Body:
    """Writes statements as lines."""

    def __init__(self, types: TypePrinter, out: list[str]) -> None:
        self.types = types
        self.out = out

    def block(self, block: Block, scope: Scope, pad: str) -> None:
        """The statements of a block, each declaring into ``scope``."""
        for stmt in block.body:
            self.stmt(stmt, scope, pad)

    def stmt(self, stmt: Stmt, scope: Scope, pad: str) -> None:
        """One statement."""
        out = self.out
        match stmt:
            case Store():
                out.append(f"{pad}{self._target(stmt, scope)} = {self.expr(stmt.value, scope)}")
            case For():
                self._for(stmt, scope, pad)
            case Let():
                out.append(f"{pad}let {sigil_name('$', stmt.name)} = {self.expr(stmt.value, scope)}")
                scope.let(stmt.name, stmt.value.dtype)
            case Alloc():
                out.append(f"{pad}alloc {_buffer(stmt.buffer, scope, self.types, '')}")
                scope.buffers[stmt.buffer.name] = stmt.buffer
            case If():
                self._if(stmt, scope, pad)
            case Block():
                out.append(f"{pad}{{")
                self.block(stmt, scope.child(), pad + "  ")
                out.append(f"{pad}}}")
            case Eval():
                args = ", ".join(self.expr(a, scope) for a in stmt.args)
                out.append(f"{pad}eval {string(stmt.symbol)}({args})")
            case Barrier():
                out.append(f"{pad}barrier {stmt.scope}")
            case Atomic():
                target = self._target(stmt, scope)
                out.append(f"{pad}atomic {bare_name(stmt.op)} {target} = {self.expr(stmt.value, scope)}")
            case _:
                assert_never(stmt)

    def _target(self, place: Store | Atomic | Load, scope: Scope) -> str:
        count = None if isinstance(place, Atomic) else place.count
        first = "" if count is None else f" first({self.types.dim(count, scope)})"
        return sigil_name("%", place.buffer) + self.types.index(place.index, scope) + first

    def _for(self, stmt: For, scope: Scope, pad: str) -> None:
        text = f"{pad}for {var_name(stmt.var, stmt.hi)} in "
        text += f"{self.types.dim(stmt.lo, scope)}..{self.types.dim(stmt.hi, scope)}"
        if stmt.kind != "serial":
            text += f" {stmt.kind}"
        if stmt.axis:
            text += f" axis {string(stmt.axis)}"
        inner = scope.child()
        inner.dims[stmt.var.name] = stmt.var
        if stmt.until is not None:
            # the condition is seen from inside the loop, at the end of an iteration
            text += f" until {self.expr(stmt.until, inner)}"
        self.out.append(text + " {")
        self.block(stmt.body, inner, pad + "  ")
        self.out.append(f"{pad}}}")

    def _if(self, stmt: If, scope: Scope, pad: str) -> None:
        self.out.append(f"{pad}if {self.expr(stmt.cond, scope)} {{")
        self.block(stmt.then, scope.child(), pad + "  ")
        if stmt.orelse is not None:
            self.out.append(f"{pad}}} else {{")
            self.block(stmt.orelse, scope.child(), pad + "  ")
        self.out.append(f"{pad}}}")

    def expr(self, e: ValueExpr, scope: Scope, strength: int = 0) -> str:
        """An expression; ``strength`` is that of the operation around it."""
        match e:
            case Op():
                return self._op(e, scope, strength)
            case Load():
                buffer = scope.buffers.get(e.buffer)
                text = self._target(e, scope)
                return text if buffer is not None and buffer.dtype == e.dtype else f"{text}:{e.dtype}"
            case Imm():
                usual = F32 if isinstance(e.value, float) else I32
                return number(e.value) if e.dtype == usual else f"{number(e.value)}:{e.dtype}"
            case Idx():
                return self._idx(e, scope)
            case Ref():
                name = sigil_name("$", e.name)
                return name if scope.lets.get(e.name) == e.dtype else f"{name}:{e.dtype}"
            case _:
                assert_never(e)

    def _idx(self, e: Idx, scope: Scope) -> str:
        text = self.types.dim(e.dim, scope)
        var = _variable(e.dim)
        if var is None or scope.dims.get(var.name) is not var:
            text = f"idx({text})"
        return text if e.dtype == I32 else f"{text}:{e.dtype}"

    def _op(self, e: Op, scope: Scope, strength: int) -> str:
        if e.name == "cast" and len(e.args) == 1:
            return f"{e.dtype}({self.expr(e.args[0], scope)})"
        implied = implied_dtype(e.name, e.args) == e.dtype
        if implied and len(e.args) == 2 and e.name in INFIX:
            sign, own = INFIX[e.name]
            # few readers know how shifts bind
            inner = (_STRONGEST, _STRONGEST) if e.name in ("shl", "shr") else (own, own + 1)
            text = f"{self.expr(e.args[0], scope, inner[0])} {sign} {self.expr(e.args[1], scope, inner[1])}"
            return f"({text})" if own < strength else text
        name = string(e.name) if is_word(e.name) else bare_name(e.name)
        text = f"{name}({', '.join([self.expr(a, scope) for a in e.args])})"
        return text if implied else f"{text}:{e.dtype}"


def _variable(dim: Dim) -> Var | None:
    """The variable that ``dim`` is; None when it is something else."""
    names = free_vars(dim)
    (only,) = names if len(names) == 1 else (None,)
    return only if only is not None and only.expr is dim else None
