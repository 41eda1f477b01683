"""SPIR-V for Vulkan 1.1, written as words: a planned module as kernels of work items and a list of launches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sdk.codegen_c.base import Backend, EmitOptions, Emitted, hosted_only

if TYPE_CHECKING:
    from sdk.compiler.ir.module import Module

__all__ = ["BACKEND"]


def _emit(module: Module, prefix: str, isa: frozenset[str], options: EmitOptions) -> Emitted:
    from sdk.codegen_c.spirv.files import emit

    return emit(module, prefix, options)


BACKEND = Backend("spirv", "SPIR-V", _emit, kernels="grid", refuses=hosted_only("Vulkan is"))
