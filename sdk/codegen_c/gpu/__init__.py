"""The GPU backend: the C backend's program with the plan's calls as kernels beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sdk.codegen_c.base import Backend, EmitOptions, Emitted, Runtime, hosted_only, profiling_hooks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sdk.compiler.ir.loops import Loops
    from sdk.compiler.ir.module import Module

__all__ = ["BACKEND"]


def _emit(module: Module, prefix: str, isa: frozenset[str], options: EmitOptions) -> Emitted:
    from sdk.codegen_c.gpu.files import emit
    from sdk.codegen_c.gpu.webgpu import emit as emit_webgpu

    return (emit_webgpu if options.gpu == "webgpu" else emit)(module, prefix, isa=isa, options=options)


def _hooks(prefix: str) -> tuple[str, ...]:
    """Those of C, for steps that run so, and one for what the device says that a step took."""
    return (*profiling_hooks(prefix), f"{prefix.upper()}_HOOK_TOOK(self,index,ns)=sdk_rt_op_took(index,ns)")


def _listing(module: Module, gpu: str) -> str:
    from sdk.codegen_c.gpu.listing import listing

    return listing(module, gpu)


def _alone(functions: Mapping[str, Loops], prefix: str, gpu: str) -> str:
    from sdk.codegen_c.gpu.files import codes_file
    from sdk.codegen_c.gpu.kernels import kernels

    return codes_file(prefix, kernels(functions, prefix, gpu))


BACKEND = Backend(
    "gpu",
    "C with kernels for GPUs",
    _emit,
    kernels="plain",
    choices=frozenset(("gpu", "on_processor", "toolchain", "externs", "opt", "check", "weights")),
    refuses=hosted_only("drivers of GPUs are"),
    runtime=Runtime(("src/wire.c", "src/agent*.c"), _hooks, lambda prefix: ()),
    listing=_listing,
    alone=_alone,
)
