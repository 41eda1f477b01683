"""What generated code says of itself: what each kernel computes and how, and which compiler flags it is made for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from sdk.codegen_c.functions.function import CFunction
from sdk.codegen_c.functions.unit import Unit
from sdk.codegen_c.program.banner import comment
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import PlanCall, walk_plan

__all__ = ["guards", "kernel_note", "layers_of"]

SHOWN: Final = 3  # layers that the note of a kernel names
# What the preprocessor says where the compiler's flags allow what code of that capability is made of.
_MACROS: Final[Mapping[str, str]] = {
    "thumb2": "defined(__thumb2__)",
    "dsp": "defined(__ARM_FEATURE_DSP)",
    "mve": "defined(__ARM_FEATURE_MVE)",
    "mve-fp": "defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)",
    "neon": "defined(__ARM_NEON)",
    "dotprod": "defined(__ARM_FEATURE_DOTPROD)",
    "i8mm": "defined(__ARM_FEATURE_MATMUL_INT8)",
    "sse2": "defined(__SSE2__)",
    "avx": "defined(__AVX__)",
    "avx2": "defined(__AVX2__)",
    "fma": "defined(__FMA__)",
    "avxvnni": "defined(__AVXVNNI__)",
    "avx512f": "defined(__AVX512F__)",
    "avx512bw": "defined(__AVX512BW__)",
    "avx512vl": "defined(__AVX512VL__)",
    "avx512vnni": "defined(__AVX512VNNI__)",
    "simd128": "defined(__wasm_simd128__)",
    "relaxed-simd": "defined(__wasm_relaxed_simd__)",
}


def guards(unit: Unit, code: str) -> list[tuple[str, str]]:
    """Capabilities that ``code`` is made of, each with the condition of the preprocessor that the flags allow it: with
    others it would not compile, or be slow."""
    if not unit.vectors_used and "__asm__" not in code:
        return []
    needs = unit.machine.needs | (unit.machine.floats.needs if unit.vectors_used else frozenset())
    return [(one, _MACROS[one]) for one in sorted(needs) if one in _MACROS]


def layers_of(module: Module) -> dict[str, list[str]]:
    """What each loops function computes of the source model, in the order of its calls."""
    found: dict[str, list[str]] = {}
    for plan in module.plans.values():
        for call in (s for s in walk_plan(plan.body) if isinstance(s, PlanCall) and not s.extern):
            found.setdefault(call.callee, []).append(" + ".join(call.ops) or call.callee)
    return found


def kernel_note(prefix: str, loops: Loops, printed: CFunction, layers: Sequence[str]) -> str:
    """The comment of a kernel: its layers, the types and shapes of what it reads and writes, and how it computes."""
    names = list(dict.fromkeys(layers))
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    shapes = ", ".join(f"{p.buffer.name} {p.buffer.type.dtype}{_shape(p.buffer.type.shape)}" for p in loops.params)
    return (
        f"/* {comment(', '.join(names[:SHOWN]) or loops.name)}{more}\n"
        f"   {comment(shapes)}\n   {_method(prefix, printed)} */\n"
    )


def _shape(shape: Sequence[object]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _method(prefix: str, printed: CFunction) -> str:
    """How a kernel computes, by what it was printed as."""
    if printed.assembly:
        count = len(printed.assembly)
        return f"{count} {'blocks' if count > 1 else 'block'} of inline assembly, the rest is C"
    lanes = {int(n) for n in re.findall(rf"\b{re.escape(prefix)}_[iuf]\d+x(\d+)", printed.text)}
    return f"C with vectors of {', '.join(map(str, sorted(lanes)))} lanes" if lanes else "plain C"
