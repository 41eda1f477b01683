"""Which loops functions need real arithmetic to round as the IR says: there, compilers may not contract it."""

from __future__ import annotations

from typing import Final

from sdk.compiler.ir.loops import Loops, Op
from sdk.compiler.ir.walk import walk

__all__ = ["is_exacting"]

# What shows that a kernel's integers come of its real arithmetic, which must then round as the IR says.
_EXACTING: Final = frozenset({"floor", "ceil", "round", "trunc", "fmod", "bits"})


def is_exacting(loops: Loops) -> bool:
    """Whether integers or conditions of a kernel may depend on the last bit of its real arithmetic."""
    if any(p.mode != "read" and not p.buffer.dtype.is_float for p in loops.params):
        return True
    for node in walk(loops.body):
        if isinstance(node, Op):
            to_whole = node.name == "cast" and node.args[0].dtype.is_float and not node.dtype.is_float
            if to_whole or node.name in _EXACTING:
                return True
    return False
