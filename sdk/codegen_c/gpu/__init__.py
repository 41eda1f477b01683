"""The GPU backend: the C backend's program with the plan's calls as kernels beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sdk.codegen_c.base import Backend, EmitOptions, Emitted, Runtime, hosted_only, profiling_hooks

if TYPE_CHECKING:
    from sdk.compiler.ir.module import Module

__all__ = ["BACKEND"]


def _emit(module: Module, prefix: str, isa: frozenset[str], options: EmitOptions) -> Emitted:
    from sdk.codegen_c.gpu.files import emit
    from sdk.codegen_c.gpu.webgpu import emit as emit_webgpu

    return (emit_webgpu if options.gpu == "webgpu" else emit)(module, prefix, isa=isa, options=options)


BACKEND = Backend(
    "gpu",
    "C with kernels for GPUs",
    _emit,
    kernels="plain",
    choices=frozenset(("gpu", "toolchain", "externs", "opt", "check")),
    refuses=hosted_only("drivers of GPUs are"),
    runtime=Runtime(("src/wire.c", "src/agent*.c"), profiling_hooks, lambda prefix: ()),
)
