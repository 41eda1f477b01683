"""A planned module as OpenCL C: kernels, constants, and entries as data for a host, their dims as text."""

from __future__ import annotations

import json

from sdk.codegen_c.base import EmitOptions, Emitted
from sdk.codegen_c.launches import launches
from sdk.codegen_c.opencl.stmt import emit_kernel
from sdk.compiler.ir.module import Module

__all__ = ["emit"]


def emit(module: Module, prefix: str, options: EmitOptions) -> Emitted:
    """``<prefix>.cl`` with a kernel per loops function, ``<prefix>.json`` with the launches of every entry, and
    ``<prefix>_weights.bin``, which a host puts into the region of constants.

    Raises:
        BuildError: the module uses what OpenCL C has not, or what is not printed in it yet.
    """
    kernels = {} if module.states else {name: emit_kernel(loops, prefix) for name, loops in module.loops.items()}
    records, weights = launches(module, prefix, options, kernels, f"{prefix}.cl")
    return Emitted(
        {
            f"{prefix}.cl": "\n\n".join(kernel.text for kernel in kernels.values()) + "\n",
            f"{prefix}.json": json.dumps(records, indent=1) + "\n",
            f"{prefix}_weights.bin": weights,
        }
    )
