"""The kernels of a module as text for people: what ``sdk inspect --stage kernels`` prints."""

from __future__ import annotations

from dataclasses import replace

from sdk.codegen_c.gpu.kernels import kernels
from sdk.codegen_c.gpu.live import live_of
from sdk.codegen_c.gpu.steps import aligned_of, functions_of
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.text import print_module
from sdk.compiler.machines.gpus.lookup import gpu_for

__all__ = ["listing"]


def listing(module: Module, gpu: str) -> str:
    """The kernels of a planned module with their launches, then what has none and why; ``gpu`` is a row of
    ``machines.gpus``."""
    functions = functions_of(module)
    live = {} if gpu_for(gpu).interface == "webgpu" else live_of(module, functions)
    made = kernels(functions, module.name, gpu, aligned_of(module), live=live)
    parts = []
    for number, code in enumerate(made.codes):
        items = " x ".join(map(str, code.grid.local))
        users = [
            f"{name.strip()} in {' x '.join(map(str, one.groups))} groups"
            for name, own in made.of.items()
            for variant in own
            for one in (variant, variant.instead)
            if one is not None and one.kernel == number
        ]
        language = "WGSL" if gpu_for(gpu).interface == "webgpu" else "OpenCL C"
        size = f"{len(code.words)} words of SPIR-V" if code.words else f"{len(code.text):,} characters of {language}"
        shared = f"{code.operands} operands, {code.local_bytes} B shared"
        head = f"kernel {number} {code.name}: {items} work items, {shared}, {size}"
        text = print_module(Module("kernel", loops={code.name: replace(code.grid.loops, name=code.name)}))
        nest = text.partition("\n\n")[2].strip()  # without the head of a module
        parts.append("\n".join([head, *(f"  of {user}" for user in users), code.text or nest]))
    parts += [f"no kernel of {name.strip()}: {why}" for name, why in made.missing.items()]
    return "\n\n".join(parts)
