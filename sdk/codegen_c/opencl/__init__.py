"""The OpenCL C backend: a planned module as kernels of work items and a list of launches for a host to replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sdk.codegen_c.base import Backend, EmitOptions, Emitted

if TYPE_CHECKING:
    from sdk.boards import Board
    from sdk.compiler.ir.module import Module

__all__ = ["BACKEND"]


def _emit(module: Module, prefix: str, isa: frozenset[str], options: EmitOptions) -> Emitted:
    from sdk.codegen_c.opencl.files import emit

    return emit(module, prefix, options)


def _refuses(board: Board) -> str | None:
    """A host compiles kernels and launches them."""
    return None if board.hosted else "its programs run without an operating system, which OpenCL is a part of"


BACKEND = Backend("opencl", "OpenCL C", _emit, kernels="grid", refuses=_refuses)
