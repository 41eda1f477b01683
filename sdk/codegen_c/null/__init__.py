"""A backend that prints a planned module as a list of its calls: the least a backend does, to clone from."""

from __future__ import annotations

from dataclasses import dataclass

from sdk.codegen_c.null.model import entry_text
from sdk.compiler.ir.module import Module
from sdk.errors import BuildError

__all__ = ["EmitOptions", "emit"]


@dataclass(frozen=True, slots=True)
class EmitOptions:
    """Nothing to choose."""


def emit(module: Module, prefix: str, *, isa: frozenset[str], options: EmitOptions) -> dict[str, str]:
    """One text file that lists the calls of every entry.

    Raises:
        BuildError: the module is not planned.
    """
    if module.stage != "planned":
        raise BuildError(
            f"module {module.name} is at stage {module.stage}, code is printed from planned ones"
        )
    return {f"{prefix}.txt": "\n".join(entry_text(plan) for plan in module.plans.values())}
