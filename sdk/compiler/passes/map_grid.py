"""For targets of many work items: the outer independent loops of each kernel become axes of its launch.

before: loops @f(…) { for i in 0..n { for j in 0..64 { %o[i, j] = … } } }
after:  loops @f(…) { for i in 0..n bind axis "global.y" { for j in 0..64 bind axis "global.x" { %o[i, j] = … } } }
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from sdk.compiler.analysis.dependence import conflict
from sdk.compiler.ir.loops import Alloc, Block, For, Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.walk import walk
from sdk.compiler.schedules.locate import loop_of
from sdk.compiler.schedules.trace import Schedule
from sdk.compiler.sym import free_vars

__all__ = ["MapGrid"]

AXES: Final = ("global.x", "global.y", "global.z")  # consecutive work items take the innermost loop


@dataclass(frozen=True)
class MapGrid:
    """Binds up to three perfectly nested loops of independent iterations that need no scratch of their own; a nest
    without any runs as one item."""

    name = "map-grid"

    def run(self, module: Module) -> Module:
        """The scheduled module with the outer loops of every loops function bound."""
        loops = {name: _bound(f) for name, f in module.loops.items()}
        if all(loops[name] is f for name, f in module.loops.items()):
            return module
        return replace(module, loops=loops)


def _bound(loops: Loops) -> Loops:
    chain: list[For] = []
    block: Block = loops.body
    while len(block.body) == 1 and isinstance(loop := block.body[0], For) and len(chain) < len(AXES):
        inside = {outer.var for outer in chain} & (free_vars(loop.lo) | free_vars(loop.hi))
        own = any(isinstance(n, Alloc) and n.buffer.space == "scratch" for n in walk(loop.body))
        if loop.kind != "serial" or inside or own or conflict(loop, loops) is not None:
            break
        chain.append(loop)
        block = loop.body
    if not chain:
        return loops
    schedule = Schedule(loops)
    for loop, axis in zip(reversed(chain), AXES, strict=False):
        schedule.bind(loop_of(loop), axis)
    return schedule.done()
