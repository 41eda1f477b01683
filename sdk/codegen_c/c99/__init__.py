"""The C99 backend: a planned module as a freestanding header, code and constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sdk.codegen_c.base import Backend, EmitOptions, Emitted, Files, Runtime, Variant, profiling_hooks

if TYPE_CHECKING:
    from sdk.compiler.analysis.work import Cost
    from sdk.compiler.ir.loops import Loops
    from sdk.compiler.ir.module import Module

__all__ = ["BACKEND"]


def _emit(module: Module, prefix: str, isa: frozenset[str], options: EmitOptions) -> Emitted:
    from sdk.codegen_c.program.files import emit

    return emit(module, prefix, isa=isa, options=options)


def _rolled(isa: frozenset[str]) -> bool:
    from sdk.compiler.machines.lookup import machine_for

    return machine_for(isa).assembly is not None


def _cost(loops: Loops, isa: frozenset[str]) -> Cost:
    from sdk.codegen_c.functions.kernel_cost import kernel_cost

    return kernel_cost(loops, isa)


def _feeding(prefix: str) -> tuple[str, ...]:
    macro = prefix.upper()
    return (
        f'{macro}_HOOKS="internal/watchdog.h"',
        f"{macro}_HOOK_BEGIN(self,index)=sdk_rt_watchdog_feed()",
        f"{macro}_HOOK_END(self,index)=((void)0)",
    )


def _dispatch(prefix: str, files: Files, variants: Sequence[Variant]) -> Files:
    from sdk.codegen_c.program.dispatch import dispatch_files

    return dispatch_files(prefix, files, variants)


BACKEND = Backend(
    "c99",
    "C",
    _emit,
    rolled=_rolled,
    cost=_cost,
    choices=frozenset(
        ("threads", "memory", "arena_limit", "isa", "toolchain", "externs", "regions", "weights", "opt", "check", "io")
    ),
    dispatch=_dispatch,
    runtime=Runtime(("src/wire.c", "src/agent*.c"), profiling_hooks, _feeding),
)
