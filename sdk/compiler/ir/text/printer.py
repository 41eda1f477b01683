"""A module as text that reads back to the same module; constants of many elements by their digest."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.module import Const, Module, Stack, State
from sdk.compiler.ir.text.print_graph import print_graph
from sdk.compiler.ir.text.print_loops import print_loops
from sdk.compiler.ir.text.print_plan import print_plan
from sdk.compiler.ir.text.print_types import TypePrinter, dims_header, layout_text, number
from sdk.compiler.ir.text.scope import Scope
from sdk.compiler.sym.tokens import bare_name, sigil_name

__all__ = ["DIGEST_CHARS", "collect_blobs", "print_module"]

INLINE_ELEMENTS: Final = 16
DIGEST_CHARS: Final = 16


def _is_inline(const: Const | Stack) -> bool:
    # a NaN has bits that its spelling does not tell
    spelled = (data.dtype.kind != "f" or not bool(np.isnan(data).any()) for data in const.arrays)
    return sum(data.size for data in const.arrays) <= INLINE_ELEMENTS and all(spelled)


def collect_blobs(module: Module) -> dict[str, bytes]:
    """The bytes of each constant that the text names by digest: ``parse_module`` needs them beside it."""
    return {c.digest: b"".join(a.tobytes() for a in c.arrays) for c in module.constants if not _is_inline(c)}


def print_module(module: Module) -> str:
    """The text of a module: ``parse_module(print_module(m), collect_blobs(m)) == m``."""
    types = TypePrinter()
    constants = Scope()
    for const in module.constants:
        constants.values[f"@{const.name}"] = const.type
    lines = [f"module {bare_name(module.name)} {module.stage}"]
    lines += _section([_const(c, types) for c in module.constants])
    lines += _section([_state(s, types) for s in module.states.values()])
    for graph in module.graphs.values():
        lines += _section(print_graph(graph, constants, types))
    for loops in module.loops.values():
        lines += _section(print_loops(loops, types))
    for plan in module.plans.values():
        lines += _section(print_plan(plan, types))
    return "\n".join(lines) + "\n"


def _section(lines: list[str]) -> list[str]:
    return ["", *lines] if lines else []


def _const(const: Const | Stack, types: TypePrinter) -> str:
    text = f"const {sigil_name('@', const.name)}: {types.type(const.type, Scope())}{layout_text(const.layout)}"
    text += f" iterations {const.iterations}" if isinstance(const, Stack) else ""
    value = f"blob #{const.digest[:DIGEST_CHARS]}"
    if _is_inline(const):
        value = _literal(np.concatenate([array.reshape(-1) for array in const.arrays]))
    return f"{text} = {value}"


def _literal(data: NDArray[Any]) -> str:
    """Elements in row-major order; floats in the fewest digits that read back to the same bits."""
    match data.dtype.kind:
        case "b":
            items = ["true" if v else "false" for v in data.ravel()]
        case "f":
            items = [_float(v) for v in data.ravel()]
        case _:
            items = [str(int(v)) for v in data.ravel()]
    return f"[{', '.join(items)}]"


def _float(value: np.floating[Any]) -> str:
    """The shortest spelling of its own width where that reads back exactly, else that of a double."""
    short = number(float(str(value)))
    return short if type(value)(float(short)) == value else number(float(value))


def _state(state: State, types: TypePrinter) -> str:
    scope = Scope()
    header = dims_header(types.fresh([state.type], scope), scope)
    text = f"state {sigil_name('@', state.name)}{header}: {types.type(state.type, scope)}"
    if state.layout != "plain" or state.axis:
        text += f" {state.layout}({state.axis})"
    text += f" iterations {state.iterations}" if state.iterations != 1 else ""
    if state.init is None:
        return f"{text} = any"
    return f"{text} = {sigil_name('@', state.init) if isinstance(state.init, str) else state.init}"
