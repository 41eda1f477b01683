"""A backend that prints a planned module as OpenCL C kernels and a list of launches for a host to replay."""

from __future__ import annotations

from dataclasses import dataclass

from sdk.codegen_c.opencl.model import entry_record, records_text
from sdk.codegen_c.opencl.stmt import emit_kernel
from sdk.compiler.ir.module import Module
from sdk.errors import BuildError

__all__ = ["EmitOptions", "emit"]


@dataclass(frozen=True, slots=True)
class EmitOptions:
    """Nothing to choose."""


def emit(module: Module, prefix: str, *, isa: frozenset[str], options: EmitOptions) -> dict[str, str]:
    """``<prefix>.cl`` with a kernel per loops function, ``<prefix>.json`` with the launches of every entry.

    Raises:
        BuildError: the module is not planned, or uses what OpenCL C has no spelling for here.
    """
    if module.stage != "planned":
        raise BuildError(f"module {module.name} is at stage {module.stage}, code is printed from planned ones")
    kernels = {name: emit_kernel(loops, prefix) for name, loops in module.loops.items()}
    records = [entry_record(plan, module, kernels) for plan in module.plans.values()]
    source = "\n\n".join(kernel.text for kernel in kernels.values()) + "\n"
    return {f"{prefix}.cl": source, f"{prefix}.json": records_text(records)}
