"""An entry as text: its statements, one a line, in order."""

from __future__ import annotations

from sdk.compiler.ir.plan import Bind, Check, Copy, Plan, PlanCall, PlanStmt, Repeat, Wait

__all__ = ["entry_text"]


def entry_text(plan: Plan) -> str:
    """The statements of ``plan``, indented under its name."""
    return "\n".join([plan.name, *_lines(plan.body, 1)]) + "\n"


def _lines(body: tuple[PlanStmt, ...], depth: int) -> list[str]:
    out: list[str] = []
    for stmt in body:
        match stmt:
            case PlanCall():
                text = f"call {stmt.callee}({', '.join(stmt.args)})"
            case Copy():
                text = f"copy {stmt.src} to {stmt.dst}"
            case Repeat():
                text = f"repeat {stmt.var.name} in {stmt.lo}..{stmt.hi}"
            case Wait():
                text = f"wait {stmt.on}"
            case Bind():
                text = f"bind {stmt.var.name} to {stmt.value}"
            case Check():
                text = f"check {stmt.left} is {stmt.right}"
        out.append("    " * depth + text)
        if isinstance(stmt, Repeat):
            out += _lines(stmt.body, depth + 1)
    return out
