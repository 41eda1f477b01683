"""A planned module as WGSL: a module for each kernel, constants, and entries as data for a host."""

from __future__ import annotations

import json

from sdk.codegen_c.base import EmitOptions, Emitted
from sdk.codegen_c.launches import launches
from sdk.codegen_c.wgsl.kernel import make_kernel
from sdk.compiler.ir.module import Module

__all__ = ["emit"]


def emit(module: Module, prefix: str, options: EmitOptions) -> Emitted:
    """``<prefix>_<kernel>.wgsl`` for each loops function, ``<prefix>.json`` with what each kernel wants and the
    launches of every entry, and ``<prefix>_weights.bin``, which a host puts into the region of constants.

    Raises:
        BuildError: the module uses what has no form in WGSL.
    """
    kernels = {name: make_kernel(loops) for name, loops in module.loops.items()}
    about = {
        kernel.name: {
            "file": f"{prefix}_{kernel.name}.wgsl",
            "group": list(kernel.group),
            "words": kernel.words,
            "local_bytes": kernel.local_bytes,
            "written": list(kernel.written),
        }
        for kernel in kernels.values()
    }
    records, weights = launches(module, prefix, options, kernels, about)
    files: dict[str, str | bytes] = {f"{prefix}_{k.name}.wgsl": k.text for k in kernels.values()}
    files |= {f"{prefix}.json": json.dumps(records, indent=1) + "\n", f"{prefix}_weights.bin": weights}
    return Emitted(files)
