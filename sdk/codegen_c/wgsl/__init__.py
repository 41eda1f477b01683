"""The WGSL backend: a planned module as kernels for WebGPU and a list of launches for a host to replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sdk.codegen_c.base import Backend, EmitOptions, Emitted, hosted_only

if TYPE_CHECKING:
    from sdk.compiler.ir.module import Module

__all__ = ["BACKEND"]


def _emit(module: Module, prefix: str, isa: frozenset[str], options: EmitOptions) -> Emitted:
    from sdk.codegen_c.wgsl.files import emit

    return emit(module, prefix, options)


BACKEND = Backend("wgsl", "WGSL", _emit, kernels="grid", refuses=hosted_only("WebGPU is"))
