"""A backend that prints a planned module as a list of its calls: the least a backend does, to clone from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sdk.codegen_c.base import Backend, EmitOptions, Emitted

if TYPE_CHECKING:
    from sdk.compiler.ir.module import Module

__all__ = ["BACKEND"]


def _emit(module: Module, prefix: str, isa: frozenset[str], options: EmitOptions) -> Emitted:
    from sdk.codegen_c.null.entry import entry_text

    return Emitted({f"{prefix}.txt": "\n".join(entry_text(plan) for plan in module.plans.values())})


BACKEND = Backend("null", "a list of calls", _emit)
