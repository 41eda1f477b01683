"""Plans as text."""

from __future__ import annotations

from typing import assert_never

from sdk.compiler.ir.plan import Bind, Check, Copy, Plan, PlanBuffer, PlanCall, PlanStmt, Repeat, Wait
from sdk.compiler.ir.text.print_loops import var_name
from sdk.compiler.ir.text.print_types import TypePrinter, dims_header, var_header
from sdk.compiler.ir.text.scope import Scope
from sdk.compiler.sym.tokens import bare_name, sigil_name, string

__all__ = ["print_plan"]


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(sigil_name("%", n) for n in names)


def print_plan(plan: Plan, types: TypePrinter) -> list[str]:
    """The lines of a plan."""
    scope = Scope()
    head = f"plan {sigil_name('@', plan.name)}{dims_header(plan.dims, scope)}"
    fresh = f" binds {dims_header(plan.fresh, scope)}" if plan.fresh else ""
    bound = f" lower_bound {plan.lower_bound}" if plan.lower_bound else ""
    lines = [f"{head}({_names(plan.inputs)}) -> ({_names(plan.outputs)}){fresh}{bound} {{"]
    for var, value in plan.places:
        text = types.dim(value, scope)
        scope.dims[var.name] = var
        lines.append(f"  place {var_header(var)} = {text}")
    for r in plan.regions:
        lines.append(f"  region {bare_name(r.name)}: {r.kind}[{types.dim(r.bytes, scope)}] align {r.align}")
    lines += [_buffer(b, types, scope) for b in plan.buffers]
    _body(plan.body, types, scope, "  ", lines)
    return [*lines, "}"]


def _buffer(buffer: PlanBuffer, types: TypePrinter, scope: Scope) -> str:
    text = f"  {buffer.role} {sigil_name('%', buffer.name)}: {types.type(buffer.type, scope)}"
    text += f" at {bare_name(buffer.region)}[{types.dim(buffer.offset, scope)}]"
    if buffer.ring is not None:
        text += f" ring {buffer.ring}"
    return f"{text} alias {sigil_name('%', buffer.alias)}" if buffer.alias else text


def _body(body: tuple[PlanStmt, ...], types: TypePrinter, scope: Scope, pad: str, lines: list[str]) -> None:
    for stmt in body:
        match stmt:
            case PlanCall():
                lines.append(pad + _call(stmt, types, scope))
            case Copy():
                lines.append(f"{pad}copy {sigil_name('%', stmt.dst)} = {sigil_name('%', stmt.src)}")
            case Wait():
                lines.append(f"{pad}wait {stmt.on}")
            case Bind():
                value = sigil_name("%", stmt.value) if isinstance(stmt.value, str) else types.dim(stmt.value, scope)
                lines.append(f"{pad}bind {bare_name(stmt.var.name)} = {value}{_what(stmt.what)}")
            case Check():
                left, right = types.dim(stmt.left, scope), types.dim(stmt.right, scope)
                lines.append(f"{pad}check {left} == {right}{_what(stmt.what)}")
            case Repeat():
                bounds = f"{types.dim(stmt.lo, scope)}..{types.dim(stmt.hi, scope)}"
                lines.append(f"{pad}repeat {var_name(stmt.var, stmt.hi)} in {bounds}{_carry(stmt)} {{")
                inner = scope.child()
                inner.dims[stmt.var.name] = stmt.var
                _body(stmt.body, types, inner, pad + "  ", lines)
                lines.append(f"{pad}}}")
            case _:
                assert_never(stmt)


def _carry(stmt: Repeat) -> str:
    return "" if stmt.carry is None else f" carry {' = '.join(sigil_name('%', name) for name in stmt.carry)}"


def _what(text: str) -> str:
    return f" from {string(text)}" if text else ""


def _call(call: PlanCall, types: TypePrinter, scope: Scope) -> str:
    callee = f"extern {string(call.callee)}" if call.extern else sigil_name("@", call.callee)
    text = f"call {call.index} {callee}({_names(call.args)})"
    if call.dims:
        text += f" dims{types.index(call.dims, scope)}"
    if call.rows is not None:
        text += f" rows {types.dim(call.rows[0], scope)}..{types.dim(call.rows[1], scope)}"
    if call.split is not None:
        split = call.split
        text += f" split {split.threads} by {split.granule} work {types.dim(split.work, scope)}"
    if call.scratch:
        text += f" scratch {sigil_name('%', call.scratch)}"
    if call.place:
        text += f" on {string(call.place)}"
    return f"{text} from ({', '.join(map(string, call.ops))})" if call.ops else text
